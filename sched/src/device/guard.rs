//! Guards: bytes beside a buffer that nobody has, watched for whoever writes them.
//!
//! # What is guarded
//! What is made through [`Device::guarded`]: each persistent buffer, and each
//! segment of the arena of a replay group or of a capture without one. Before and
//! after it lie [`GUARD`] bytes, after it also what rounding up left, filled with
//! a pattern that depends on the address, so that a copy of a guard to another
//! place shows as well. An address keeps every alignment up to [`GUARD`].
//! Memory of somebody else ([`Persistent::from_raw`](super::Persistent::from_raw))
//! has no guards, nor has the scratch of an eager run, which is gone by the time
//! somebody could look.
//!
//! A segment may be reserved inside a capture, where nothing can be copied: its
//! guards are set when the capture has ended, and inside an engine's capture by
//! the first check.
//!
//! # What a check costs
//! Nothing is added to a graph or to a replay. A check waits for the device and
//! reads every guard back.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;
use streamweir_base::{ALIGNMENT, Backing, BackingError};
use streamweir_trace::ByteRange;

use super::Device;
use crate::driver::{DriverError, DriverResult, ErrorClass};
use crate::error::{During, Name, Result};
use crate::owned::{self, DeviceBacking, DeviceMemory, Shared};

/// Bytes before and after: a page, which keeps the alignment of what is inside.
pub(super) const GUARD: u64 = 4096;

/// Memory with guards, which lives as long as one of its owners.
pub(crate) struct Guard {
    name: String,
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

/// What a check of all guards found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardReport {
    /// Buffers and segments whose guards were looked at.
    pub checked: usize,
    /// Those whose guards were set just now, so that there was nothing to look at.
    pub new: usize,
    /// Guards that somebody has written. They are set anew, so that each damage is
    /// reported once.
    pub damaged: Vec<Damage>,
}

/// A guard that somebody has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The persistent buffer, or the arena's segment.
    pub buffer: String,
    /// Its bytes.
    pub range: ByteRange,
    /// Which of its guards.
    pub side: Side,
    /// The address of the first damaged byte.
    pub first: u64,
    /// What is there.
    pub found: u8,
    /// How many bytes are damaged.
    pub bytes: u64,
}

/// Before or after a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At lower addresses.
    Before,
    /// At higher addresses.
    After,
}

impl GuardReport {
    /// Whether nobody has written a guard.
    pub fn is_clean(&self) -> bool {
        self.damaged.is_empty()
    }
}

impl fmt::Display for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let damaged = self.damaged.len();
        write!(f, "{damaged} damaged guards of {} buffers", self.checked)?;
        for damage in &self.damaged {
            write!(f, "\n  {damage}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, distance) = match self.side {
            Side::Before => ("before", self.range.start - self.first),
            Side::After => ("after", self.first - self.range.end),
        };
        let away = match self.side {
            Side::Before => format!("{distance} bytes below its start"),
            Side::After => format!("{distance} bytes past its end"),
        };
        write!(
            f,
            "\"{}\" at {}: {} bytes of the guard {side} it were written, the first {away}, where {:#04x} \
             is now instead of {:#04x}",
            self.buffer,
            self.range,
            self.bytes,
            self.found,
            pattern(self.first),
        )
    }
}

impl Device {
    /// This device, with guards around what is made through the handle: persistent
    /// buffers, and the arenas of replay groups and of captures. What was made
    /// before has none.
    ///
    /// ```
    /// # use streamweir_sched::{Device, Error};
    /// # fn main() -> Result<(), Error> {
    /// let device = Device::sim(1).guarded();
    /// let cache = device.persistent::<u32>("cache", 100)?;
    /// let report = device.check_guards()?;
    /// assert_eq!(report.checked, 1);
    /// assert!(report.is_clean(), "{report}");
    /// # drop(cache);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn guarded(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            guarded: true,
        }
    }

    /// Waits for all work of the device and looks at every guard.
    ///
    /// # Errors
    /// When that work failed, or inside a capture. A damaged guard is in the
    /// report.
    pub fn check_guards(&self) -> Result<GuardReport> {
        self.inner.outside("Device::check_guards")?;
        self.inner.settle()?;
        let mut report = GuardReport::default();
        for guard in self.inner.guards.live() {
            let looked = guard.check(&self.inner.reclaim);
            match looked.during(|| format!("looking at the guards of \"{}\"", guard.name))? {
                None => report.new += 1,
                Some(damaged) => {
                    report.checked += 1;
                    report.damaged.extend(damaged);
                }
            }
        }
        Ok(report)
    }
}

impl Guards {
    fn live(&self) -> Vec<Arc<Guard>> {
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

    fn sides(&self) -> [(Side, ByteRange); 2] {
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

    /// What is damaged; none when the guards had to be set first.
    fn check(&self, reclaim: &Shared) -> DriverResult<Option<Vec<Damage>>> {
        if !self.set(reclaim)? {
            return Ok(None);
        }
        let mut damaged = Vec::new();
        for (side, range) in self.sides() {
            let mut found = vec![0; range.len() as usize];
            // SAFETY: as in `set`; the caller has waited for the work that might
            // write here although it should not.
            unsafe { owned::download(reclaim, &mut found, range.start)? };
            let wanted = wanted(range);
            let differ = || (0..found.len()).filter(|&at| found[at] != wanted[at]);
            let Some(first) = differ().next() else {
                continue;
            };
            damaged.push(Damage {
                buffer: self.name.clone(),
                range: self.inside,
                side,
                first: range.start + first as u64,
                found: found[first],
                bytes: differ().count() as u64,
            });
            // SAFETY: as in `set`.
            unsafe { owned::upload(reclaim, range.start, &wanted)? };
        }
        Ok(Some(damaged))
    }
}

/// What a byte of a guard holds.
fn pattern(address: u64) -> u8 {
    let mut word = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^= word >> 29;
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[(address & 7) as usize]
}

fn wanted(range: ByteRange) -> Vec<u8> {
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
