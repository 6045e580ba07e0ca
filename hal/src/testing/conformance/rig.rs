//! What a case works with: the driver's calls without their handles' care.
//! Everything made through a rig is given back by [`Rig::close`].

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt::Debug;

use streamweir_trace::{EdgeKind, NodeKind};

use super::{Failure, KernelFixture};
use crate::driver::{
    CaptureInfo, CaptureMode, CaptureStatus, DriverResult, DynDriver, ErrorClass, EventHandle,
    EventScope, ExecHandle, FunctionHandle, GraphHandle, LaunchShape, ModuleHandle, NodeHandle,
    Start, StreamHandle,
};

pub(super) type Check = Result<(), Failure>;

/// How many bytes a case's memory has unless it says otherwise.
pub(super) const BYTES: u64 = 256;

pub(super) struct Rig<'a> {
    pub(super) driver: &'a DynDriver,
    kernel: &'a KernelFixture,
    made: RefCell<Made>,
}

#[derive(Default)]
struct Made {
    streams: Vec<StreamHandle>,
    events: Vec<EventHandle>,
    memory: Vec<u64>,
    /// Reserved ranges and mapped pieces: start and bytes.
    ranges: Vec<(u64, u64)>,
    pieces: Vec<(u64, u64)>,
    pinned: Vec<*mut u8>,
    graphs: Vec<GraphHandle>,
    execs: Vec<ExecHandle>,
    modules: Vec<ModuleHandle>,
}

// SAFETY comments below: the rig passes only handles that it has made and not
// yet given back, and memory that lives until `close`, where all streams are
// waited for first.
impl<'a> Rig<'a> {
    pub(super) fn new(driver: &'a DynDriver, kernel: &'a KernelFixture) -> Self {
        Self {
            driver,
            kernel,
            made: RefCell::default(),
        }
    }

    pub(super) fn stream(&self) -> DriverResult<StreamHandle> {
        let stream = self.driver.stream_create(0)?;
        self.made.borrow_mut().streams.push(stream);
        Ok(stream)
    }

    pub(super) fn event(&self) -> DriverResult<EventHandle> {
        let event = self.driver.event_create(false)?;
        self.made.borrow_mut().events.push(event);
        Ok(event)
    }

    /// Device memory of [`BYTES`] bytes, all zero.
    pub(super) fn memory(&self) -> DriverResult<u64> {
        let address = self.driver.mem_alloc(BYTES)?;
        self.made.borrow_mut().memory.push(address);
        // SAFETY: live memory that nothing uses yet.
        unsafe { self.driver.copy_to_device(address, &[0; BYTES as usize]) }?;
        Ok(address)
    }

    /// A reserved range of `units` units, and the unit; none where the device
    /// has no such thing.
    pub(super) fn range(&self, units: u64) -> DriverResult<Option<(u64, u64)>> {
        let Some(unit) = self.driver.map_unit()? else {
            return Ok(None);
        };
        let start = self.driver.range_reserve(units * unit)?;
        self.made.borrow_mut().ranges.push((start, units * unit));
        Ok(Some((start, unit)))
    }

    /// Backs a part of a range, in which nothing is mapped, with zeros.
    pub(super) fn map(&self, start: u64, bytes: u64) -> DriverResult<()> {
        // SAFETY: cases map parts of live ranges, each once.
        unsafe { self.driver.mem_map(start, bytes) }?;
        self.made.borrow_mut().pieces.push((start, bytes));
        let zeros = vec![0; bytes as usize];
        // SAFETY: live memory that nothing uses yet.
        unsafe { self.driver.copy_to_device(start, &zeros) }
    }

    pub(super) fn unmap(&self, start: u64, bytes: u64) -> DriverResult<()> {
        let mut made = self.made.borrow_mut();
        made.pieces.retain(|&piece| piece != (start, bytes));
        // SAFETY: live, and not in `made` any more; cases wait before.
        unsafe { self.driver.mem_unmap(start, bytes) }
    }

    pub(super) fn pinned(&self) -> DriverResult<*mut u8> {
        let start = self.driver.host_alloc(BYTES)?;
        self.made.borrow_mut().pinned.push(start);
        Ok(start)
    }

    /// The fixture's kernel.
    pub(super) fn function(&self) -> DriverResult<FunctionHandle> {
        let module = self.driver.module_load(&self.kernel.image)?;
        self.made.borrow_mut().modules.push(module);
        // SAFETY: the module is live.
        unsafe { self.driver.module_function(module, self.kernel.symbol) }
    }

    pub(super) fn symbol(&self) -> &'static str {
        self.kernel.symbol
    }

    pub(super) fn begin(&self, stream: StreamHandle) -> DriverResult<()> {
        self.begin_as(stream, CaptureMode::ThreadLocal)
    }

    pub(super) fn begin_as(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()> {
        // SAFETY: a live handle.
        unsafe { self.driver.capture_begin(stream, mode) }
    }

    pub(super) fn end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        // SAFETY: a live handle.
        let graph = unsafe { self.driver.capture_end(stream) }?;
        self.made.borrow_mut().graphs.push(graph);
        Ok(graph)
    }

    /// Takes over a graph that was made by a call of the driver.
    pub(super) fn owns(&self, graph: GraphHandle) {
        self.made.borrow_mut().graphs.push(graph);
    }

    pub(super) fn info(&self, stream: StreamHandle) -> DriverResult<CaptureInfo> {
        // SAFETY: a live handle.
        unsafe { self.driver.capture_info(stream, &mut Vec::new()) }
    }

    pub(super) fn frontier(&self, stream: StreamHandle) -> DriverResult<Vec<NodeHandle>> {
        let mut frontier = Vec::new();
        // SAFETY: a live handle.
        unsafe { self.driver.capture_info(stream, &mut frontier) }?;
        frontier.sort_unstable();
        Ok(frontier)
    }

    /// Fills [`BYTES`] bytes.
    pub(super) fn fill(&self, stream: StreamHandle, to: u64, value: u8) -> DriverResult<()> {
        // SAFETY: memory of this length that lives until `close`.
        unsafe { self.driver.fill_async(stream, to, value, BYTES) }
    }

    /// Copies [`BYTES`] bytes.
    pub(super) fn copy(&self, stream: StreamHandle, to: u64, from: u64) -> DriverResult<()> {
        // SAFETY: memory of this length that lives until `close`.
        unsafe { self.driver.copy_async(stream, to, from, BYTES) }
    }

    /// Adds 1 to the first `len` elements.
    pub(super) fn add_one(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        data: u64,
        len: u32,
    ) -> DriverResult<()> {
        self.add_one_at(stream, function, Start::InOrder, data, len)
    }

    /// Likewise, started as `start` says.
    pub(super) fn add_one_at(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        start: Start,
        mut data: u64,
        mut len: u32,
    ) -> DriverResult<()> {
        let shape = LaunchShape::from(([len.div_ceil(32).max(1), 1, 1], [32, 1, 1]));
        let mut params: [*mut c_void; 2] = [(&raw mut data).cast(), (&raw mut len).cast()];
        // SAFETY: the fixture's kernel has these two parameters and waits for what
        // it follows, and `data` has at least `len` elements and lives until
        // `close`.
        unsafe {
            self.driver
                .launch(stream, function, shape, start, &mut params)
        }
    }

    pub(super) fn record(&self, event: EventHandle, stream: StreamHandle) -> DriverResult<()> {
        self.record_as(event, stream, EventScope::Internal)
    }

    pub(super) fn record_as(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        // SAFETY: live handles.
        unsafe { self.driver.event_record(event, stream, scope) }
    }

    pub(super) fn wait(&self, stream: StreamHandle, event: EventHandle) -> DriverResult<()> {
        self.wait_as(stream, event, EventScope::Internal)
    }

    pub(super) fn wait_as(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        // SAFETY: live handles.
        unsafe { self.driver.stream_wait(stream, event, scope) }
    }

    /// Makes `to` continue after `from`, by a fresh event.
    pub(super) fn order(&self, from: StreamHandle, to: StreamHandle) -> DriverResult<()> {
        let event = self.event()?;
        self.record(event, from)?;
        self.wait(to, event)
    }

    pub(super) fn synchronize(&self, stream: StreamHandle) -> DriverResult<()> {
        // SAFETY: a live handle.
        unsafe { self.driver.stream_synchronize(stream) }
    }

    pub(super) fn nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        // SAFETY: a live handle.
        unsafe { self.driver.graph_nodes(graph) }
    }

    pub(super) fn kinds(&self, graph: GraphHandle) -> DriverResult<Vec<NodeKind>> {
        self.nodes(graph)?
            .into_iter()
            // SAFETY: nodes of a live graph.
            .map(|node| unsafe { self.driver.graph_node(node) })
            .collect()
    }

    /// The edges as pairs of positions in [`nodes`](Self::nodes), ascending.
    pub(super) fn edges(&self, graph: GraphHandle) -> Result<Vec<(usize, usize)>, Failure> {
        let edges = self.kinds_of_edges(graph)?;
        Ok(edges.into_iter().map(|(from, to, _)| (from, to)).collect())
    }

    /// The edges with their kinds, by the places of the nodes.
    pub(super) fn kinds_of_edges(
        &self,
        graph: GraphHandle,
    ) -> Result<Vec<(usize, usize, EdgeKind)>, Failure> {
        let nodes = self.nodes(graph)?;
        let position = |node| {
            nodes
                .iter()
                .position(|&other| other == node)
                .ok_or_else(|| Failure::new("edges between the graph's nodes", format!("{node:?}")))
        };
        // SAFETY: a live handle.
        let mut edges = unsafe { self.driver.graph_edges(graph) }?
            .into_iter()
            .map(|edge| Ok((position(edge.from)?, position(edge.to)?, edge.kind)))
            .collect::<Result<Vec<_>, Failure>>()?;
        edges.sort_unstable_by_key(|&(from, to, _)| (from, to));
        Ok(edges)
    }

    pub(super) fn instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        // SAFETY: a live handle.
        let exec = unsafe { self.driver.graph_instantiate(graph) }?;
        self.made.borrow_mut().execs.push(exec);
        Ok(exec)
    }

    pub(super) fn launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        // SAFETY: live handles; what the graph refers to lives until `close`.
        unsafe { self.driver.exec_launch(exec, stream) }
    }

    /// Instantiates, launches and waits.
    pub(super) fn replay(&self, graph: GraphHandle, stream: StreamHandle) -> DriverResult<()> {
        let exec = self.instantiate(graph)?;
        self.launch(exec, stream)?;
        self.synchronize(stream)
    }

    pub(super) fn destroy_graph(&self, graph: GraphHandle) -> DriverResult<()> {
        self.made
            .borrow_mut()
            .graphs
            .retain(|&other| other != graph);
        // SAFETY: live, and not in `made` any more.
        unsafe { self.driver.graph_destroy(graph) }
    }

    pub(super) fn destroy_exec(&self, exec: ExecHandle) -> DriverResult<()> {
        self.made.borrow_mut().execs.retain(|&other| other != exec);
        // SAFETY: live, and not in `made` any more; cases wait before.
        unsafe { self.driver.exec_destroy(exec) }
    }

    /// Checks that every one of [`BYTES`] bytes is `value`.
    pub(super) fn holds(&self, address: u64, value: u8) -> Check {
        let mut bytes = [0; BYTES as usize];
        // SAFETY: live memory; cases wait before.
        unsafe { self.driver.copy_to_host(&mut bytes, address) }?;
        equal("the bytes", [value; BYTES as usize], bytes)
    }

    /// Ends captures, waits, and gives everything back. The first failure is
    /// reported when all has been tried.
    pub(super) fn close(self) -> Check {
        let made = self.made.into_inner();
        let driver = self.driver;
        let mut outcome = Ok(());
        let mut note = |result: DriverResult<()>| {
            if let (Ok(()), Err(error)) = (&outcome, result) {
                outcome = Err(Failure::new("a case that can be cleaned up", error));
            }
        };
        for &stream in &made.streams {
            // SAFETY: a live handle.
            let info = unsafe { driver.capture_info(stream, &mut Vec::new()) };
            if matches!(&info, Ok(info) if info.status != CaptureStatus::None) {
                // SAFETY: a live handle; the graph is nobody else's. Ending fails
                // on forked streams, and is expected to on broken captures.
                if let Ok(graph) = unsafe { driver.capture_end(stream) } {
                    // SAFETY: the graph is nobody else's.
                    note(unsafe { driver.graph_destroy(graph) });
                }
            }
            note(info.map(drop));
        }
        // SAFETY: each handle was made here, is given back once, and the streams
        // are waited for first.
        unsafe {
            for &stream in &made.streams {
                note(driver.stream_synchronize(stream));
            }
            for exec in made.execs {
                note(driver.exec_destroy(exec));
            }
            for graph in made.graphs {
                note(driver.graph_destroy(graph));
            }
            for module in made.modules {
                note(driver.module_unload(module));
            }
            for event in made.events {
                note(driver.event_destroy(event));
            }
            for stream in made.streams {
                note(driver.stream_destroy(stream));
            }
            for (start, bytes) in made.pieces {
                note(driver.mem_unmap(start, bytes));
            }
            for (start, bytes) in made.ranges {
                note(driver.range_free(start, bytes));
            }
            for address in made.memory {
                note(driver.mem_free(address));
            }
            for start in made.pinned {
                note(driver.host_free(start));
            }
        }
        outcome
    }
}

/// Checks that a call failed in one way.
pub(super) fn fails<T: Debug>(what: &str, class: ErrorClass, result: DriverResult<T>) -> Check {
    match result {
        Err(error) if error.class == class => Ok(()),
        Err(error) => Err(Failure::new(
            format!("{what} to fail: {class} ({})", class.code()),
            error,
        )),
        Ok(value) => Err(Failure::new(
            format!("{what} to fail: {class} ({})", class.code()),
            format!("success, {value:?}"),
        )),
    }
}

/// Checks that two values are equal.
pub(super) fn equal<T: PartialEq + Debug>(what: &str, expected: T, got: T) -> Check {
    if expected == got {
        return Ok(());
    }
    Err(Failure::new(
        format!("{what}: {expected:?}"),
        format!("{got:?}"),
    ))
}
