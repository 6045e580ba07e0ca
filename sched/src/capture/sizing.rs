//! What captures will reserve, before any of them is made.

use std::fmt;
use std::sync::Arc;

use streamweir_alloc::{ArenaConfig, Lease, PoolReport};
use streamweir_hal::owned::map_unit;

use super::begin::Start;
use super::handle::Capture;
use super::options::{CaptureOptions, Placement};
use super::path;
use super::plan::unplaced;
use super::rewrite::Poison;
use super::sink::{AnySink, Planned};
use crate::device::{Device, DeviceInner};
use crate::error::{During, Error, Result};
use crate::graph::GroupInner;

/// The scratch that a replay group will reserve, found from recordings that are not
/// captured.
///
/// An engine gives what memory is left to its cache, and has to know what its buckets
/// will take before it captures the first of them. Each recording goes through the pools
/// of a capture on an arena without memory, which grows as that of a replay group does on
/// this device; nothing is captured, nothing is launched, and no memory is reserved.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{ArenaConfig, CaptureOptions, Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<f32>("out", 1 << 20)?;
/// let step = |cap: &streamweir::Capture| {
///     let main = cap.origin();
///     let x = main.scratch::<f32>("x", 1 << 20)?;
///     main.fill(&x, 0)?;
///     main.copy(&out, &x)
/// };
/// let mut sizing = device.sizing("buckets", ArenaConfig::default())?;
/// let (pools, ()) = sizing.record::<_, Error>("batch of 8", step)?;
/// assert_eq!(pools.peak, 4 << 20);
///
/// let group = device.replay_group("buckets", ArenaConfig::default());
/// let (graph, ()) = device.capture::<_, Error>(CaptureOptions::new("batch of 8").group(&group), step)?;
/// assert_eq!(group.reserved(), sizing.reserved());
/// # drop(graph);
/// # Ok(())
/// # }
/// ```
pub struct Sizing {
    device: Arc<DeviceInner>,
    home: Arc<GroupInner>,
    /// What the graphs would hold.
    leases: Vec<Lease>,
}

impl Device {
    /// What a [`replay_group`](Self::replay_group) with such an arena will reserve, to be
    /// found by recording its captures in the order in which they will be made.
    ///
    /// # Errors
    /// When the driver does not say how it maps memory.
    pub fn sizing(&self, name: &str, arena: ArenaConfig) -> Result<Sizing> {
        let unit = map_unit(&self.inner.reclaim)
            .during(|| format!("asking how memory is mapped, for sizing \"{name}\""))?;
        let arena = unplaced::growing_by(name, arena, unit);
        Ok(Sizing {
            device: self.inner.clone(),
            home: GroupInner::in_arena(&self.inner, name, arena),
            leases: Vec::new(),
        })
    }
}

impl Sizing {
    /// Records what will be captured with these options, in this group, and says what its
    /// pools take. The group in the options does not count, nor do instruments.
    ///
    /// # Errors
    /// What `record` returns; an unjoined stream; what a
    /// [planned capture](CaptureOptions::planned) refuses, for a buffer has no address
    /// here: a library's work has to be a [`foreign_call`](crate::Stream::foreign_call).
    pub fn record<R, E: From<Error>>(
        &mut self,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&Capture) -> Result<R, E>,
    ) -> Result<(PoolReport, R), E> {
        self.device.outside("Sizing::record")?;
        let mut options = options.into();
        options.group = None;
        options.guarded = false;
        (options.poison, options.taps) = (Poison::Off, None);
        options.check()?;
        let is_planned = options.placement == Placement::Planned;
        if is_planned {
            options.check_plannable()?;
        }
        let device = &self.device;
        let priority = options.priorities.of(&options.origin);
        let origin = Arc::new(device.take_stream(priority)?);
        let start = Start::in_home(device, options, self.home.clone());
        // Of a planned capture the plan takes the bytes, of a live one the pools.
        let without = unplaced::like(&self.home.arena).open();
        let (of_plan, of_pools) = match is_planned {
            true => (start.view(), without),
            false => (without, start.view()),
        };
        let pools = start.scratch_pools(of_pools).placed_later();
        let sink = AnySink::Planned(Planned::new(origin, of_plan));
        let capture = start.capture(pools, sink)?;
        let result = record(&capture)?;
        let (report, lease) = path::into_size(&capture.recorder, is_planned)?;
        self.leases.push(lease);
        Ok((report, result))
    }

    /// Bytes that the group's arena will have when all that was recorded has been
    /// captured into it, in that order.
    pub fn reserved(&self) -> u64 {
        self.home.arena.reserved()
    }
}

impl fmt::Debug for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sizing")
            .field("arena", &self.home.arena.name())
            .field("recorded", &self.leases.len())
            .field("reserved", &self.reserved())
            .finish()
    }
}
