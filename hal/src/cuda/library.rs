//! The driver library: which functions of it are used, and how they are found.
//!
//! [`Library`] is a table of function pointers, resolved once and all together.
//! A function that the installed driver lacks is therefore an error when the
//! first device is opened, with its name, and never a surprise in the middle of
//! a capture.
//!
//! Why a table of our own beside cudarc's bindings, whose types it uses: a name
//! in those bindings comes and goes with the CUDA version that the final
//! binary picks (`cuStreamGetCaptureInfo_v2` is gone in 13.0), while the
//! exported symbols, which carry their version, stay in every later driver; a
//! missing one panics there at its first call; and results are Rust enums
//! there, for which a code that a newer driver invents is undefined behaviour.
//! Here a result is a number. A test holds every signature against cudarc's.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt;

use cudarc::driver::sys::*;

use crate::driver::{DriverError, DriverResult, ErrorClass};

/// `cuGetErrorString`, which is asked about numbers that cudarc's enum may not
/// know, and so is not in the table.
type ErrorString = unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint;
const ERROR_STRING: &str = "cuGetErrorString";

macro_rules! symbols {
    ($($name:ident = $symbol:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// Every function of the driver that is used, resolved. The code that the
        /// pointers point to stays mapped to the end of the process.
        #[allow(non_snake_case)] // the names are the driver's
        pub(super) struct Library {
            $($name: unsafe extern "C" fn($($ty),*) -> c_uint,)*
            error_string: ErrorString,
        }

        // The names and the parameter lists are the driver's.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl Library {
            /// The symbols of the table.
            #[cfg(test)]
            pub(super) const SYMBOLS: &[&str] = &[$(stringify!($symbol),)* ERROR_STRING];

            /// Looks every symbol up, or says which ones are missing.
            ///
            /// # Safety
            /// `lookup` gives the address of the function that the driver
            /// exports under the name, and the code there stays mapped.
            pub(super) unsafe fn resolve(
                lookup: impl Fn(&'static str) -> Option<*const c_void>,
            ) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                let mut find = |symbol| {
                    let found = lookup(symbol);
                    if found.is_none() {
                        missing.push(symbol);
                    }
                    found
                };
                $(let $name = find(stringify!($symbol));)*
                let error_string = find(ERROR_STRING);
                match (error_string, $($name,)*) {
                    (Some(error_string), $(Some($name),)*) => Ok(Self {
                        $(
                            // SAFETY: the driver exports the symbol with this
                            // signature: the version is part of its name.
                            $name: unsafe {
                                std::mem::transmute::<
                                    *const c_void,
                                    unsafe extern "C" fn($($ty),*) -> c_uint,
                                >($name)
                            },
                        )*
                        // SAFETY: as above.
                        error_string: unsafe {
                            std::mem::transmute::<*const c_void, ErrorString>(error_string)
                        },
                    }),
                    _ => Err(missing),
                }
            }

            $(
                #[inline]
                pub(super) unsafe fn $name(&self, $($arg: $ty),*) -> DriverResult<()> {
                    // SAFETY: the caller answers for the arguments.
                    let code = unsafe { (self.$name)($($arg),*) };
                    if code == 0 {
                        return Ok(());
                    }
                    Err(self.failure(stringify!($name), code))
                }
            )*
        }

        /// Holds every signature of the table against cudarc's bindings of the
        /// same symbol. It need not run: it compiles only when they agree.
        #[cfg(test)]
        #[allow(dead_code)]
        fn signatures_agree_with_cudarc() {
            $(let _: unsafe fn($($ty),*) -> CUresult = cudarc::driver::sys::$symbol;)*
        }
    };
}

symbols! {
    cuInit = cuInit(flags: c_uint);
    cuDriverGetVersion = cuDriverGetVersion(version: *mut c_int);

    cuDeviceGet = cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetCount = cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName = cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceGetAttribute =
        cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceTotalMem = cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDevicePrimaryCtxRetain = cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease = cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxGetCurrent = cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxSetCurrent = cuCtxSetCurrent(context: CUcontext);
    cuCtxGetDevice = cuCtxGetDevice(device: *mut CUdevice);

    cuMemAlloc = cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree = cuMemFree_v2(address: CUdeviceptr);
    cuMemGetAllocationGranularity = cuMemGetAllocationGranularity(
        granularity: *mut usize,
        prop: *const CUmemAllocationProp,
        option: CUmemAllocationGranularity_flags,
    );
    cuMemAddressReserve = cuMemAddressReserve(
        address: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        wanted: CUdeviceptr,
        flags: c_ulonglong,
    );
    cuMemAddressFree = cuMemAddressFree(address: CUdeviceptr, bytes: usize);
    cuMemCreate = cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        prop: *const CUmemAllocationProp,
        flags: c_ulonglong,
    );
    cuMemRelease = cuMemRelease(handle: CUmemGenericAllocationHandle);
    cuMemMap = cuMemMap(
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    );
    cuMemSetAccess = cuMemSetAccess(
        address: CUdeviceptr,
        bytes: usize,
        access: *const CUmemAccessDesc,
        count: usize,
    );
    cuMemUnmap = cuMemUnmap(address: CUdeviceptr, bytes: usize);
    cuMemGetAddressRange =
        cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr);
    cuPointerGetAttributes = cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void,
        address: CUdeviceptr,
    );
    cuMemHostAlloc = cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost = cuMemFreeHost(address: *mut c_void);
    cuMemcpyHtoD = cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    cuMemcpyDtoH = cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
    cuMemcpyAsync =
        cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemsetD8Async =
        cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream);

    cuStreamCreateWithPriority =
        cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    cuStreamGetCtx = cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    cuStreamDestroy = cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize = cuStreamSynchronize(stream: CUstream);
    cuStreamQuery = cuStreamQuery(stream: CUstream);
    cuEventCreate = cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy = cuEventDestroy_v2(event: CUevent);
    cuEventRecordWithFlags =
        cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
    cuStreamWaitEvent = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuEventQuery = cuEventQuery(event: CUevent);
    cuEventSynchronize = cuEventSynchronize(event: CUevent);
    cuEventElapsedTime = cuEventElapsedTime_v2(ms: *mut f32, start: CUevent, end: CUevent);

    cuStreamBeginCapture = cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    cuStreamEndCapture = cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    cuStreamGetCaptureInfo = cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut cuuint64_t,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    );
    cuThreadExchangeStreamCaptureMode =
        cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);

    cuGraphGetNodes = cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    cuGraphGetEdges = cuGraphGetEdges_v2(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize,
    );
    cuGraphNodeGetType = cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType);
    cuGraphKernelNodeGetParams =
        cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS);
    cuGraphMemcpyNodeGetParams =
        cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D);
    cuGraphMemsetNodeGetParams =
        cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS);
    cuGraphAddMemsetNode = cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS,
        context: CUcontext,
    );
    cuGraphKernelNodeGetAttribute = cuGraphKernelNodeGetAttribute(
        node: CUgraphNode,
        attribute: CUkernelNodeAttrID,
        value: *mut CUkernelNodeAttrValue,
    );
    cuGraphKernelNodeCopyAttributes =
        cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode);
    cuGraphMemAllocNodeGetParams =
        cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
    cuGraphMemFreeNodeGetParams =
        cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr);
    cuGraphChildGraphNodeGetGraph =
        cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph);
    cuGraphCreate = cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    cuGraphAddKernelNode = cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS,
    );
    cuGraphAddChildGraphNode = cuGraphAddChildGraphNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        child: CUgraph,
    );
    cuUserObjectCreate = cuUserObjectCreate(
        object: *mut CUuserObject,
        value: *mut c_void,
        destroy: CUhostFn,
        references: c_uint,
        flags: c_uint,
    );
    cuUserObjectRelease = cuUserObjectRelease(object: CUuserObject, references: c_uint);
    cuGraphRetainUserObject = cuGraphRetainUserObject(
        graph: CUgraph,
        object: CUuserObject,
        references: c_uint,
        flags: c_uint,
    );
    cuGraphDestroy = cuGraphDestroy(graph: CUgraph);
    cuGraphInstantiateWithFlags =
        cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    cuGraphLaunch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    cuGraphUpload = cuGraphUpload(exec: CUgraphExec, stream: CUstream);
    cuGraphExecUpdate = cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        info: *mut CUgraphExecUpdateResultInfo,
    );
    cuGraphNodeSetEnabled =
        cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint);
    cuGraphExecDestroy = cuGraphExecDestroy(exec: CUgraphExec);

    cuModuleLoadDataEx = cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    );
    cuModuleUnload = cuModuleUnload(module: CUmodule);
    cuModuleGetFunction =
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuModuleGetFunctionCount = cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
    cuModuleEnumerateFunctions =
        cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule);
    cuFuncLoad = cuFuncLoad(function: CUfunction);
    cuFuncGetName = cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    cuFuncGetParamInfo = cuFuncGetParamInfo(
        function: CUfunction,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    );
    cuKernelGetName = cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    cuKernelGetParamInfo = cuKernelGetParamInfo(
        kernel: CUkernel,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    );
    cuFuncGetAttribute =
        cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute =
        cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuLaunchHostFunc = cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void);
    cuLaunchKernelEx = cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    cuLaunchKernel = cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
}

impl Library {
    /// The failure of `call` with this number, in the driver's words when the
    /// number has none of ours.
    #[cold]
    fn failure(&self, call: &'static str, code: c_uint) -> DriverError {
        let error = DriverError::new(call, code);
        if !matches!(error.class, ErrorClass::Other(_)) {
            return error;
        }
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the driver writes a pointer to a static string, or null for a
        // number that it does not know.
        let text = unsafe {
            (self.error_string)(code, &raw mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        match text {
            Some(text) => error.with(text.to_string_lossy()),
            None => error,
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}
