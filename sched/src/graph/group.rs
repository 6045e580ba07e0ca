//! Replay groups.

use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_alloc::{Arena, ArenaConfig, Holder};
use streamweir_base::sync::Mutex;

use super::footprint::Footprint;
use super::handover::Turn;
use super::launch::Launch;
use super::ranks;
use crate::device::{Device, DeviceInner};
use crate::error::{During, Error, Name, Result};

/// Graphs that never are in flight together, and so may share one arena.
///
/// Each capture of the group finds all bytes of the arena free: what the group
/// reserves is the most that one of its graphs needs, not the sum. A graph
/// that is captured without a group has a group of its own, and still takes
/// turns with every graph of any group whose bytes conflict with its own.
#[derive(Clone)]
pub struct ReplayGroup {
    pub(crate) inner: Arc<GroupInner>,
}

pub(crate) struct GroupInner {
    pub(crate) device: Weak<DeviceInner>,
    pub(crate) turn: Arc<Turn<Arc<Launch>>>,
    pub(crate) arena: Arc<Arena>,
    name: Name,
    members: Mutex<Vec<Weak<Footprint>>>,
}

impl ReplayGroup {
    pub(crate) fn new(device: &Device, name: &str, config: ArenaConfig) -> Self {
        Self {
            inner: GroupInner::new(&device.inner, name, config, device.guarded),
        }
    }

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
        let Some(last) = self.inner.turn.last() else {
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
    ) -> Arc<Self> {
        Arc::new(Self {
            device: Arc::downgrade(device),
            turn: Arc::new(Turn::new(device.next_number())),
            arena: device.arena(name, config, guarded),
            name: name.into(),
            members: Mutex::ranked(ranks::MEMBERS, Vec::new()),
        })
    }

    fn conflicts(&self, footprint: &Footprint) -> bool {
        let members = self.members.lock();
        members
            .iter()
            .filter_map(Weak::upgrade)
            .any(|member| member.conflicts(footprint))
    }
}

impl DeviceInner {
    /// The latest launch of each group.
    pub(crate) fn latest_launches(&self) -> Vec<Arc<Launch>> {
        let groups: Vec<_> = {
            let groups = self.groups.lock();
            groups.iter().filter_map(Weak::upgrade).collect()
        };
        groups
            .iter()
            .filter_map(|group| group.turn.last())
            .collect()
    }

    /// Enters a graph into `home` and finds the turns it takes: the group's
    /// own, and those of all groups with a graph that conflicts. A graph of
    /// such a group need not know: it takes its own group's turn, and so meets
    /// this graph there.
    pub(crate) fn enroll(
        &self,
        home: &Arc<GroupInner>,
        footprint: &Arc<Footprint>,
    ) -> Vec<Arc<Turn<Arc<Launch>>>> {
        // One lock over the whole, so that of two graphs that enter at once
        // the later one sees the earlier.
        let mut groups = self.groups.lock();
        groups.retain(|group| group.strong_count() > 0);
        let known: Vec<_> = groups.iter().filter_map(Weak::upgrade).collect();
        let mut turns = vec![home.turn.clone()];
        for group in &known {
            if !Arc::ptr_eq(group, home) && group.conflicts(footprint) {
                turns.push(group.turn.clone());
            }
        }
        if !known.iter().any(|group| Arc::ptr_eq(group, home)) {
            groups.push(Arc::downgrade(home));
        }
        let mut members = home.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(footprint));
        turns.sort_by_key(|turn| turn.rank());
        turns
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
