//! The simulated device as a [`Driver`]: which check each call makes first.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use streamweir_trace::{ByteRange, CopyNode, FillNode, NodeKind};

use super::SimDriver;
use super::memory::reserve;
use super::objects::{Event, Stream};
use super::work::Work;
use crate::driver::code::BlockMemory;
use crate::driver::{
    CaptureInfo, CaptureMode, DeviceInfo, Driver, DriverResult, ErrorClass, EventHandle,
    EventScope, ExecHandle, FunctionHandle, GraphEdge, GraphHandle, KernelAttributes, LaunchShape,
    ModuleHandle, ModuleImage, NodeHandle, ParamSlot, Pointed, Start, StreamHandle,
};

// SAFETY: addresses are never given out twice, streams and waits become
// dependencies of tasks, and the executor runs a task only when all that it
// depends on has ended.
unsafe impl Driver for SimDriver {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64> {
        self.call("cuMemAlloc", |device| {
            device.potentially_unsafe()?;
            if bytes == 0 {
                return Err(device.fail(ErrorClass::InvalidValue).with("zero bytes"));
            }
            device.memory.alloc(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes"))
            })
        })
    }

    unsafe fn mem_free(&self, address: u64) -> DriverResult<()> {
        self.release("cuMemFree", |device| {
            device.potentially_unsafe()?;
            if device.memory.free(address) {
                return Ok(());
            }
            Err(device
                .fail(ErrorClass::InvalidValue)
                .with(format!("no allocation starts at {address:#x}")))
        })
    }

    fn map_unit(&self) -> DriverResult<Option<u64>> {
        self.call("cuMemGetAllocationGranularity", |_| Ok(Some(reserve::UNIT)))
    }

    fn range_reserve(&self, bytes: u64) -> DriverResult<u64> {
        self.call("cuMemAddressReserve", |device| {
            if bytes == 0 || !bytes.is_multiple_of(reserve::UNIT) {
                let fail = device.fail(ErrorClass::InvalidValue);
                return Err(fail.with(format!("{bytes} bytes")));
            }
            device.memory.reserve(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes of addresses"))
            })
        })
    }

    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.release("cuMemAddressFree", |device| {
            if device.memory.unreserve(address, bytes) {
                return Ok(());
            }
            let fail = device.fail(ErrorClass::InvalidValue);
            Err(fail.with(format!("no idle range of {bytes} bytes at {address:#x}")))
        })
    }

    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.call("cuMemMap", |device| {
            device.potentially_unsafe()?;
            let mapped = device.memory.map(address, bytes);
            mapped.map_err(|refusal| {
                let class = match refusal {
                    reserve::Refusal::Invalid => ErrorClass::InvalidValue,
                    reserve::Refusal::OutOfMemory => ErrorClass::OutOfMemory,
                };
                let fail = device.fail(class);
                fail.with(format!("{bytes} bytes at {address:#x}"))
            })
        })
    }

    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.release("cuMemUnmap", |device| {
            device.potentially_unsafe()?;
            if device.memory.unmap(address, bytes) {
                return Ok(());
            }
            let fail = device.fail(ErrorClass::InvalidValue);
            Err(fail.with(format!(
                "nothing of {bytes} bytes is mapped at {address:#x}"
            )))
        })
    }

    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>> {
        self.call("cuMemGetAddressRange", |device| {
            Ok(device.memory.range(address))
        })
    }

    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>> {
        self.call("cuPointerGetAttributes", |device| {
            Ok(device.memory.pointer(address))
        })
    }

    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8> {
        self.call("cuMemHostAlloc", |device| {
            device.potentially_unsafe()?;
            if bytes == 0 {
                return Err(device.fail(ErrorClass::InvalidValue).with("zero bytes"));
            }
            device.memory.host_alloc(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes of host memory"))
            })
        })
    }

    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()> {
        self.release("cuMemFreeHost", |device| {
            device.potentially_unsafe()?;
            if device.memory.host_free(address as u64) {
                return Ok(());
            }
            Err(device
                .fail(ErrorClass::InvalidValue)
                .with(format!("no allocation starts at {address:?}")))
        })
    }

    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()> {
        self.call("cuMemcpyHtoD", |device| {
            device.memory.store(to, from).map_err(|fault| {
                device
                    .fail(ErrorClass::InvalidValue)
                    .with(fault.to_string())
            })
        })
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()> {
        self.call("cuMemcpyDtoH", |device| {
            match device.memory.device_bytes(from, to.len() as u64) {
                Ok(bytes) => to.copy_from_slice(bytes),
                Err(fault) => {
                    return Err(device
                        .fail(ErrorClass::InvalidValue)
                        .with(fault.to_string()));
                }
            }
            Ok(())
        })
    }

    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()> {
        self.call("cuMemcpyAsync", |device| {
            device.capture_of(stream)?;
            if bytes == 0 {
                return Ok(());
            }
            for address in [to, from] {
                if !device.memory.holds(address, bytes) {
                    return Err(device
                        .fail(ErrorClass::InvalidValue)
                        .with(format!("{bytes} bytes from {address:#x} on")));
                }
            }
            device.submit(stream, Work::Copy(CopyNode::linear(to, from, bytes)))
        })
    }

    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()> {
        self.call("cuMemsetD8Async", |device| {
            device.capture_of(stream)?;
            if bytes == 0 {
                return Ok(());
            }
            if device.memory.device_bytes(to, bytes).is_err() {
                return Err(device
                    .fail(ErrorClass::InvalidValue)
                    .with(format!("{bytes} bytes from {to:#x} on")));
            }
            device.submit(stream, Work::Fill(FillNode::linear(to, bytes, value)))
        })
    }

    fn stream_create(&self, _priority: i32) -> DriverResult<StreamHandle> {
        self.call("cuStreamCreateWithPriority", |device| {
            let handle = StreamHandle(device.handle());
            device.streams.insert(handle, Stream::default());
            Ok(handle)
        })
    }

    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()> {
        self.release("cuStreamDestroy", |device| device.stream_destroy(stream))
    }

    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuStreamSynchronize", |device| {
            let tail = device.stream_tail(stream)?;
            device.potentially_unsafe()?;
            device.finish(&tail)
        })
    }

    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool> {
        self.call("cuStreamQuery", |device| {
            let tail = device.stream_tail(stream)?;
            device.potentially_unsafe()?;
            device.poll(&tail)
        })
    }

    fn event_create(&self, _timing: bool) -> DriverResult<EventHandle> {
        self.call("cuEventCreate", |device| {
            let handle = EventHandle(device.handle());
            device.events.insert(handle, Event::Unrecorded);
            Ok(handle)
        })
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()> {
        self.release("cuEventDestroy", |device| {
            match device.events.remove(&event) {
                Some(_) => Ok(()),
                None => Err(device.unknown(event)),
            }
        })
    }

    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        self.call("cuEventRecordWithFlags", |device| {
            device.event(event)?;
            match (scope, device.capture_of(stream)?) {
                (EventScope::Internal, _) => device.record_event(event, stream),
                (EventScope::External, Some(_)) => device.record(stream, Work::EventRecord(event)),
                (EventScope::External, None) => Err(device
                    .fail(ErrorClass::IllegalState)
                    .with("an external record needs a capturing stream")),
            }
        })
    }

    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        self.call("cuStreamWaitEvent", |device| {
            device.event(event)?;
            match (scope, device.capture_of(stream)?) {
                (EventScope::Internal, _) => device.wait_event(stream, event),
                (EventScope::External, Some(_)) => device.record(stream, Work::EventWait(event)),
                (EventScope::External, None) => Err(device
                    .fail(ErrorClass::IllegalState)
                    .with("an external wait needs a capturing stream")),
            }
        })
    }

    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool> {
        self.call("cuEventQuery", |device| {
            let tail = device.event_tail(event)?;
            device.poll(&tail)
        })
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()> {
        self.call("cuEventSynchronize", |device| {
            let tail = device.event_tail(event)?;
            device.finish(&tail)
        })
    }

    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        self.call("cuEventElapsedTime", |device| device.elapsed(start, end))
    }

    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()> {
        self.call("cuStreamBeginCapture", |device| {
            device.capture_begin(stream, mode)
        })
    }

    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        self.locked("cuStreamEndCapture", |device| {
            let ended = device.capture_end(stream);
            if let (Ok(graph), Err(broken)) = (&ended, device.healthy()) {
                device.remove_graph(*graph);
                return Err(broken);
            }
            ended
        })
    }

    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo> {
        self.call("cuStreamGetCaptureInfo", |device| {
            device.capture_info(stream, frontier)
        })
    }

    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode> {
        self.locked("cuThreadExchangeStreamCaptureMode", |device| {
            Ok(device.exchange_mode(mode))
        })
    }

    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        self.call("cuGraphGetNodes", |device| device.graph_nodes(graph))
    }

    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>> {
        self.call("cuGraphGetEdges", |device| device.graph_edges(graph))
    }

    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        self.call("cuGraphNodeGetParams", |device| {
            Ok(device.node(node)?.kind())
        })
    }

    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        self.call("cuGraphChildGraphNodeGetGraph", |device| {
            device.graph_child(node)
        })
    }

    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes> {
        self.call("cuGraphKernelNodeGetAttribute", |device| {
            device.kernel_node(node)?;
            Ok(KernelAttributes::default())
        })
    }

    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        self.call("cuGraphAddKernelNode", |device| device.graph_alone(node))
    }

    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle> {
        self.call("cuGraphAddChildGraphNode", |device| {
            device.graph_add_child(graph, after, child)
        })
    }

    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()> {
        let keep = Arc::new(keep);
        self.call("cuGraphRetainUserObject", |device| {
            device.graph_retain(graph, keep)
        })
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()> {
        self.release("cuGraphDestroy", |device| device.graph_destroy(graph))
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        self.call("cuGraphInstantiate", |device| {
            device.graph_instantiate(graph)
        })
    }

    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuGraphLaunch", |device| device.exec_launch(exec, stream))
    }

    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuGraphUpload", |device| {
            if !device.execs.contains_key(&exec) {
                return Err(device.unknown(exec));
            }
            device.not_capturing(stream)
        })
    }

    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        self.call("cuGraphNodeSetEnabled", |device| {
            device.exec_enable(exec, node, enabled)
        })
    }

    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()> {
        self.release("cuGraphExecDestroy", |device| device.exec_destroy(exec))
    }

    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle> {
        self.call("cuModuleLoadData", |device| device.module_load(image))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()> {
        self.release("cuModuleUnload", |device| {
            device.potentially_unsafe()?;
            device.module_unload(module)
        })
    }

    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle> {
        self.call("cuModuleGetFunction", |device| {
            device.module_function(module, symbol)
        })
    }

    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>> {
        self.call("cuFuncGetParamInfo", |device| {
            Ok(device.function(function)?.kernel.params.clone())
        })
    }

    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)> {
        // A twin begins when all before it is done: it is as code that waits.
        self.call("cuFuncGetAttribute", |device| {
            device.function(function).map(|_| (9, 0))
        })
    }

    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()> {
        self.call("cuFuncSetAttribute", |device| {
            device.shared_limit(function, bytes)
        })
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let call = match start {
            Start::InOrder => "cuLaunchKernel",
            Start::Early => "cuLaunchKernelEx",
        };
        self.call(call, |device| {
            // SAFETY: the caller promises this very thing.
            unsafe { device.launch(stream, function, shape, start, params) }
        })
    }
}
