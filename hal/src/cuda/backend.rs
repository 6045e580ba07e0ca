//! The trait, call by call.
//!
//! Each method enters the context, makes one call and says in its error what
//! it was about. Where one call of CUDA does not keep the trait's promise, the
//! method says why there are two.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::driver::sys;
use streamweir_trace::{ByteRange, NodeKind};

use super::handle::Raw;
use super::{CudaDriver, capture, graph, launch, mapping, module, node, retain};
use crate::driver::{
    CaptureInfo, CaptureMode, DeviceInfo, Driver, DriverError, DriverResult, ErrorClass,
    EventHandle, EventScope, ExecHandle, FunctionHandle, GraphEdge, GraphHandle, KernelAttributes,
    LaunchShape, ModuleHandle, ModuleImage, NodeHandle, ParamSlot, Pointed, Start, StreamHandle,
};

/// A node keeps the priority of the stream that it was captured on. Without this
/// flag all nodes have that of the stream that the graph is replayed on.
const USE_NODE_PRIORITY: u64 =
    sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0 as u64;
const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
const DISABLE_TIMING: u32 = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
const RECORD_EXTERNAL: u32 = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
const WAIT_EXTERNAL: u32 = sys::CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL as u32;

/// The stream that synchronous copies run on.
const LEGACY_STREAM: sys::CUstream = ptr::null_mut();

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver keeps allocations disjoint, streams in order and graphs to their
// edges.
unsafe impl Driver for CudaDriver {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    // --- memory -----------------------------------------------------------

    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64> {
        let _current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.library.cuMemAlloc(&raw mut address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of device memory")))?;
        Ok(address)
    }

    unsafe fn mem_free(&self, address: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemFree(address) }
            .map_err(|error| error.with(format!("device memory at {address:#x}")))
    }

    fn map_unit(&self) -> DriverResult<Option<u64>> {
        let _current = self.context.enter()?;
        mapping::unit(self.library, self.info.ordinal)
    }

    fn range_reserve(&self, bytes: u64) -> DriverResult<u64> {
        let _current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library
                .cuMemAddressReserve(&raw mut address, bytes as usize, 0, 0, 0)
        }
        .map_err(|error| error.with(format!("{bytes} bytes of addresses")))?;
        Ok(address)
    }

    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemAddressFree(address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of addresses at {address:#x}")))
    }

    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { mapping::map(self.library, self.info.ordinal, address, bytes) }
            .map_err(|error| error.with(format!("{bytes} bytes of memory at {address:#x}")))
    }

    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemUnmap(address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of memory at {address:#x}")))
    }

    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>> {
        let _current = self.context.enter()?;
        let (mut base, mut size) = (0, 0);
        // SAFETY: the pointers are to locals; the address is looked up, not used.
        let found = unsafe {
            self.library
                .cuMemGetAddressRange(&raw mut base, &raw mut size, address)
        };
        match found {
            Ok(()) => Ok(ByteRange::from_len(base, size as u64)),
            Err(error)
                if matches!(error.class, ErrorClass::NotFound | ErrorClass::InvalidValue) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.with(format!("address {address:#x}"))),
        }
    }

    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>> {
        use sys::CUpointer_attribute as Attribute;

        const DEVICE: u32 = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
        let _current = self.context.enter()?;
        let (mut start, mut size, mut memory): (u64, usize, u32) = (0, 0, 0);
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        ];
        let mut values = [
            (&raw mut start).cast::<c_void>(),
            (&raw mut size).cast(),
            (&raw mut memory).cast(),
        ];
        // SAFETY: each value has the size of its attribute; the address is
        // looked up, not used. For one that the driver does not know the call
        // succeeds and leaves zeros.
        let asked = unsafe {
            self.library.cuPointerGetAttributes(
                attributes.len() as u32,
                attributes.as_mut_ptr(),
                values.as_mut_ptr(),
                address,
            )
        };
        match asked {
            Ok(()) => Ok((size > 0)
                .then(|| ByteRange::from_len(start, size as u64))
                .flatten()
                .map(|range| Pointed {
                    range,
                    device: memory == DEVICE,
                })),
            Err(error)
                if matches!(error.class, ErrorClass::NotFound | ErrorClass::InvalidValue) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.with(format!("address {address:#x}"))),
        }
    }

    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8> {
        let _current = self.context.enter()?;
        let mut address = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library.cuMemHostAlloc(
                &raw mut address,
                bytes as usize,
                sys::CU_MEMHOSTALLOC_PORTABLE,
            )
        }
        .map_err(|error| error.with(format!("{bytes} bytes of page-locked host memory")))?;
        Ok(address.cast())
    }

    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemFreeHost(address.cast()) }
            .map_err(|error| error.with(format!("host memory at {address:p}")))
    }

    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()> {
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // CUDA returns from a copy out of pageable memory once the bytes are
        // staged; they may still be on their way when a stream that does not
        // wait for the legacy one reads them. The copy is allowed under capture
        // and the wait for it is not, though it touches no capturing stream.
        let former = capture::exchange_mode(self.library, CaptureMode::Relaxed)?;
        // SAFETY: by the caller; the slice is readable.
        let copied = unsafe {
            self.library
                .cuMemcpyHtoD(to, from.as_ptr().cast(), from.len())
                .and_then(|()| self.library.cuStreamSynchronize(LEGACY_STREAM))
        };
        let restored = capture::exchange_mode(self.library, former);
        copied
            .and(restored.map(drop))
            .map_err(|error| error.with(format!("{} bytes to {to:#x}", from.len())))
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()> {
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // SAFETY: by the caller; the slice is writable.
        unsafe {
            self.library
                .cuMemcpyDtoH(to.as_mut_ptr().cast(), from, to.len())
        }
        .map_err(|error| error.with(format!("{} bytes from {from:#x}", to.len())))
    }

    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller. Host and device addresses are told apart by the
        // driver: they share one address space.
        unsafe {
            self.library
                .cuMemcpyAsync(to, from, bytes as usize, stream.raw())
        }
        .map_err(|error| error.with(format!("{bytes} bytes from {from:#x} to {to:#x}")))
    }

    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuMemsetD8Async(to, value, bytes as usize, stream.raw())
        }
        .map_err(|error| error.with(format!("{bytes} bytes at {to:#x}")))
    }

    // --- streams and events -----------------------------------------------

    fn stream_create(&self, priority: i32) -> DriverResult<StreamHandle> {
        let _current = self.context.enter()?;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library
                .cuStreamCreateWithPriority(&raw mut stream, NON_BLOCKING, priority)
        }?;
        Ok(StreamHandle::of(stream))
    }

    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuStreamDestroy(stream.raw()) }
    }

    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuStreamSynchronize(stream.raw()) }
    }

    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        finished(unsafe { self.library.cuStreamQuery(stream.raw()) })
    }

    fn event_create(&self, timing: bool) -> DriverResult<EventHandle> {
        let _current = self.context.enter()?;
        let mut event = ptr::null_mut();
        let flags = if timing { 0 } else { DISABLE_TIMING };
        // SAFETY: the pointer is to a local.
        unsafe { self.library.cuEventCreate(&raw mut event, flags) }?;
        Ok(EventHandle::of(event))
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuEventDestroy(event.raw()) }
    }

    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        let flags = match scope {
            EventScope::Internal => 0,
            EventScope::External => RECORD_EXTERNAL,
        };
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuEventRecordWithFlags(event.raw(), stream.raw(), flags)
        }
    }

    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        let flags = match scope {
            EventScope::Internal => 0,
            EventScope::External => WAIT_EXTERNAL,
        };
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuStreamWaitEvent(stream.raw(), event.raw(), flags)
        }
    }

    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        finished(unsafe { self.library.cuEventQuery(event.raw()) })
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuEventSynchronize(event.raw()) }
    }

    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        let _current = self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuEventElapsedTime(&raw mut milliseconds, start.raw(), end.raw())
        }?;
        Ok(milliseconds)
    }

    // --- capture ----------------------------------------------------------

    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuStreamBeginCapture(stream.raw(), capture::mode(mode))
        }
    }

    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        let mut graph = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuStreamEndCapture(stream.raw(), &raw mut graph)
        }?;
        if graph.is_null() {
            return Err(
                DriverError::of("cuStreamEndCapture", ErrorClass::CaptureInvalidated)
                    .with("the driver gave no graph"),
            );
        }
        Ok(GraphHandle::of(graph))
    }

    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { capture::info(self.library, stream.raw(), frontier) }
    }

    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode> {
        // The call needs no context.
        capture::exchange_mode(self.library, mode)
    }

    // --- graphs -----------------------------------------------------------

    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { graph::nodes(self.library, graph.raw()) }
    }

    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { graph::edges(self.library, graph.raw()) }
    }

    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { node::read(self.library, node.raw()) }
    }

    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        let mut child = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuGraphChildGraphNodeGetGraph(node.raw(), &raw mut child)
        }?;
        Ok(GraphHandle::of(child))
    }

    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { launch::attributes(self.library, node.raw()) }
    }

    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        Ok(GraphHandle::of(unsafe {
            launch::alone(self.library, node.raw(), self.context.raw())
        }?))
    }

    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle> {
        let _current = self.context.enter()?;
        let after: Vec<_> = after.iter().map(|node| node.raw()).collect();
        let mut node = ptr::null_mut();
        // SAFETY: by the caller; there are as many dependencies as said.
        unsafe {
            self.library.cuGraphAddChildGraphNode(
                &raw mut node,
                graph.raw(),
                after.as_ptr(),
                after.len(),
                child.raw(),
            )
        }?;
        Ok(NodeHandle::of(node))
    }

    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { retain::retain(self.library, graph.raw(), keep) }
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphDestroy(graph.raw()) }
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        let _current = self.context.enter()?;
        let mut exec = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuGraphInstantiateWithFlags(&raw mut exec, graph.raw(), USE_NODE_PRIORITY)
        }?;
        Ok(ExecHandle::of(exec))
    }

    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphLaunch(exec.raw(), stream.raw()) }
    }

    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphUpload(exec.raw(), stream.raw()) }
    }

    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuGraphNodeSetEnabled(exec.raw(), node.raw(), enabled.into())
        }
    }

    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphExecDestroy(exec.raw()) }
    }

    // --- code -------------------------------------------------------------

    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle> {
        let ModuleImage::Cuda(image) = image else {
            return Err(
                DriverError::of("cuModuleLoadDataEx", ErrorClass::NotSupported).with(
                    "the module holds functions of the simulated device; a CUDA device needs a \
                     cubin, a fatbin or PTX",
                ),
            );
        };
        let _current = self.context.enter()?;
        // SAFETY: the context is current.
        Ok(ModuleHandle::of(unsafe {
            module::load(self.library, image)
        }?))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuModuleUnload(module.raw()) }
    }

    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        Ok(FunctionHandle::of(unsafe {
            module::function(self.library, module.raw(), symbol)
        }?))
    }

    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { node::function_params(self.library, function.raw()) }
    }

    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)> {
        use sys::CUfunction_attribute::{
            CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION,
        };
        let _current = self.context.enter()?;
        let version = |attribute| {
            let mut value = 0;
            // SAFETY: the function is live by the caller, the pointer is to a local.
            unsafe {
                self.library
                    .cuFuncGetAttribute(&raw mut value, attribute, function.raw())?;
            }
            Ok(u32::try_from(value).unwrap_or(0))
        };
        // Of PTX the binary has the device's version, and the PTX its own.
        let binary = version(CU_FUNC_ATTRIBUTE_BINARY_VERSION)?;
        let target = binary.min(version(CU_FUNC_ATTRIBUTE_PTX_VERSION)?);
        Ok((target / 10, target % 10))
    }

    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // A number past the driver's type is past every device too.
        let value = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: by the caller.
        unsafe {
            self.library.cuFuncSetAttribute(
                function.raw(),
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                value,
            )
        }
        .map_err(|error| error.with(format!("{bytes} bytes of dynamic shared memory per block")))
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        let launched =
            unsafe { launch::launch(self.library, stream, function, shape, start, params) };
        launched.map_err(|error| {
            let LaunchShape {
                grid,
                block,
                shared_bytes,
            } = shape;
            error.with(format!(
                "grid {grid:?}, block {block:?}, {shared_bytes} bytes of dynamic shared memory"
            ))
        })
    }
}

/// Whether work has ended, from the result of a query.
fn finished(query: DriverResult<()>) -> DriverResult<bool> {
    match query {
        Ok(()) => Ok(true),
        Err(error) if error.class == ErrorClass::NotReady => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_an_answer_and_a_failure_is_not() {
        assert_eq!(finished(Ok(())), Ok(true));
        let query = |class| finished(Err(DriverError::of("cuStreamQuery", class)));
        assert_eq!(query(ErrorClass::NotReady), Ok(false));
        assert_eq!(
            query(ErrorClass::IllegalAddress),
            Err(DriverError::of("cuStreamQuery", ErrorClass::IllegalAddress))
        );
    }
}
