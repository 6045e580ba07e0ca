//! What a device can do: the unsafe trait that every backend implements.
//!
//! The trait is the driver's own vocabulary and nothing above it: memory,
//! streams, events, stream capture, inspection of graphs, modules and
//! launches. It promises no safety. Handles are plain numbers, and passing a
//! handle that the driver has not given, or has taken back, is undefined
//! behaviour on a real device; that is why almost every method is unsafe and
//! why only the owners call them. What the trait does promise is that a failure
//! comes back as a [`DriverError`] which names the call, and that a call which
//! failed has changed nothing but what CUDA itself changes (an illegal call under
//! capture invalidates the capture).
//!
//! What the words of CUDA's documentation leave open is pinned down by one
//! conformance suite (feature `testing`), which runs on every backend.

pub(crate) mod code;
mod error;
mod types;

pub use code::ModuleImage;
pub use error::{DriverError, ErrorClass};
pub use types::*;

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use streamweir_trace::ByteRange;

/// The result of a driver call.
pub type DriverResult<T> = Result<T, DriverError>;

/// A device, as its driver presents it.
///
/// All methods may be called from any thread. Capture is thread-local where
/// CUDA makes it so: the mode of [`capture_mode_exchange`](Driver::capture_mode_exchange)
/// belongs to the calling thread.
///
/// # Safety
///
/// An implementation must keep the meaning of every method: memory returned by
/// [`mem_alloc`](Driver::mem_alloc) is disjoint from all other live memory, work
/// on one stream runs in order, a wait orders what the event recorded before
/// what the stream does next, and a node of a replayed graph starts only when
/// every node it depends on has ended. Wrappers that break this on purpose
/// (the lying one of feature `testing`) may do so only in what they *report*, never in what runs.
pub unsafe trait Driver: fmt::Debug + Send + Sync + 'static {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// The implementation itself, for callers that know which one it is. A
    /// wrapper answers with what it wraps.
    fn as_any(&self) -> &dyn Any;

    // --- memory -----------------------------------------------------------

    /// Allocates `bytes` bytes of device memory, aligned to 256 bytes.
    /// `bytes` is not zero.
    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64>;

    /// Frees memory.
    ///
    /// # Safety
    /// `address` came from [`mem_alloc`](Self::mem_alloc), is freed once, and
    /// no work that uses it is unfinished or will be replayed.
    unsafe fn mem_free(&self, address: u64) -> DriverResult<()>;

    /// In what unit address ranges are reserved and backed with memory, in
    /// bytes; `None` when the device cannot do that.
    fn map_unit(&self) -> DriverResult<Option<u64>>;

    /// Reserves `bytes` addresses, a multiple of the unit and not zero, without
    /// memory behind them. No touch of a stream, so allowed under capture.
    fn range_reserve(&self, bytes: u64) -> DriverResult<u64>;

    /// Gives a reserved range back.
    ///
    /// # Safety
    /// The range came from [`range_reserve`](Self::range_reserve) with this
    /// length, is freed once, and nothing is mapped in it.
    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// Backs `bytes` bytes of a reserved range with device memory that copies
    /// and kernels may use. Pieces that adjoin are used as one. Both numbers are
    /// multiples of the unit.
    ///
    /// # Safety
    /// The bytes lie in one live range, and nothing is mapped there.
    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// Takes the memory of a piece away.
    ///
    /// # Safety
    /// As for [`mem_free`](Self::mem_free), for a piece that
    /// [`mem_map`](Self::mem_map) made with these numbers.
    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// The live allocation that holds `address`, from anybody who shares the
    /// context, or `None` when there is none.
    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>>;

    /// The memory that `address` lies in, from anybody who shares the context,
    /// and whether it is the device's; `None` for what the driver does not know.
    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>>;

    /// Allocates `bytes` bytes of page-locked host memory that copies on a
    /// stream may use. `bytes` is not zero.
    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8>;

    /// Frees page-locked host memory.
    ///
    /// # Safety
    /// As for [`mem_free`](Self::mem_free).
    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()>;

    /// Copies host bytes to the device and waits for the copy.
    ///
    /// # Safety
    /// `to..to + from.len()` is live device memory that no unfinished work uses.
    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()>;

    /// Copies device bytes to the host and waits for the copy.
    ///
    /// # Safety
    /// `from..from + to.len()` is live device memory that no unfinished work
    /// writes.
    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()>;

    /// Enqueues a copy. Either side is device memory or page-locked host
    /// memory. Host memory is read when the copy runs, at every replay.
    ///
    /// # Safety
    /// The handle is live, and both ranges stay live until the copy, and every
    /// replay of a graph that captures it, has ended.
    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()>;

    /// Enqueues a fill of `bytes` bytes with `value`.
    ///
    /// # Safety
    /// As for [`copy_async`](Self::copy_async).
    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()>;

    // --- streams and events -----------------------------------------------

    /// Creates a stream that does not synchronise with the legacy default
    /// stream. A lower number is a higher priority; out of range is clamped.
    fn stream_create(&self, priority: i32) -> DriverResult<StreamHandle>;

    /// Destroys a stream; its enqueued work still runs.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and takes part in no capture.
    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()>;

    /// Waits for all work of the stream.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()>;

    /// Whether all work of the stream has ended.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool>;

    /// Creates an event.
    fn event_create(&self, timing: bool) -> DriverResult<EventHandle>;

    /// Destroys an event. Waits already enqueued stay valid.
    ///
    /// # Safety
    /// The handle is live and not used afterwards, by a captured graph neither.
    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()>;

    /// Records an event on a stream. Under capture this records the stream's
    /// frontier and makes no node; with [`EventScope::External`] it makes an
    /// event-record node.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()>;

    /// Makes the stream's next work wait for an event. Waiting for an event
    /// that a capture recorded takes the stream into that capture; with
    /// [`EventScope::External`] the wait becomes an event-wait node.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()>;

    /// Whether all that the event recorded has ended.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool>;

    /// Waits for all that the event recorded.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()>;

    /// Milliseconds between two recorded timing events. A device without a
    /// clock answers with [`ErrorClass::NotSupported`].
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32>;

    // --- capture ----------------------------------------------------------

    /// Begins capture on a stream.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()>;

    /// Ends capture. On failure the capture is over all the same and its graph
    /// is gone, except for [`ErrorClass::CaptureUnmatched`]: that invalidates
    /// the capture, which must then be ended on its origin.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle>;

    /// How a stream takes part in a capture. `frontier` is cleared and filled
    /// with the nodes that the stream's next node would depend on.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo>;

    /// Sets the calling thread's capture mode and returns the former one.
    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode>;

    // --- graphs -----------------------------------------------------------

    /// The nodes of a graph, in the driver's order.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>>;

    /// The edges of a graph.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>>;

    /// What a node does: its kind, operands, function and raw parameters.
    /// Parameters carry no names and no targets.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<streamweir_trace::NodeKind>;

    /// The graph that a child graph node replays. It belongs to the node.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle>;

    /// How a kernel node is launched, beyond its shape.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes>;

    /// A new graph of one node that does what this node does: the launch of a
    /// kernel, with the same function, shape, parameters and attributes, or a fill.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle>;

    /// Adds a node to a graph that replays a copy of `child` after `after`.
    ///
    /// # Safety
    /// The handles are live, `after` are nodes of `graph`, and nobody else uses
    /// `graph` meanwhile.
    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle>;

    /// Ties `keep` to the life of a graph and of everything instantiated from
    /// it. It may be dropped on a thread of the driver, where no driver call is
    /// allowed.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()>;

    /// Destroys a graph; what was instantiated from it lives on.
    ///
    /// # Safety
    /// The handle is live, owned by the caller and not used afterwards.
    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()>;

    /// Instantiates a graph.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle>;

    /// Launches an instantiated graph.
    ///
    /// # Safety
    /// The handles are live, and so is all that the graph refers to until the
    /// launch has ended.
    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()>;

    /// Moves an instantiated graph to the device ahead of its first launch.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()>;

    /// Lets a kernel, a copy or a fill of an instantiated graph do nothing in later
    /// launches, or again what it did. Meanwhile it is an empty node with the same
    /// edges: by full ones it orders what it did; what a programmatic one does then is
    /// not documented.
    ///
    /// # Safety
    /// The handles are live, `node` is of the graph that `exec` was instantiated
    /// from, and nobody else uses `exec` meanwhile.
    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()>;

    /// Destroys an instantiated graph.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and no launch of it is
    /// unfinished.
    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()>;

    // --- code -------------------------------------------------------------

    /// Loads a module.
    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle>;

    /// Unloads a module.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and no work that uses its
    /// functions is unfinished or will be replayed.
    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()>;

    /// Looks a kernel up by its symbol.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle>;

    /// Where the kernel expects its parameters.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>>;

    /// The compute capability that the kernel's code was compiled for, and which its
    /// `__CUDA_ARCH__` was: not that of the device, for which the driver may have
    /// compiled it again.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)>;

    /// Allows the kernel `bytes` bytes of dynamic shared memory per block.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()>;

    /// Launches a kernel. `params[i]` points to the value of parameter `i`.
    ///
    /// # Safety
    /// The handles are live; there are as many parameters as
    /// [`function_params`](Self::function_params) says, each pointing to as
    /// many readable bytes; and what they refer to stays live until the launch,
    /// and every replay of a graph that captures it, has ended. A kernel that
    /// starts [early](Start::Early) waits, in each of its threads, for what it
    /// follows before the thread touches memory (`griddepcontrol.wait`).
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()>;
}

/// A driver behind a shared pointer, as everything above the trait holds it.
pub type DynDriver = Arc<dyn Driver>;
