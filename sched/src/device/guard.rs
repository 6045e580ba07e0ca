//! Guards: bytes beside a buffer that nobody has, watched for whoever writes them.
//!
//! # What is guarded
//! What is made through [`Device::guarded`]: each persistent buffer, and each
//! segment of the arena of a replay group or of a capture without one. Before and
//! after it lie [`GUARD`] bytes, after it also what rounding up left, filled with
//! a pattern that depends on the address, so that a copy of a guard to another
//! place shows as well. An address keeps every alignment up to [`GUARD`].
//! Memory of somebody else ([`Persistent::from_raw`](super::Persistent::from_raw))
//! has no guards, nor has the scratch of an eager run, which the next run uses
//! again.
//!
//! A segment may be reserved inside a capture, where nothing can be copied: its
//! guards are set when the capture has ended, and inside an engine's capture by
//! the first check.
//!
//! [`Device::guarded`]: super::Device::guarded

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;
use streamweir_base::{ALIGNMENT, Backing, BackingError};
use streamweir_hal::driver::{DriverError, DriverResult, ErrorClass};
use streamweir_hal::owned::{self, DeviceBacking, DeviceMemory, Shared};
use streamweir_trace::ByteRange;

use crate::error::{During, Name, Result};

/// Bytes before and after: a page, which keeps the alignment of what is inside.
pub(super) const GUARD: u64 = 4096;

/// Memory with guards, which lives as long as one of its owners.
pub(crate) struct Guard {
    pub(super) name: String,
    inside: ByteRange,
    outer: ByteRange,
    /// Whether the pattern is there. No other lock is taken under it.
    set: Mutex<bool>,
    /// Gives the memory back when it goes.
    _memory: Box<dyn Any + Send + Sync>,
}

/// The guards of a device.
#[derive(Default)]
pub(crate) struct Guards {
    all: Mutex<Vec<Weak<Guard>>>,
}

/// Before or after a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At lower addresses.
    Before,
    /// At higher addresses.
    After,
}

impl Guards {
    pub(super) fn live(&self) -> Vec<Arc<Guard>> {
        let mut all = self.all.lock();
        all.retain(|guard| guard.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    fn add(&self, guard: &Arc<Guard>) {
        self.all.lock().push(Arc::downgrade(guard));
    }

    /// Sets those that could not be set when they were made. Not inside a capture.
    pub(crate) fn set_all(&self, reclaim: &Shared) -> Result<()> {
        for guard in self.live() {
            guard
                .set(reclaim)
                .during(|| format!("setting the guards of \"{}\"", guard.name))?;
        }
        Ok(())
    }
}

impl Guard {
    /// Device memory for `bytes` bytes between guards, which are not set yet.
    pub(super) fn around(
        guards: &Guards,
        reclaim: &Shared,
        name: &str,
        bytes: u64,
    ) -> DriverResult<Arc<Self>> {
        let outer = bytes.max(ALIGNMENT).checked_add(2 * GUARD).ok_or_else(|| {
            DriverError::of("mem_alloc", ErrorClass::OutOfMemory)
                .with(format!("{bytes} bytes and their guards"))
        })?;
        let memory = DeviceMemory::new(reclaim, outer)?;
        let outer = memory.range();
        let start = outer.start + GUARD;
        let guard = Arc::new(Self {
            name: name.to_owned(),
            inside: ByteRange::new(start, start + bytes),
            outer,
            set: Mutex::new(false),
            _memory: Box::new(memory),
        });
        guards.add(&guard);
        Ok(guard)
    }

    pub(super) fn inside(&self) -> ByteRange {
        self.inside
    }

    pub(super) fn sides(&self) -> [(Side, ByteRange); 2] {
        [
            (
                Side::Before,
                ByteRange::new(self.outer.start, self.inside.start),
            ),
            (Side::After, ByteRange::new(self.inside.end, self.outer.end)),
        ]
    }

    /// Writes the pattern, unless it is there. Whether it was.
    pub(super) fn set(&self, reclaim: &Shared) -> DriverResult<bool> {
        let mut set = self.set.lock();
        if std::mem::replace(&mut *set, true) {
            return Ok(true);
        }
        for (_, range) in self.sides() {
            // SAFETY: the memory lives while the guard does, and its guards are
            // nobody's: no work of ours uses them.
            unsafe { owned::upload(reclaim, range.start, &wanted(range)) }
                .inspect_err(|_| *set = false)?;
        }
        Ok(false)
    }
}

/// What a byte of a guard holds.
pub(super) fn pattern(address: u64) -> u8 {
    let mut word = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^= word >> 29;
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[(address & 7) as usize]
}

pub(super) fn wanted(range: ByteRange) -> Vec<u8> {
    (range.start..range.end).map(pattern).collect()
}

/// A backing whose every segment lies between guards. It makes none longer:
/// behind a segment lies its guard.
pub(crate) struct GuardedBacking {
    below: Arc<DeviceBacking>,
    guards: Arc<Guards>,
    arena: Name,
    segments: Mutex<BTreeMap<u64, Arc<Guard>>>,
}

/// Memory of the backing below.
struct Reserved {
    below: Arc<DeviceBacking>,
    range: ByteRange,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.below.release(self.range);
    }
}

impl GuardedBacking {
    pub(crate) fn new(below: DeviceBacking, guards: &Arc<Guards>, arena: Name) -> Self {
        Self {
            below: Arc::new(below),
            guards: guards.clone(),
            arena,
            segments: Mutex::new(BTreeMap::new()),
        }
    }
}

impl Backing for GuardedBacking {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let with_guards = bytes.checked_add(2 * GUARD).ok_or_else(|| {
            BackingError::out_of_memory(format!("{bytes} bytes and their guards"))
        })?;
        let outer = self.below.reserve(with_guards)?;
        let end = outer.end - GUARD;
        let inside = ByteRange::new(outer.start + GUARD, end - end % ALIGNMENT);
        let guard = Arc::new(Guard {
            name: format!("a segment of arena {}", self.arena),
            inside,
            outer,
            set: Mutex::new(false),
            _memory: Box::new(Reserved {
                below: self.below.clone(),
                range: outer,
            }),
        });
        self.guards.add(&guard);
        self.segments.lock().insert(inside.start, guard);
        Ok(inside)
    }

    fn release(&self, piece: ByteRange) {
        // Outside the lock, for it calls the backing below.
        let guard = self.segments.lock().remove(&piece.start);
        drop(guard);
    }
}
