//! Replay groups.

use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_alloc::{Arena, ArenaConfig, Holder};

use crate::device::{Device, DeviceInner};
use crate::error::{During, Error, Name, Result};
use crate::turns::TurnGroup;

/// Graphs that never are in flight together, and so may share one arena.
///
/// Each capture of the group finds all bytes of the arena free: what the group
/// reserves is the most that one of its graphs needs, not the sum. A graph
/// that is captured without a group has a group of its own, and still takes
/// turns with every graph of any group whose bytes conflict with its own.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{ArenaConfig, CaptureOptions, Device, Error, part};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4096)?;
/// let group = device.replay_group("buckets", ArenaConfig::default());
/// let capture = |rows: usize| {
///     let options = CaptureOptions::new(format!("batch of {rows}")).group(&group);
///     device.capture::<_, Error>(options, |cap| {
///         let main = cap.origin();
///         let x = main.scratch::<u32>("x", rows)?;
///         main.fill(&x, 7)?;
///         main.copy(part(&out, 0..rows)?, &x)
///     })
/// };
/// let (large, ()) = capture(4096)?;
/// let reserved = group.reserved();
/// let (small, ()) = capture(1024)?;
/// assert_eq!(group.reserved(), reserved); // the most that one needs, not the sum
///
/// // On whatever streams: the two are never in flight together.
/// small.replay(&device.stream("a")?)?;
/// large.replay(&device.stream("b")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReplayGroup {
    pub(crate) inner: Arc<GroupInner>,
}

pub(crate) struct GroupInner {
    pub(crate) device: Weak<DeviceInner>,
    pub(crate) turns: Arc<TurnGroup>,
    pub(crate) arena: Arc<Arena>,
    name: Name,
}

impl ReplayGroup {
    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Bytes of device memory that the group's arena has.
    pub fn reserved(&self) -> u64 {
        self.inner.arena.reserved()
    }

    /// Gives arena segments back that no graph uses; returns their bytes.
    pub fn trim(&self) -> u64 {
        self.inner.arena.trim()
    }

    /// Who holds memory of the group's arena, most first: captures that are going
    /// on and graphs, by the names of their captures. What is left here when all
    /// graphs of the group should be gone was leaked.
    pub fn holders(&self) -> Vec<Holder> {
        self.inner.arena.holders()
    }

    /// Waits until the group's latest launch has ended.
    ///
    /// # Errors
    /// When it failed, or inside a capture.
    pub fn synchronize(&self) -> Result<()> {
        let Some(device) = self.inner.device.upgrade() else {
            return Ok(());
        };
        device.outside("ReplayGroup::synchronize")?;
        let Some(last) = self.inner.turns.last() else {
            return Ok(());
        };
        last.event(&device.reclaim)
            .and_then(|event| event.wait())
            .during(|| format!("waiting for replay group \"{}\"", self.inner.name))
    }

    pub(crate) fn check_device(&self, device: &Arc<DeviceInner>) -> Result<()> {
        if std::ptr::eq(self.inner.device.as_ptr(), Arc::as_ptr(device)) {
            return Ok(());
        }
        Err(Error::OtherDevice {
            what: format!("replay group \"{}\"", self.inner.name),
            used_on: device.reclaim.info().name.clone(),
        })
    }
}

impl GroupInner {
    pub(crate) fn new(
        device: &Arc<DeviceInner>,
        name: &str,
        config: ArenaConfig,
        guarded: bool,
        of_many: bool,
    ) -> Arc<Self> {
        Self::in_arena(device, name, device.arena(name, config, guarded, of_many))
    }

    /// A group on an arena that is there.
    pub(crate) fn in_arena(device: &Arc<DeviceInner>, name: &str, arena: Arc<Arena>) -> Arc<Self> {
        Arc::new(Self {
            device: Arc::downgrade(device),
            turns: TurnGroup::new(device.next_number()),
            arena,
            name: name.into(),
        })
    }
}

impl GroupInner {
    /// For eager runs, one after the other.
    pub(crate) fn of_runs(device: &Arc<DeviceInner>, config: ArenaConfig) -> Arc<Self> {
        let name: Name = "eager runs".into();
        Arc::new(Self {
            device: Arc::downgrade(device),
            turns: TurnGroup::of_runs(device.next_number()),
            arena: device.arena(name.clone(), config, false, true),
            name,
        })
    }
}

impl Device {
    /// A group of graphs that never are in flight together and share one
    /// arena: the buckets of one model, say.
    pub fn replay_group(&self, name: &str, arena: ArenaConfig) -> ReplayGroup {
        ReplayGroup {
            inner: GroupInner::new(&self.inner, name, arena, self.guarded, true),
        }
    }
}

impl fmt::Debug for ReplayGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayGroup")
            .field("name", &self.inner.name)
            .field("reserved", &self.reserved())
            .finish()
    }
}
