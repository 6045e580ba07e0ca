//! The state of the device: tables of objects, streams and events, and the
//! sticky failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::ThreadId;

use super::LiveObjects;
use super::capture::{Capture, Membership};
use super::clock::Clock;
use super::exec::{Broken, Executor, Trash};
use super::graph::{Exec, Graph, Node};
use super::memory::Memory;
use super::module::Module;
use super::schedule::{Choose, TaskId};
use super::work::{Function, Work};
use crate::driver::code::SimFault;
use crate::driver::{
    CaptureMode, DriverError, DriverResult, ErrorClass, EventHandle, ExecHandle, FunctionHandle,
    GraphHandle, ModuleHandle, NodeHandle, StreamHandle,
};

/// CUDA's legacy default stream.
pub(super) const LEGACY: StreamHandle = StreamHandle(0);

/// Everything behind the device's lock.
#[derive(Debug)]
pub(super) struct Device {
    /// The call being served, for errors.
    pub(super) call: &'static str,
    pub(super) memory: Memory,
    pub(super) executor: Executor,
    pub(super) streams: BTreeMap<StreamHandle, Stream>,
    pub(super) events: BTreeMap<EventHandle, Event>,
    pub(super) captures: BTreeMap<u64, Capture>,
    pub(super) modes: HashMap<ThreadId, CaptureMode>,
    pub(super) graphs: BTreeMap<GraphHandle, Graph>,
    pub(super) nodes: BTreeMap<NodeHandle, Node>,
    pub(super) execs: BTreeMap<ExecHandle, Exec>,
    pub(super) modules: BTreeMap<ModuleHandle, Module>,
    pub(super) functions: BTreeMap<FunctionHandle, Arc<Function>>,
    pub(super) shared_limits: BTreeMap<FunctionHandle, u32>,
    pub(super) trash: Trash,
    sticky: Option<Broken>,
    next_handle: u64,
}

/// A stream: the work that its next piece of work comes after.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) tail: Vec<TaskId>,
    pub(super) capture: Option<Membership>,
}

/// What an event recorded last.
#[derive(Clone, Debug, Default)]
pub(super) enum Event {
    #[default]
    Unrecorded,
    Recorded {
        tail: Vec<TaskId>,
        /// What the clock said, if there is one.
        at: u64,
    },
    Captured {
        capture: u64,
        frontier: Vec<NodeHandle>,
    },
}

impl Device {
    pub(super) fn new(memory: u64, schedule: Box<dyn Choose>) -> Self {
        Self {
            call: "",
            memory: Memory::new(memory),
            executor: Executor::new(schedule),
            streams: BTreeMap::from([(LEGACY, Stream::default())]),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            modes: HashMap::new(),
            graphs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            execs: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            shared_limits: BTreeMap::new(),
            trash: Vec::new(),
            sticky: None,
            next_handle: 0x1000,
        }
    }

    pub(super) fn live(&self) -> LiveObjects {
        let (allocations, bytes, host_allocations) = self.memory.live();
        LiveObjects {
            allocations,
            bytes,
            reservations: self.memory.reservations(),
            host_allocations,
            streams: self.streams.len() - 1,
            events: self.events.len(),
            graphs: self.graphs.len(),
            execs: self.execs.len(),
            modules: self.modules.len(),
            captures: self.captures.len(),
        }
    }

    /// A number that no object of any kind has had. One count serves all kinds,
    /// so that a handle of the wrong kind is never valid by chance.
    pub(super) fn handle(&mut self) -> u64 {
        self.next_handle += 8;
        self.next_handle
    }

    pub(super) fn fail(&self, class: ErrorClass) -> DriverError {
        DriverError::of(self.call, class)
    }

    pub(super) fn unknown(&self, handle: impl std::fmt::Debug) -> DriverError {
        self.fail(ErrorClass::InvalidHandle)
            .with(format!("{handle:?} is not live"))
    }

    /// The failure that an earlier kernel left behind.
    pub(super) fn healthy(&self) -> DriverResult<()> {
        let Some(Broken { work, fault }) = &self.sticky else {
            return Ok(());
        };
        let class = match fault {
            SimFault::OutOfBounds(_) => ErrorClass::IllegalAddress,
            SimFault::Misaligned(..) => ErrorClass::Other(716),
            SimFault::Trap(_) => ErrorClass::LaunchFailed,
        };
        Err(self.fail(class).with(format!("{work}: {fault}")))
    }

    // --- running ----------------------------------------------------------

    /// Runs until `tasks` have ended, or some work faults: then nothing more
    /// runs on this device.
    pub(super) fn finish(&mut self, tasks: &[TaskId]) -> DriverResult<()> {
        let ran = self
            .executor
            .run_until(tasks, &mut self.memory, &mut self.trash);
        self.settle(ran)
    }

    /// Whether `tasks` have ended; some work is done on the way, as time passes
    /// on a device while the host asks.
    pub(super) fn poll(&mut self, tasks: &[TaskId]) -> DriverResult<bool> {
        for _ in 0..3 {
            if !tasks.iter().any(|&task| self.executor.pending(task)) {
                return Ok(true);
            }
            let ran = self.executor.run_slice(&mut self.memory, &mut self.trash);
            self.settle(ran)?;
        }
        Ok(!tasks.iter().any(|&task| self.executor.pending(task)))
    }

    fn settle(&mut self, ran: Result<(), Broken>) -> DriverResult<()> {
        if let Err(broken) = ran {
            self.executor.abandon(&mut self.trash);
            self.sticky = Some(broken);
        }
        self.healthy()
    }

    // --- streams and events -----------------------------------------------

    pub(super) fn stream(&self, handle: StreamHandle) -> DriverResult<&Stream> {
        self.streams
            .get(&handle)
            .ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn event(&self, handle: EventHandle) -> DriverResult<&Event> {
        self.events.get(&handle).ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn stream_destroy(&mut self, handle: StreamHandle) -> DriverResult<()> {
        if handle == LEGACY {
            return Err(self.unknown(handle));
        }
        self.stream(handle)?;
        self.leave_capture(handle);
        self.streams.remove(&handle);
        Ok(())
    }

    pub(super) fn stream_tail(&mut self, handle: StreamHandle) -> DriverResult<Vec<TaskId>> {
        self.not_capturing(handle)?;
        Ok(self.stream(handle)?.tail.clone())
    }

    pub(super) fn event_tail(&mut self, handle: EventHandle) -> DriverResult<Vec<TaskId>> {
        let tail = match self.event(handle)? {
            Event::Unrecorded => Vec::new(),
            Event::Recorded { tail, .. } => tail.clone(),
            &Event::Captured { capture, .. } => return Err(self.captured_event(handle, capture)),
        };
        self.potentially_unsafe()?;
        Ok(tail)
    }

    /// Puts work behind a stream, or into the graph that the stream captures.
    pub(super) fn submit(&mut self, stream: StreamHandle, work: Work) -> DriverResult<()> {
        if self.capture_of(stream)?.is_some() {
            return self.record(stream, work);
        }
        let tail = self.stream(stream)?.tail.clone();
        let task = self.executor.enqueue(work, tail, None);
        self.set_tail(stream, vec![task]);
        Ok(())
    }

    pub(super) fn set_tail(&mut self, stream: StreamHandle, tail: Vec<TaskId>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.tail = tail;
        }
    }

    /// Records an event behind a stream's enqueued work.
    pub(super) fn record_event(
        &mut self,
        event: EventHandle,
        stream: StreamHandle,
    ) -> DriverResult<()> {
        let state = match self.capture_of(stream)? {
            Some(capture) => Event::Captured {
                capture,
                frontier: self.frontier(stream)?.to_vec(),
            },
            None => self.recorded(self.stream(stream)?.tail.clone()),
        };
        self.events.insert(event, state);
        Ok(())
    }

    /// What an event holds that is recorded behind `tail` now.
    pub(super) fn recorded(&self, tail: Vec<TaskId>) -> Event {
        let at = self.executor.clock.as_ref().map_or(0, Clock::now);
        Event::Recorded { tail, at }
    }

    /// Milliseconds between two events, a thousandth for each slice.
    pub(super) fn elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        let time = |handle| {
            let event = self.event(handle)?;
            let Some(clock) = &self.executor.clock else {
                return Err(self
                    .fail(ErrorClass::NotSupported)
                    .with("the simulated device has no clock"));
            };
            let Event::Recorded { tail, at } = event else {
                return Err(self.unknown(handle));
            };
            if tail.iter().any(|&task| self.executor.pending(task)) {
                return Err(self.fail(ErrorClass::NotReady));
            }
            Ok(clock.ended(tail).max(*at))
        };
        let (start, end) = (time(start)?, time(end)?);
        Ok((end as f32 - start as f32) / 1000.0)
    }

    /// Makes a stream's next work wait for what an event recorded.
    pub(super) fn wait_event(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> DriverResult<()> {
        let state = self.event(event)?.clone();
        let capture = self.capture_of(stream)?;
        match (state, capture) {
            (Event::Captured { capture, frontier }, _) => {
                self.wait_captured(stream, event, capture, &frontier)
            }
            (Event::Recorded { tail, .. }, None) => {
                let executor = &self.executor;
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.tail.extend(tail);
                    stream.tail.sort_unstable();
                    stream.tail.dedup();
                    stream.tail.retain(|&task| executor.pending(task));
                }
                Ok(())
            }
            (Event::Unrecorded, _) => Ok(()),
            (Event::Recorded { .. }, Some(capture)) => {
                self.invalidate(capture);
                Err(self.fail(ErrorClass::CaptureIsolation).with(format!(
                    "{stream:?} is capturing and would wait for {event:?}, which was not \
                     recorded in the capture"
                )))
            }
        }
    }
}
