//! The check of guards, and what it finds.
//!
//! Nothing is added to a graph or to a replay. A check waits for the device and
//! reads every guard back.

use std::fmt;

use streamweir_hal::driver::DriverResult;
use streamweir_hal::owned::{self, Shared};
use streamweir_trace::ByteRange;

use super::guard::{Guard, Side, pattern, wanted};
use super::handle::Device;
use crate::error::{During, Result};

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
        self.inner.wait_for_all()?;
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

impl Guard {
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
                range: self.inside(),
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
