//! The recorder of a capture: each call of the user becomes commands here, and
//! each command goes through the rewrites to the sink and into the recording.
//!
//! A capture is *open* until it ends, and may be *broken* before that: when a
//! driver call fails in the middle, what the driver has and what was recorded
//! may differ, so nothing more is recorded and the capture cannot end well.
//! Each step checks everything that can be checked first, then calls the
//! driver, and changes its own state last.
//!
//! # Whose code runs when
//! The open capture is in a cell. The cell is borrowed for one step, in which no
//! code of the user runs: arguments are bound, libraries are called, errors are
//! converted and owners are dropped outside of it. What ends a capture takes it
//! out of the cell first. So whatever the user's code does to its handles from
//! within a call, it finds a capture that is open, or one that has ended.

use std::cell::{Cell, RefCell, RefMut};
use std::panic::Location;
use std::sync::Arc;

use streamweir_trace::{AccessMode, StreamId};

use super::buffer::Place;
use super::lane::{Lane, lane_of};
use super::open::Open;
use super::options::Priorities;
use super::pools::ScratchPools;
use super::recording::{BufferKey, Draft, Recording, Spot, What};
use super::sink::Sink;
use super::strand::ORIGIN;
use crate::device::DeviceInner;
use crate::error::{Error, Name, Result};
use streamweir_base::inside::Inside;

/// One capture, attachment or eager run.
pub(crate) struct Recorder {
    pub(super) device: Arc<DeviceInner>,
    pub(super) pools: Arc<ScratchPools>,
    /// Whether kernels may start early.
    pub(super) programmatic: bool,
    priorities: Priorities,
    /// The streams' names, for handles that outlive the capture.
    names: RefCell<Vec<Name>>,
    /// Its memory is used again by each command. None while one is in the making.
    draft: Cell<Option<Box<Draft>>>,
    open: RefCell<Option<Box<Open>>>,
}

impl Recorder {
    pub(super) fn new(open: Open, programmatic: bool, priorities: Priorities) -> Self {
        let origin = open.recorded.strands.get(ORIGIN).name.clone();
        Self {
            device: open.recorded.device.clone(),
            pools: open.recorded.pools.clone(),
            programmatic,
            priorities,
            names: RefCell::new(vec![origin]),
            draft: Cell::default(),
            open: RefCell::new(Some(Box::new(open))),
        }
    }

    /// Begins. From here on the thread is inside this capture, if it is one of the
    /// driver.
    pub(super) fn begin(&self) -> Result<()> {
        let mut open = self.unended(String::new)?;
        let Open { recorded, sink, .. } = &mut *open;
        sink.begin(recorded)?;
        let inside = || Inside::enter(self.name().clone(), self.device.mark());
        recorded.inside = sink.captures().then(inside);
        Ok(())
    }

    /// The capture's name.
    pub(super) fn name(&self) -> &Name {
        &self.pools.capture
    }

    /// The name of a captured stream.
    pub(super) fn stream_name(&self, stream: StreamId) -> Name {
        self.names.borrow()[stream.index()].clone()
    }

    /// The capture, unless it has ended. It may be broken.
    #[inline]
    pub(super) fn unended(&self, what: impl FnOnce() -> String) -> Result<RefMut<'_, Open>> {
        RefMut::filter_map(self.open.borrow_mut(), |open| open.as_deref_mut())
            .map_err(|_| self.ended(what()))
    }

    /// The refusal of what needs a capture that has not ended.
    #[cold]
    pub(super) fn ended(&self, what: String) -> Error {
        Error::CaptureEnded {
            what,
            capture: self.name().to_string(),
        }
    }

    /// The open capture, for `stream`. Refuses a handle whose stream was joined.
    #[inline]
    pub(super) fn open(&self, stream: StreamId, generation: u32) -> Result<RefMut<'_, Open>> {
        let open = self.unended(|| format!("stream \"{}\"", self.stream_name(stream)))?;
        open.check_broken()?;
        let strand = open.recorded.strands.get(stream);
        if strand.generation == generation && strand.active {
            return Ok(open);
        }
        let what = format!("this handle of stream \"{}\", joined since,", strand.name);
        Err(self.ended(what))
    }

    /// Opens the capture for a call that records: what the host has dropped
    /// before it comes before it.
    pub(super) fn enter(&self, stream: StreamId, generation: u32) -> Result<RefMut<'_, Open>> {
        let mut open = self.open(stream, generation)?;
        open.fill_dropped()?;
        Ok(open)
    }

    /// Takes the capture out of the cell, when nothing stands against its end.
    pub(super) fn take_to_end(&self) -> Result<Box<Open>> {
        let whole = || format!("capture \"{}\"", self.name());
        {
            let mut open = self.unended(whole)?;
            let Open {
                recorded,
                sink,
                calls,
                ..
            } = &mut *open;
            if let Some(call) = calls.last() {
                return Err(Error::EndInCall {
                    capture: self.name().to_string(),
                    call: call.name.clone(),
                });
            }
            sink.check_end(recorded)?;
            open.check_broken()?;
            open.check_joined()?;
        }
        let open = self.open.borrow_mut().take();
        open.ok_or_else(|| self.ended(whole()))
    }

    /// Takes the capture out of the cell, to end it otherwise.
    pub(super) fn take_to_abandon(&self) -> Option<Box<Open>> {
        self.open.borrow_mut().take()
    }

    /// An empty draft. No cell is borrowed while it is filled.
    #[inline]
    pub(super) fn draft(&self) -> Box<Draft> {
        let mut draft = self.draft.take().unwrap_or_default();
        draft.clear();
        draft
    }

    /// Records a command on a stream, and gives the memory of its draft back.
    pub(super) fn perform(
        &self,
        spot: Spot,
        generation: u32,
        what: impl FnOnce(&mut Recording) -> What,
        mut draft: Box<Draft>,
    ) -> Result<()> {
        let mut open = self.open(spot.stream, generation)?;
        let what = what(&mut open.recorded.recording);
        open.perform(spot, what, &mut draft)?;
        drop(open);
        self.draft.set(Some(draft));
        Ok(())
    }

    /// Notes that the command in the making touches a place.
    #[inline]
    pub(super) fn touch(
        &self,
        draft: &mut Draft,
        place: &Place<'_>,
        mode: AccessMode,
    ) -> Result<BufferKey> {
        let mut open = self.unended(|| format!("capture \"{}\"", self.name()))?;
        open.recorded.touch(draft, place, mode)
    }

    /// Forks `name` off `parent`: a new captured stream, or one that was
    /// joined before. Returns its number and how often it was forked.
    pub(super) fn fork<L: Lane>(
        &self,
        parent: StreamId,
        generation: u32,
        name: &str,
        line: &'static Location<'static>,
    ) -> Result<(StreamId, u32)> {
        let mut open = self.enter(parent, generation)?;
        let known = open.recorded.strands.named(name);
        let active = known.map(|id| open.recorded.strands.get(id));
        if let Some(strand) = active.filter(|strand| strand.active) {
            return Err(Error::AlreadyForked {
                stream: name.to_owned(),
                capture: self.name().to_string(),
                first: strand.forked.unwrap_or(line),
                again: line,
            });
        }
        open.recorded.check_lane::<L>(known)?;
        let id = match known {
            Some(id) => id,
            None => self.add_stream(&mut open, parent, name)?,
        };
        open.order(id, parent, "forking", id)?;
        open.recorded.pools.pools.fork(parent, id)?;
        let strand = open.recorded.strands.get_mut(id);
        strand.active = true;
        strand.generation += 1;
        strand.forked = Some(line);
        strand.lane = lane_of::<L>().or(strand.lane);
        Ok((id, strand.generation))
    }

    fn add_stream(&self, open: &mut Open, parent: StreamId, name: &str) -> Result<StreamId> {
        let priority = self.priorities.of(name);
        open.sink.add_stream(&self.device, priority)?;
        let id = self.pools.pools.add_stream(name, name)?;
        let name: Name = name.into();
        self.names.borrow_mut().push(name.clone());
        open.recorded.strands.push(name, Some(parent));
        Ok(id)
    }

    /// Joins `from` into `into`: a join point.
    pub(super) fn join(&self, into: (StreamId, u32), from: (StreamId, u32)) -> Result<()> {
        drop(self.open(into.0, into.1)?);
        let mut open = self.enter(from.0, from.1)?;
        let (into, from) = (into.0, from.0);
        let bad = |why| Error::BadJoin {
            stream: self.stream_name(from).to_string(),
            into: self.stream_name(into).to_string(),
            capture: self.name().to_string(),
            why,
        };
        if into == from {
            return Err(bad("a stream continues after itself anyway"));
        }
        if from == ORIGIN {
            return Err(bad("it is the origin, which the capture ends on"));
        }
        open.order(into, from, "joining", from)?;
        open.recorded.pools.pools.join(into, from)?;
        open.recorded.strands.get_mut(from).active = false;
        Ok(())
    }

    /// Makes `into` continue after all that `from` has recorded, and leaves
    /// `from` as it is.
    pub(super) fn follow(&self, into: (StreamId, u32), from: (StreamId, u32)) -> Result<()> {
        drop(self.open(into.0, into.1)?);
        let mut open = self.enter(from.0, from.1)?;
        open.order(into.0, from.0, "joining", from.0)?;
        Ok(open.recorded.pools.pools.join(into.0, from.0)?)
    }
}
