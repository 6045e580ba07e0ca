//! Stand-ins for addresses before there are any.
//!
//! While a planned capture is recorded, its pools work on an arena without
//! memory: ranges that no device has, handed out by the rule of a live capture.
//! So every check of the pools is the one of live captures, and the layout that
//! they come to is valid and reserves what a live capture would. The plan has
//! to be better than that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streamweir_alloc::Arena;
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

/// An arena without memory that grows as `arena` does.
pub(in crate::capture) fn like(arena: &Arena) -> Arc<Arena> {
    let backing = NoMemory {
        next: AtomicU64::new(0),
    };
    Arena::new(arena.name().clone(), Arc::new(backing), arena.config())
}
