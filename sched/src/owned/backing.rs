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

use std::collections::BTreeMap;

use streamweir_alloc::sync::Mutex;
use streamweir_alloc::{Backing, BackingError};
use streamweir_trace::ByteRange;

use super::{Garbage, Relaxed, Shared};
use crate::driver::{DriverError, DriverResult, ErrorClass};

/// How many times its first piece a range is long. Addresses are cheap; what a
/// device has of them serves thousands of arenas at this.
const LENGTH: u64 = 16;

/// The memory of arenas, of which each has one.
pub(crate) struct DeviceBacking {
    reclaim: Shared,
    /// The reserved ranges, by their start.
    ranges: Mutex<BTreeMap<u64, Range>>,
}

struct Range {
    bytes: u64,
    /// Where the next piece goes.
    next: u64,
    pieces: usize,
    /// A piece waits to be unmapped, or could not be.
    left_over: bool,
}

impl DeviceBacking {
    pub(crate) fn new(reclaim: Shared) -> Self {
        Self {
            reclaim,
            ranges: Mutex::new(BTreeMap::new()),
        }
    }

    fn try_reserve(&self, bytes: u64) -> DriverResult<ByteRange> {
        // Allocation is forbidden under capture, though it touches no stream.
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        let driver = self.reclaim.driver();
        let Some(unit) = driver.map_unit()? else {
            let address = driver.mem_alloc(bytes)?;
            return ByteRange::from_len(address, bytes).ok_or_else(|| {
                self.reclaim.push(Garbage::Memory(address));
                DriverError::of("mem_alloc", ErrorClass::InvalidValue)
            });
        };
        let too_large = || {
            DriverError::of("range_reserve", ErrorClass::OutOfMemory).with(format!(
                "{bytes} bytes are more than the device has addresses"
            ))
        };
        let first = bytes.checked_next_multiple_of(unit).ok_or_else(too_large)?;
        // No arena can become larger than the device's memory.
        let most = driver.info().memory.next_multiple_of(unit).max(first);
        let length = first.saturating_mul(LENGTH).min(most);
        let start = driver.range_reserve(length)?;
        // SAFETY: the range is new, so nothing is mapped in it.
        if let Err(error) = unsafe { driver.mem_map(start, first) } {
            self.reclaim.push(Garbage::Range(start, length));
            return Err(error);
        }
        let range = Range {
            bytes: length,
            next: start + first,
            pieces: 1,
            left_over: false,
        };
        self.ranges.lock().insert(start, range);
        Ok(ByteRange::new(start, start + first))
    }

    fn try_extend(&self, piece: ByteRange, bytes: u64) -> DriverResult<Option<ByteRange>> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        let driver = self.reclaim.driver();
        let Some(unit) = driver.map_unit()? else {
            return Ok(None);
        };
        let wanted = {
            let mut ranges = self.ranges.lock();
            let found = ranges.range_mut(..=piece.start).next_back();
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
            range.pieces += 1;
            ByteRange::new(piece.end, end)
        };
        // SAFETY: the addresses were taken from the range a moment ago, and what
        // was mapped there before has been unmapped (`forget`).
        let mapped = unsafe { driver.mem_map(wanted.start, wanted.len()) };
        if let Err(error) = mapped {
            self.forget(wanted, true);
            return Err(error);
        }
        Ok(Some(wanted))
    }

    /// A piece is no more. Its addresses may be used again when nothing is
    /// mapped there any more and nothing follows.
    fn forget(&self, piece: ByteRange, unmapped: bool) {
        let mut ranges = self.ranges.lock();
        let found = ranges.range_mut(..=piece.start).next_back();
        let Some((&start, range)) = found else { return };
        range.pieces -= 1;
        range.left_over |= !unmapped;
        if unmapped && range.next == piece.end {
            range.next = piece.start;
        }
        if range.pieces == 0 {
            let (garbage, left_over) = (Garbage::Range(start, range.bytes), range.left_over);
            ranges.remove(&start);
            drop(ranges);
            if left_over {
                // Behind the piece, in the queue.
                self.reclaim.push(garbage);
            } else {
                self.reclaim.give_back(garbage);
            }
        }
    }

    fn is_piece(&self, piece: ByteRange) -> bool {
        let ranges = self.ranges.lock();
        let found = ranges.range(..=piece.start).next_back();
        found.is_some_and(|(start, range)| piece.start < start + range.bytes)
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
        if self.is_piece(piece) {
            let unmapped = self.reclaim.give_back(Garbage::Mapping(piece));
            self.forget(piece, unmapped);
        } else {
            self.reclaim.push(Garbage::Memory(piece.start));
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
