//! What eager work comes after: launches of others that were in flight when its run
//! began and whose bytes conflict.
//!
//! # What is promised
//! When a run of a home touches a buffer, all launches that were enqueued before the
//! run began and that conflict there have been put before it. A stream of the run is
//! ordered after such a launch when a command of the stream first touches a buffer
//! where the two conflict, and not before: what conflicts with nothing in flight waits
//! for nothing.
//!
//! # Why it is enough
//! Which bytes a graph reads and writes is known: its footprint, with all that its
//! nodes show; page-locked memory is part of it. What a command touches is known before
//! it is sent, but for two things, and a command that has one of them comes after
//! everything in flight: words of its parameters that are long enough for an address
//! and not declared as one, and memory that a library's call keeps beside what it
//! declares. So does the record of an event that a live graph records, for whoever waits
//! for it takes the latest record for the last one.
//!
//! The order that one stream has got is passed on by forks and joins, as on the device.
//! At a good end all streams are joined, so that what the origin comes after is what
//! the next run on the same origin comes after, too: a launch is waited for once.
//!
//! Other eager runs are not looked at byte by byte. Runs of one home come one after the
//! other on its origin stream; a home comes after all that another one has enqueued.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use streamweir_hal::driver::DriverResult;
use streamweir_hal::owned::{OwnedStream, Shared};
use streamweir_trace::{ByteRange, StreamId};

use crate::capture::recording::{BufferKey, Draft};
use crate::device::{DeviceInner, PersistentInner};
use crate::turns::{Launch, TurnGroup};

/// Groups that have a bit; launches of the rest are waited for when a run begins.
const BITS: usize = 64;

/// The launches that the runs of one home come after, and those that they may have to.
#[derive(Default)]
pub(in crate::capture) struct Waits {
    /// Of the device's groups, when they were looked at.
    version: Option<u64>,
    groups: Vec<Other>,
    /// By the number of a persistent buffer: which groups conflict with whoever reads
    /// it, and with whoever writes it, as bits.
    known: HashMap<u64, [u64; 2]>,
    /// The groups with a launch in flight that this run does not come after as a whole.
    in_flight: u64,
    /// By place among the persistent buffers of this run, likewise.
    of_run: Vec<Option<[u64; 2]>>,
    /// By stream of this run: the groups that it comes after.
    after: Vec<u64>,
}

/// A group of somebody else.
struct Other {
    group: Weak<TurnGroup>,
    /// The launch that was the latest one when the run began.
    latest: Option<Arc<Launch>>,
    /// A launch that all later work of the home comes after.
    passed: Option<Arc<Launch>>,
}

impl Waits {
    /// Begins a run on this stream, in a group of its own.
    pub(in crate::capture) fn begin(
        &mut self,
        device: &DeviceInner,
        own: &Arc<TurnGroup>,
        origin: &Arc<OwnedStream>,
    ) -> DriverResult<()> {
        self.in_flight = 0;
        self.of_run.clear();
        self.after.clear();
        self.look_around(device, own);
        // The runs before are on the same stream, unless this one has another priority.
        if let Some(last) = own.last() {
            last.before(&device.reclaim, origin)?;
        }
        for (at, other) in self.groups.iter_mut().enumerate() {
            let Some(last) = other.latest.take_if(|last| !last.is_on(origin)) else {
                continue;
            };
            if is(&other.passed, &last) {
                continue;
            }
            let of_runs = (other.group.upgrade()).is_none_or(|group| group.is_of_runs());
            if at < BITS && !of_runs {
                self.in_flight |= 1 << at;
                other.latest = Some(last);
            } else {
                last.before(&device.reclaim, origin)?;
                other.passed = Some(last);
            }
        }
        Ok(())
    }

    /// Finds the latest launch of each group. Whoever has launched one of them had
    /// entered its group before, and so is a member that is known here.
    fn look_around(&mut self, device: &DeviceInner, own: &Arc<TurnGroup>) {
        if let Some(groups) = device.groups.changed_since(&mut self.version) {
            self.know(&groups, own);
        }
        loop {
            for other in &mut self.groups {
                other.latest = other.group.upgrade().and_then(|group| group.last());
            }
            match device.groups.changed_since(&mut self.version) {
                Some(groups) => self.know(&groups, own),
                None => return,
            }
        }
    }

    /// The groups of the device, as they are now.
    fn know(&mut self, groups: &[Arc<TurnGroup>], own: &Arc<TurnGroup>) {
        let others = groups.iter().filter(|group| !Arc::ptr_eq(group, own));
        let mut before = std::mem::take(&mut self.groups);
        self.groups = others
            .map(|group| {
                let known = |other: &Other| std::ptr::eq(other.group.as_ptr(), Arc::as_ptr(group));
                let passed = before.iter_mut().find(|other| known(other));
                Other {
                    group: Arc::downgrade(group),
                    latest: None,
                    passed: passed.and_then(|other| other.passed.take()),
                }
            })
            .collect();
        self.known.clear();
    }

    /// Puts what `stream` is about to be given after the launches in flight that
    /// conflict with it; with `all`, after every one.
    #[inline]
    pub(in crate::capture) fn touch(
        &mut self,
        reclaim: &Shared,
        (stream, on): (StreamId, &Arc<OwnedStream>),
        draft: &Draft,
        persistents: &[Arc<PersistentInner>],
        all: bool,
    ) -> DriverResult<()> {
        if self.in_flight == 0 {
            return Ok(());
        }
        let mut missing = self.in_flight & !self.after(stream);
        if missing != 0 && !all {
            missing &= self.conflicts(draft, persistents);
        }
        while missing != 0 {
            let at = missing.trailing_zeros() as usize;
            if let Some(launch) = &self.groups[at].latest {
                launch.before(reclaim, on)?;
            }
            *self.after_mut(stream) |= 1 << at;
            missing &= missing - 1;
        }
        Ok(())
    }

    /// The groups that conflict with what a command touches. Scratch is nobody else's.
    fn conflicts(&mut self, draft: &Draft, persistents: &[Arc<PersistentInner>]) -> u64 {
        let mut conflicts = 0;
        for access in &draft.accesses {
            if let BufferKey::Persistent(place) = access.buffer {
                let at = place as usize;
                if at >= self.of_run.len() {
                    self.of_run.resize(at + 1, None);
                }
                let [read, written] = match self.of_run[at] {
                    Some(known) => known,
                    None => self.look(at, &persistents[at]),
                };
                conflicts |= if access.mode.writes() { written } else { read };
            }
        }
        conflicts
    }

    #[cold]
    fn look(&mut self, at: usize, buffer: &PersistentInner) -> [u64; 2] {
        let Self { groups, known, .. } = self;
        let found = *known
            .entry(buffer.number)
            .or_insert_with(|| meets(groups, &buffer.range));
        self.of_run[at] = Some(found);
        found
    }

    /// `later` comes after all that `earlier` comes after.
    pub(in crate::capture) fn order(&mut self, later: StreamId, earlier: StreamId) {
        if self.in_flight != 0 {
            *self.after_mut(later) |= self.after(earlier);
        }
    }

    /// A run has ended well, with all its streams joined into `origin`.
    pub(in crate::capture) fn end(&mut self, origin: StreamId) {
        let mut after = self.in_flight & self.after(origin);
        while after != 0 {
            let other = &mut self.groups[after.trailing_zeros() as usize];
            other.passed = other.latest.take();
            after &= after - 1;
        }
        self.in_flight = 0;
    }

    /// Whether all later work of the home comes after a launch.
    pub(in crate::capture) fn has_passed(&self, launch: &Arc<Launch>) -> bool {
        self.groups.iter().any(|other| is(&other.passed, launch))
    }

    fn after(&self, stream: StreamId) -> u64 {
        self.after.get(stream.index()).copied().unwrap_or(0)
    }

    fn after_mut(&mut self, stream: StreamId) -> &mut u64 {
        let at = stream.index();
        if at >= self.after.len() {
            self.after.resize(at + 1, 0);
        }
        &mut self.after[at]
    }
}

fn is(known: &Option<Arc<Launch>>, launch: &Arc<Launch>) -> bool {
    known
        .as_ref()
        .is_some_and(|known| Arc::ptr_eq(known, launch))
}

fn meets(groups: &[Other], bytes: &ByteRange) -> [u64; 2] {
    let mut bits = [0; 2];
    for (at, other) in groups.iter().enumerate().take(BITS) {
        if let Some(group) = other.group.upgrade() {
            let [read, written] = group.meets(bytes);
            bits[0] |= u64::from(read) << at;
            bits[1] |= u64::from(written) << at;
        }
    }
    bits
}
