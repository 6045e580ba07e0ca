//! The state of the device: tables of objects, running work, and the sticky
//! failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::ThreadId;

use super::LiveObjects;
use super::exec::{Broken, Executor, Trash};
use super::memory::Memory;
use super::objects::{Capture, Event, Exec, Graph, Module, Node, Stream};
use super::schedule::{Choose, TaskId};
use super::work::Function;
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
        self.outcome(ran)
    }

    /// Whether `tasks` have ended; some work is done on the way, as time passes
    /// on a device while the host asks.
    pub(super) fn poll(&mut self, tasks: &[TaskId]) -> DriverResult<bool> {
        for _ in 0..3 {
            if !tasks.iter().any(|&task| self.executor.pending(task)) {
                return Ok(true);
            }
            let ran = self.executor.run_slice(&mut self.memory, &mut self.trash);
            self.outcome(ran)?;
        }
        Ok(!tasks.iter().any(|&task| self.executor.pending(task)))
    }

    fn outcome(&mut self, ran: Result<(), Broken>) -> DriverResult<()> {
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
}
