//! Where eager runs live: an arena, streams and proofs, kept from one run to the next.
//!
//! A run has a home to itself while it is recorded. Its work may be under way when the
//! next run gets the home; that one begins on the same origin stream, and so comes
//! after all of it. So runs of one home never are in flight together, and share an arena
//! as the graphs of a replay group do. Of runs that are recorded at one time, on several
//! threads or one inside the other, each has a home of its own.
//!
//! A run that fails takes its home with it: what it has enqueued keeps what it uses.

use std::collections::HashMap;
use std::sync::Arc;

use streamweir_alloc::ArenaConfig;
use streamweir_hal::owned::{OwnedEvent, OwnedStream};
use streamweir_trace::Trace;
use streamweir_verify::Report;

use super::like::Likeness;
use super::waits::Waits;
use crate::capture::recorded::Recorded;
use crate::device::DeviceInner;
use crate::error::{Name, Result};
use crate::graph::GroupInner;
use crate::turns::{Enrolled, Footprint};

/// Runs of so many names are remembered; of more, those that ran last.
const REMEMBERED: usize = 64;

/// The home of one run at a time.
pub(in crate::capture) struct Home {
    /// What its arena was asked for as.
    config: ArenaConfig,
    pub(super) group: Arc<GroupInner>,
    /// Streams that no run has, the one to be taken first at the end.
    streams: Vec<Arc<OwnedStream>>,
    /// Carries every fork and join.
    pub(super) event: OwnedEvent,
    pub(super) waits: Waits,
    /// By the run's name.
    remembered: HashMap<Name, Remembered>,
    runs: u64,
}

/// A run that was proved.
pub(in crate::capture) struct Proved {
    pub(in crate::capture) trace: Trace,
    pub(in crate::capture) report: Report,
    pub(super) footprint: Footprint,
}

struct Remembered {
    like: Likeness,
    proved: Arc<Proved>,
    enrolled: Option<Enrolled>,
    /// When it was last of use.
    at: u64,
}

impl Proved {
    pub(in crate::capture) fn new(trace: Trace, report: Report) -> Arc<Self> {
        Arc::new(Self {
            footprint: Footprint::of(&trace),
            trace,
            report,
        })
    }
}

impl Home {
    /// A home that nobody is in.
    pub(in crate::capture) fn take(
        device: &Arc<DeviceInner>,
        config: ArenaConfig,
    ) -> Result<Box<Self>> {
        if let Some(kept) = device.store.take(|home: &Self| home.config == config) {
            return Ok(kept);
        }
        Ok(Box::new(Self {
            config,
            group: GroupInner::of_runs(device, config),
            streams: Vec::new(),
            event: device.take_event()?,
            waits: Waits::default(),
            remembered: HashMap::new(),
            runs: 0,
        }))
    }

    /// Lets all homes go that nobody is in. Returns the bytes of their arenas that are
    /// given back at once.
    pub(in crate::capture) fn trim_all(device: &DeviceInner) -> u64 {
        let homes = std::iter::from_fn(|| device.store.take(|_: &Self| true));
        homes.map(|home| home.let_go(device)).sum()
    }

    /// Lets the home go when its last run has ended.
    fn let_go(self: Box<Self>, device: &DeviceInner) -> u64 {
        let bytes = self.group.arena.trim();
        if let Some(last) = self.group.turns.last() {
            let fence = last.fence(&device.reclaim);
            device.reclaim.retire(vec![fence], self);
        }
        bytes
    }

    /// What stands for all runs of the home.
    pub(in crate::capture) fn group(&self) -> &Arc<GroupInner> {
        &self.group
    }

    /// A stream of this priority, the one that was given back last.
    pub(in crate::capture) fn take_stream(
        &mut self,
        device: &DeviceInner,
        priority: i32,
    ) -> Result<Arc<OwnedStream>> {
        let fits = |stream: &Arc<OwnedStream>| stream.priority() == priority;
        if let Some(at) = self.streams.iter().rposition(fits) {
            return Ok(self.streams.remove(at));
        }
        let stream = Arc::new(device.take_stream(priority)?);
        device.watch(&stream);
        Ok(stream)
    }

    /// Leaves the home to the next run. The streams are those of this one, the origin
    /// first, and it is what the next one will begin on.
    pub(super) fn leave(mut self: Box<Self>, device: &DeviceInner, streams: &[Arc<OwnedStream>]) {
        self.streams.extend(streams.iter().rev().cloned());
        device.store.put(self);
    }

    /// The proof of a run like this one, given that it may be compared.
    pub(in crate::capture) fn proof_of(&mut self, recorded: &Recorded) -> Option<Arc<Proved>> {
        self.runs += 1;
        let known = self.remembered.get_mut(recorded.name())?;
        if !known.like.is_of(recorded) {
            return None;
        }
        known.at = self.runs;
        Some(known.proved.clone())
    }

    /// Remembers the proof of a run that may be compared.
    pub(in crate::capture) fn remember(
        &mut self,
        name: &Name,
        like: Likeness,
        proved: &Arc<Proved>,
    ) {
        if self.remembered.len() >= REMEMBERED && !self.remembered.contains_key(name) {
            let oldest = self.remembered.iter().min_by_key(|(_, known)| known.at);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.remembered.remove(&name);
            }
        }
        let known = Remembered {
            like,
            proved: proved.clone(),
            enrolled: None,
            at: self.runs,
        };
        self.remembered.insert(name.clone(), known);
    }

    /// Enters a run, which is of the footprint's bytes as long as that lives.
    pub(super) fn enroll(
        &mut self,
        device: &DeviceInner,
        name: &Name,
        proved: &Arc<Proved>,
        footprint: &Arc<Footprint>,
    ) -> Enrolled {
        let known = self.remembered.get_mut(name);
        let mut known = known.filter(|known| Arc::ptr_eq(&known.proved, proved));
        let before = known.as_ref().and_then(|known| known.enrolled.as_ref());
        let enrolled = device
            .groups
            .enroll_again(&self.group.turns, footprint, before);
        if let Some(known) = &mut known {
            known.enrolled = Some(enrolled.clone());
        }
        enrolled
    }
}
