//! Where arenas get device memory from.
//!
//! An arena that grows must not move, for graphs hold its addresses. So each
//! segment is a reserved range of addresses, longer than what it begins with,
//! and grows by memory mapped at its end; a device that cannot do that gives
//! allocations, and growth is a further one.
//!
//! Addresses whose memory was taken away are used again only when that has
//! happened for certain: a piece that goes while the thread is inside a capture
//! is unmapped later, and until its range is given back nothing is mapped there.
//!
//! Only what was given out is taken back, and once: any other range that is
//! released is left alone and told among the failures of releases.

use std::collections::BTreeMap;

use streamweir_base::sync::Mutex;
use streamweir_base::{Backing, BackingError};
use streamweir_trace::ByteRange;

use super::reclaim::{Garbage, Relaxed, Shared};
use crate::driver::{DriverError, DriverResult, ErrorClass};

/// How many bytes memory of a range is mapped by; none on a device whose arenas are made
/// of allocations.
///
/// # Errors
/// When the driver does not say.
pub fn map_unit(reclaim: &Shared) -> DriverResult<Option<u64>> {
    reclaim.driver().map_unit()
}

/// How many times its first piece a range is long. Addresses are cheap; what a
/// device has of them serves thousands of arenas at this.
const LENGTH: u64 = 16;

/// The memory of arenas, of which each has one.
#[derive(Debug)]
pub struct DeviceBacking {
    reclaim: Shared,
    /// Whether a range is as long as the device's memory, so that it can always grow.
    roomy: bool,
    given: Mutex<Given>,
}

/// What has been given out.
#[derive(Debug, Default)]
struct Given {
    /// The reserved ranges, by their start.
    ranges: BTreeMap<u64, Range>,
    /// Allocations, where ranges cannot be reserved: their ends, by their start.
    allocations: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Range {
    bytes: u64,
    /// Where the next piece goes.
    next: u64,
    /// By their start.
    pieces: BTreeMap<u64, Piece>,
    /// A piece waits to be unmapped, or could not be.
    left_over: bool,
}

#[derive(Debug)]
struct Piece {
    end: u64,
    /// Given out. Before that it is being mapped, and after that unmapped.
    out: bool,
}

/// What a range turned out to be that is released.
enum Released {
    Allocation,
    Piece,
    Unknown,
}

impl DeviceBacking {
    /// A backing on that device, for one arena.
    pub fn new(reclaim: Shared) -> Self {
        Self {
            reclaim,
            roomy: false,
            given: Mutex::default(),
        }
    }

    /// A backing for an arena of which nobody knows how large it becomes, such as one of
    /// many graphs: where ranges of addresses can be reserved, what it gives can be
    /// extended as far as the device has memory.
    pub fn roomy(reclaim: Shared) -> Self {
        Self {
            roomy: true,
            ..Self::new(reclaim)
        }
    }

    fn try_reserve(&self, bytes: u64) -> DriverResult<ByteRange> {
        // Allocation is forbidden under capture, though it touches no stream.
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        let driver = self.reclaim.driver();
        let Some(unit) = driver.map_unit()? else {
            let address = driver.mem_alloc(bytes)?;
            let Some(range) = ByteRange::from_len(address, bytes) else {
                self.reclaim.push(Garbage::Memory(address));
                return Err(DriverError::of("mem_alloc", ErrorClass::InvalidValue));
            };
            self.given.lock().allocations.insert(range.start, range.end);
            return Ok(range);
        };
        let too_large = || {
            DriverError::of("range_reserve", ErrorClass::OutOfMemory).with(format!(
                "{bytes} bytes are more than the device has addresses"
            ))
        };
        let first = bytes.checked_next_multiple_of(unit).ok_or_else(too_large)?;
        // No arena can become larger than the device's memory.
        let most = driver.info().memory.next_multiple_of(unit).max(first);
        let length = match self.roomy {
            true => most,
            false => first.saturating_mul(LENGTH).min(most),
        };
        let start = driver.range_reserve(length)?;
        // SAFETY: the range is new, so nothing is mapped in it.
        if let Err(error) = unsafe { driver.mem_map(start, first) } {
            self.reclaim.push(Garbage::Range(start, length));
            return Err(error);
        }
        let end = start + first;
        let range = Range {
            bytes: length,
            next: end,
            pieces: BTreeMap::from([(start, Piece { end, out: true })]),
            left_over: false,
        };
        self.given.lock().ranges.insert(start, range);
        Ok(ByteRange::new(start, end))
    }

    fn try_extend(&self, piece: ByteRange, bytes: u64) -> DriverResult<Option<ByteRange>> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        let driver = self.reclaim.driver();
        let Some(unit) = driver.map_unit()? else {
            return Ok(None);
        };
        let wanted = {
            let mut given = self.given.lock();
            let found = given.ranges.range_mut(..=piece.start).next_back();
            let Some((&start, range)) = found.filter(|(_, range)| range.next == piece.end) else {
                return Ok(None);
            };
            let end = bytes
                .checked_next_multiple_of(unit)
                .and_then(|bytes| piece.end.checked_add(bytes))
                .filter(|&end| end <= start + range.bytes);
            let Some(end) = end else { return Ok(None) };
            // Nobody else gets these addresses, or gives the range back.
            range.next = end;
            range.pieces.insert(piece.end, Piece { end, out: false });
            ByteRange::new(piece.end, end)
        };
        // SAFETY: the addresses were taken from the range a moment ago, and what
        // was mapped there before has been unmapped (`forget`).
        let mapped = unsafe { driver.mem_map(wanted.start, wanted.len()) };
        if let Err(error) = mapped {
            self.forget(wanted, true);
            return Err(error);
        }
        if let Some(piece) = self.given.lock().piece(wanted) {
            piece.out = true;
        }
        Ok(Some(wanted))
    }

    /// A piece is no more. Its addresses may be used again when nothing is
    /// mapped there any more and nothing follows.
    fn forget(&self, piece: ByteRange, unmapped: bool) {
        let mut given = self.given.lock();
        let found = given.ranges.range_mut(..=piece.start).next_back();
        let Some((&start, range)) = found else { return };
        range.pieces.remove(&piece.start);
        range.left_over |= !unmapped;
        if unmapped && range.next == piece.end {
            range.next = piece.start;
        }
        if range.pieces.is_empty() {
            let (garbage, left_over) = (Garbage::Range(start, range.bytes), range.left_over);
            given.ranges.remove(&start);
            drop(given);
            if left_over {
                // Behind the piece, in the queue.
                self.reclaim.push(garbage);
            } else {
                self.reclaim.give_back(garbage);
            }
        }
    }
}

impl Given {
    /// The piece that is exactly this range.
    fn piece(&mut self, range: ByteRange) -> Option<&mut Piece> {
        let (_, found) = self.ranges.range_mut(..=range.start).next_back()?;
        let piece = found.pieces.get_mut(&range.start)?;
        (piece.end == range.end).then_some(piece)
    }

    /// Takes note that a range is no longer out.
    fn take_back(&mut self, range: ByteRange) -> Released {
        if self.allocations.get(&range.start) == Some(&range.end) {
            self.allocations.remove(&range.start);
            return Released::Allocation;
        }
        match self.piece(range) {
            Some(piece) if piece.out => {
                piece.out = false;
                Released::Piece
            }
            _ => Released::Unknown,
        }
    }
}

impl Backing for DeviceBacking {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        self.try_reserve(bytes).map_err(refusal)
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        self.try_extend(piece, bytes).map_err(refusal)
    }

    fn release(&self, piece: ByteRange) {
        let released = self.given.lock().take_back(piece);
        match released {
            Released::Allocation => self.reclaim.push(Garbage::Memory(piece.start)),
            Released::Piece => {
                let unmapped = self.reclaim.give_back(Garbage::Mapping(piece));
                self.forget(piece, unmapped);
            }
            Released::Unknown => self.reclaim.refuse(
                DriverError::of("mem_free", ErrorClass::InvalidValue)
                    .with(format!("{piece} was not given out, or not as one piece")),
            ),
        }
    }
}

fn refusal(error: DriverError) -> BackingError {
    if error.class == ErrorClass::OutOfMemory {
        BackingError::out_of_memory(error)
    } else {
        BackingError::failed(error)
    }
}
