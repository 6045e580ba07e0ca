//! Stand-ins for addresses before there are any.
//!
//! While a planned capture is recorded, its pools work on an arena without
//! memory: ranges that no device has, handed out by the rule of a live capture.
//! So every check of the pools is the one of live captures, and the layout that
//! they come to is valid and reserves what a live capture would. The plan has
//! to be better than that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streamweir_alloc::{Arena, ArenaConfig};
use streamweir_base::sync::Mutex;
use streamweir_base::{Backing, BackingError};
use streamweir_trace::ByteRange;

/// Above the addresses of every device, so that one which were not replaced
/// would fault and never hit memory.
const BASE: u64 = 1 << 62;

/// How many bytes there are.
const BYTES: u64 = 1 << 62;

#[derive(Debug)]
struct NoMemory {
    next: AtomicU64,
}

impl Backing for NoMemory {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        // The order in which two threads reserve decides nothing but which of
        // them has which range.
        let taken = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                next.checked_add(bytes).filter(|&end| end <= BYTES)
            });
        match taken {
            Ok(start) => Ok(ByteRange::new(BASE + start, BASE + start + bytes)),
            Err(_) => Err(BackingError::out_of_memory(
                "the buffers of one capture are larger than an address space",
            )),
        }
    }

    fn release(&self, _segment: ByteRange) {}
}

/// Addresses between the starts of two ranges that can grow: more than any device has
/// memory.
const APART: u64 = 1 << 48;

/// Ranges that no device has either, in pieces as large as those of a device that maps
/// memory by `unit` bytes and lets a range grow.
#[derive(Debug)]
struct Growing {
    unit: u64,
    ends: Mutex<Vec<u64>>,
}

impl Growing {
    fn rounded(&self, bytes: u64) -> Result<u64, BackingError> {
        let rounded = bytes.checked_next_multiple_of(self.unit.max(1));
        let rounded = rounded.filter(|&bytes| bytes <= APART);
        rounded.ok_or_else(|| {
            BackingError::out_of_memory("the buffers of one capture are larger than any device")
        })
    }
}

impl Backing for Growing {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let bytes = self.rounded(bytes)?;
        let mut ends = self.ends.lock();
        let start = (ends.len() as u64)
            .checked_mul(APART)
            .filter(|&start| start <= BYTES - APART)
            .ok_or_else(|| BackingError::out_of_memory("there are too many segments"))?;
        let range = ByteRange::new(BASE + start, BASE + start + bytes);
        ends.push(range.end);
        Ok(range)
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        let bytes = self.rounded(bytes)?;
        let mut ends = self.ends.lock();
        let at = ((piece.start - BASE) / APART) as usize;
        let most = BASE + (at as u64 + 1) * APART;
        Ok(match ends.get_mut(at) {
            Some(end) if *end == piece.end && piece.end + bytes <= most => {
                *end = piece.end + bytes;
                Some(ByteRange::new(piece.end, *end))
            }
            _ => None,
        })
    }

    fn release(&self, piece: ByteRange) {
        let at = (piece.start.saturating_sub(BASE) / APART) as usize;
        if let Some(end) = self.ends.lock().get_mut(at)
            && *end == piece.end
        {
            *end = piece.start;
        }
    }
}

/// An arena without memory that grows as one of a device does which maps memory by
/// `unit` bytes, or which gives allocations.
pub(in crate::capture) fn growing_by(
    name: &str,
    config: ArenaConfig,
    unit: Option<u64>,
) -> Arc<Arena> {
    let backing: Arc<dyn Backing> = match unit {
        None => Arc::new(NoMemory {
            next: AtomicU64::new(0),
        }),
        Some(unit) => Arc::new(Growing {
            unit,
            ends: Mutex::new(Vec::new()),
        }),
    };
    Arena::new(name, backing, config)
}

/// An arena without memory that grows as `arena` does.
pub(in crate::capture) fn like(arena: &Arena) -> Arc<Arena> {
    let backing = NoMemory {
        next: AtomicU64::new(0),
    };
    Arena::new(arena.name().clone(), Arc::new(backing), arena.config())
}
