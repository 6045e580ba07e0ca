//! The state of one capture, and the steps between its states.
//!
//! A capture is *open* until it ends, and may be *broken* before that: when a
//! driver call fails in the middle, what the driver has and what was recorded
//! may differ, so nothing more is recorded and the capture cannot end well.
//! Each step checks everything that can be checked first, then calls the
//! driver, and changes its own state last.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use streamweir_alloc::{AllocError, Block, BlockId, Policy, Pools};
use streamweir_base::inside::Inside;
use streamweir_trace::{ByteRange, StreamId};

use super::instruments::{Dropped, Instruments, Poison};
use super::lane::{Dyn, Lane};
use super::options::{CaptureOptions, Priorities, Verify};
use super::planned::{Ground, paper};
use super::record::Recording;
use super::strand::Strand;
use crate::device::DeviceInner;
use crate::driver::{CaptureStatus, DriverResult, EventScope, NodeHandle};
use crate::error::{During, Error, Name, Result};
use crate::graph::{GroupInner, Keep};
use crate::owned::{OwnedEvent, OwnedStream};

/// What scratch buffers share with their capture, and may outlive it with.
pub(crate) struct Session {
    pub(crate) name: Name,
    /// Of a planned capture they are on paper.
    pub(crate) pools: Pools,
    /// Where the blocks of a planned capture lie, once that is known; none for a
    /// capture whose pools place them.
    placed: Option<OnceLock<Arc<[ByteRange]>>>,
    pub(super) dropped: Dropped,
}

impl Session {
    pub(crate) fn block_name(&self, block: BlockId) -> String {
        let buffers = self.pools.buffers();
        buffers
            .get(block.index())
            .map(|b| b.name.to_string())
            .unwrap_or_default()
    }

    /// The host lets go of a block.
    pub(super) fn let_go(&self, block: Block) -> Result<(), AllocError> {
        self.dropped.push(&self.pools, block)
    }

    /// Where a block lies that its pool put at `range`; none while a planned
    /// capture is being recorded.
    pub(crate) fn range_of(&self, block: BlockId, range: ByteRange) -> Option<ByteRange> {
        match &self.placed {
            None => Some(range),
            Some(placed) => placed.get()?.get(block.index()).copied(),
        }
    }

    /// The blocks of a planned capture have been placed.
    pub(super) fn placed(&self, ranges: Arc<[ByteRange]>) {
        if let Some(placed) = &self.placed {
            // A capture is placed once, when it ends.
            let _ = placed.set(ranges);
        }
    }

    /// The refusal of what needs the address of a block that has none yet.
    #[cold]
    pub(crate) fn no_address(&self, block: BlockId) -> Error {
        Error::Unplannable {
            what: format!(
                "taking the address of scratch buffer \"{}\"",
                self.block_name(block)
            ),
            capture: self.name.to_string(),
            instead: "its bytes are placed when the recording ends: use the addresses that \
                      `foreign_call` hands to the call, or capture live",
        }
    }
}

/// How commands reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Into a capture that is ours from beginning to end.
    Captured,
    /// Into the recording alone, which is placed and emitted at its end.
    Planned,
    /// Into a capture that an engine began on its own stream.
    Attached,
    /// Straight to the device.
    Eager,
}

/// One capture, attachment or eager run.
pub(crate) struct Core {
    pub(super) device: Arc<DeviceInner>,
    pub(super) session: Arc<Session>,
    pub(super) home: Arc<GroupInner>,
    pub(super) mode: Mode,
    pub(super) verify: Verify,
    priorities: Priorities,
    /// Whether kernels may start early.
    pub(super) programmatic: bool,
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub(super) recording: Recording,
    pub(super) strands: Vec<Strand>,
    pub(super) keep: Keep,
    /// The first failure of a driver call.
    pub(super) broken: Option<String>,
    pub(super) ended: bool,
    /// A planned capture is emitting what was recorded.
    pub(super) emitting: bool,
    /// The arena's part of a planned capture.
    pub(super) ground: Option<Ground>,
    pub(super) instruments: Option<Box<Instruments>>,
    by_name: HashMap<Name, StreamId>,
    /// The streams' names, for errors of handles that outlive their streams.
    names: Vec<Name>,
    /// Carries every fork and join: a wait looks at what was recorded last, so
    /// one event does for all.
    event: OwnedEvent,
    /// Reused by every look at a frontier.
    pub(super) looked: Vec<NodeHandle>,
    pub(super) inside: Option<Inside>,
}

impl Core {
    /// Sets a capture up, up to the point where the driver's capture begins.
    pub(super) fn new(
        device: &Arc<DeviceInner>,
        options: &CaptureOptions,
        mode: Mode,
        origin: Arc<OwnedStream>,
        event: OwnedEvent,
    ) -> Result<Self> {
        let instruments = Instruments::new(options, device, mode)?;
        let home = match &options.group {
            Some(group) => {
                group.check_device(device)?;
                group.inner.clone()
            }
            None => GroupInner::new(device, &options.name, options.arena, options.guarded),
        };
        let (view, ground) = if mode == Mode::Planned {
            let ground = Ground::new(home.arena.open_for(&*options.name));
            (paper::of(&home.arena).open(), Some(ground))
        } else {
            (home.arena.open_for(&*options.name), None)
        };
        let pools = Pools::new(view, options.policy);
        let id = pools.add_stream(&*options.origin, &*options.origin)?;
        let name: Name = options.origin.as_str().into();
        Ok(Self {
            device: device.clone(),
            session: Arc::new(Session {
                name: options.name.as_str().into(),
                pools,
                placed: ground.as_ref().map(|_| OnceLock::new()),
                dropped: Dropped::new(
                    options.poison != Poison::Off && !options.policy.is_ordered_by_graph(),
                ),
            }),
            home,
            mode,
            verify: options.verify,
            priorities: options.priorities.clone(),
            programmatic: options.programmatic,
            state: RefCell::new(State {
                recording: Recording::default(),
                by_name: HashMap::from([(name.clone(), id)]),
                names: vec![name.clone()],
                strands: vec![Strand {
                    name,
                    stream: origin,
                    parent: None,
                    active: true,
                    lane: None,
                    frontier: Vec::new(),
                    generation: 0,
                }],
                keep: Keep::default(),
                broken: None,
                ended: false,
                emitting: false,
                ground,
                instruments,
                event,
                looked: Vec::new(),
                inside: None,
            }),
        })
    }

    pub(super) fn policy(&self) -> Policy {
        self.session.pools.policy()
    }

    /// The capture's name, as errors print it.
    pub(super) fn name(&self) -> String {
        self.session.name.to_string()
    }

    /// Whether commands become nodes of a graph.
    pub(super) fn captures(&self) -> bool {
        self.mode != Mode::Eager
    }

    /// Whether a command goes to the driver when it is recorded.
    pub(super) fn emits_at_once(&self) -> bool {
        self.mode != Mode::Planned
    }

    /// The scope of events that the world outside records or waits for. Outside
    /// a capture the driver has no external events: any is.
    pub(super) fn external(&self) -> EventScope {
        if self.captures() {
            EventScope::External
        } else {
            EventScope::Internal
        }
    }

    /// Refuses when the capture has ended or is broken.
    pub(super) fn open(&self, state: &State, what: impl FnOnce() -> String) -> Result<()> {
        if state.ended || state.emitting {
            return Err(Error::CaptureEnded {
                what: what(),
                capture: self.name(),
            });
        }
        match &state.broken {
            None => Ok(()),
            Some(first) => Err(Error::Broken {
                capture: self.name(),
                first: first.clone(),
            }),
        }
    }

    /// Makes a driver call whose failure breaks the capture.
    pub(super) fn drive<T>(
        &self,
        state: &mut State,
        during: impl FnOnce() -> String,
        call: impl FnOnce(&mut State) -> DriverResult<T>,
    ) -> Result<T> {
        call(state)
            .during(during)
            .inspect_err(|error| state.break_with(error))
    }

    /// Forks `name` off `parent`: a new captured stream, or one that was
    /// joined before.
    pub(super) fn fork<L: Lane>(&self, parent: StreamId, name: &str) -> Result<(StreamId, u32)> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        self.open(state, || format!("stream \"{}\"", state.name(parent)))?;
        self.settle_drops(state)?;
        let known = state.by_name.get(name).copied();
        if let Some(strand) = known.map(|id| &state.strands[id.index()])
            && strand.active
        {
            return Err(Error::AlreadyForked {
                stream: name.to_owned(),
                capture: self.name(),
            });
        }
        self.check_lane::<L>(state, known)?;
        let id = match known {
            Some(id) => id,
            None => self.add_strand(state, parent, name)?,
        };
        self.order(state, id, parent, "forking", name)?;
        self.session.pools.fork(parent, id)?;
        let strand = &mut state.strands[id.index()];
        strand.active = true;
        strand.generation += 1;
        strand.lane = lane_of::<L>().or(strand.lane);
        Ok((id, strand.generation))
    }

    fn add_strand(&self, state: &mut State, parent: StreamId, name: &str) -> Result<StreamId> {
        let stream = Arc::new(self.device.take_stream(self.priorities.of(name))?);
        if self.mode == Mode::Eager {
            self.device.watch(&stream);
        }
        let id = self.session.pools.add_stream(name, name)?;
        let name: Name = name.into();
        state.by_name.insert(name.clone(), id);
        state.names.push(name.clone());
        state.strands.push(Strand {
            name,
            stream,
            parent: Some(parent),
            active: false,
            lane: None,
            frontier: Vec::new(),
            generation: 0,
        });
        Ok(id)
    }

    /// Refuses a lane type that stands for another stream.
    pub(super) fn check_lane<L: Lane>(&self, state: &State, id: Option<StreamId>) -> Result<()> {
        let Some((lane, type_name)) = lane_of::<L>() else {
            return Ok(());
        };
        let mut strands = state.strands.iter().enumerate();
        let taken = strands.find(|(i, strand)| {
            strand.lane.is_some_and(|(other, _)| other == lane) && Some(StreamId::at(*i)) != id
        });
        match taken {
            None => Ok(()),
            Some((_, strand)) => Err(Error::LaneTaken {
                lane: type_name,
                capture: self.name(),
                first: strand.name.to_string(),
            }),
        }
    }

    /// Joins `from` into `into`: a join point.
    pub(super) fn join(&self, into: StreamId, from: StreamId) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        self.open(state, || format!("stream \"{}\"", state.name(from)))?;
        self.settle_drops(state)?;
        let bad = |why| Error::BadJoin {
            stream: state.name(from).to_string(),
            into: state.name(into).to_string(),
            capture: self.name(),
            why,
        };
        if into == from {
            return Err(bad("a stream continues after itself anyway"));
        }
        if state.strands[from.index()].parent.is_none() {
            return Err(bad("it is the origin, which the capture ends on"));
        }
        let name = state.name(from).clone();
        self.order(state, into, from, "joining", &name)?;
        self.session.pools.join(into, from)?;
        state.strands[from.index()].active = false;
        Ok(())
    }

    /// Makes `into` continue after all that `from` has recorded, and leaves
    /// `from` as it is.
    pub(super) fn follow(&self, into: StreamId, from: StreamId) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        self.settle_drops(&mut guard)?;
        let name = guard.name(from).clone();
        self.order(&mut guard, into, from, "joining", &name)?;
        Ok(self.session.pools.join(into, from)?)
    }

    /// Makes stream `later` continue after all that `earlier` has recorded.
    fn order(
        &self,
        state: &mut State,
        later: StreamId,
        earlier: StreamId,
        verb: &str,
        name: &str,
    ) -> Result<()> {
        let during = || {
            format!(
                "{verb} stream \"{name}\" in capture \"{}\"",
                self.session.name
            )
        };
        if self.emits_at_once() {
            self.drive(state, during, |state| {
                let [earlier, later] = [earlier, later].map(|id| &state.strands[id.index()].stream);
                state.event.record(earlier, EventScope::Internal)?;
                state.event.order(later, EventScope::Internal)
            })?;
        }
        let frontier = state.strands[earlier.index()].frontier.clone();
        state.strands[later.index()].wait_for(&frontier);
        Ok(())
    }
}

impl State {
    pub(super) fn name(&self, stream: StreamId) -> &Name {
        &self.names[stream.index()]
    }

    pub(super) fn break_with(&mut self, error: &Error) {
        self.broken.get_or_insert_with(|| error.to_string());
    }

    /// The first stream that is forked and not joined.
    pub(super) fn unjoined(&self) -> Option<&Strand> {
        self.strands
            .iter()
            .find(|strand| strand.active && strand.parent.is_some())
    }

    /// Notes the nodes that were looked at last.
    pub(super) fn keep_looked(&mut self) -> Range<u32> {
        let handles = &mut self.recording.handles;
        let start = handles.len() as u32;
        handles.extend(&self.looked);
        start..handles.len() as u32
    }

    /// Looks at what `stream`'s next node would depend on.
    pub(super) fn look(&mut self, stream: StreamId) -> DriverResult<CaptureStatus> {
        let stream = &self.strands[stream.index()].stream;
        Ok(stream.capture_info(&mut self.looked)?.status)
    }
}

/// The identity of a lane type; none for the lane of everything.
pub(super) fn lane_of<L: Lane>() -> Option<(TypeId, &'static str)> {
    (TypeId::of::<L>() != TypeId::of::<Dyn>())
        .then(|| (TypeId::of::<L>(), std::any::type_name::<L>()))
}
