//! A driver of a few functions, inside the test process.
//!
//! It stands in for the file that the functions are looked up in, so that the
//! code around the calls (which context is current, what an answer means, what
//! a failure leaves behind) is tested where there is no GPU. Each test has its
//! own: the state belongs to the thread.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::*;

use super::library::Library;
use super::{Context, CudaDriver, open};

/// The primary context of device 0, and one of somebody else.
pub(super) const PRIMARY: usize = 0x1000;
pub(super) const FOREIGN: usize = 0x2000;

/// What the driver answers, and what was asked of it.
#[derive(Clone)]
pub(super) struct State {
    pub(super) version: c_int,
    pub(super) current: usize,
    pub(super) calls: Vec<&'static str>,
    /// Calls that fail, with their numbers.
    pub(super) failures: Vec<(&'static str, c_uint)>,
    pub(super) capture_status: u32,
    /// The thread's capture mode: global, thread-local, relaxed.
    pub(super) mode: u32,
    /// Modes in which the thread waited for a stream.
    pub(super) waited_in: Vec<u32>,
    /// The value of the one user object, and how it is destroyed.
    user_object: Option<(*mut c_void, unsafe extern "C" fn(*mut c_void))>,
    pub(super) image: Vec<u8>,
}

impl State {
    const fn new() -> Self {
        Self {
            version: 13000,
            current: 0,
            calls: Vec::new(),
            failures: Vec::new(),
            capture_status: 0,
            mode: 0,
            waited_in: Vec::new(),
            user_object: None,
            image: Vec::new(),
        }
    }
}

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State::new()) };
}

/// Changes or reads the state of this thread's driver.
pub(super) fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(f)
}

/// How often a function was called.
pub(super) fn calls(name: &str) -> usize {
    with(|state| state.calls.iter().filter(|call| **call == name).count())
}

/// The table of the driver.
pub(super) fn library() -> &'static Library {
    // SAFETY: every function that a test calls has the driver's signature.
    let library = unsafe { open::resolve(lookup) };
    Box::leak(Box::new(library.expect("the fake driver is complete")))
}

/// Device 0 in its primary context.
pub(super) fn device() -> Arc<CudaDriver> {
    let library = library();
    let context = Context::primary(library, 0).expect("the fake driver has a context");
    CudaDriver::with(library, context, None).expect("the fake driver has a device")
}

/// Notes the call; its result, unless it is to fail.
fn called(name: &'static str, answer: impl FnOnce(&mut State)) -> c_uint {
    with(|state| {
        state.calls.push(name);
        match state.failures.iter().find(|(call, _)| *call == name) {
            Some((_, code)) => *code,
            None => {
                answer(state);
                0
            }
        }
    })
}

macro_rules! fakes {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$state:ident| $body:block)*) => {
        $(
            #[allow(non_snake_case, unused_unsafe)] // some bodies touch no pointer
            unsafe extern "C" fn $name($($arg: $ty),*) -> c_uint {
                // SAFETY: out-pointers are valid, as the driver may expect.
                called(stringify!($name), |$state| unsafe { $body })
            }
        )*

        /// The address of a symbol. What has no body is not called by any test.
        pub(super) fn lookup(symbol: &'static str) -> Option<*const c_void> {
            unsafe extern "C" fn absent() -> c_uint {
                801
            }
            Some(match symbol {
                $(stringify!($name) => $name as *const c_void,)*
                "cuGetErrorString" => error_string as *const c_void,
                "cuModuleLoadDataEx" => refuse_image as *const c_void,
                _ => absent as *const c_void,
            })
        }
    };
}

unsafe extern "C" fn error_string(code: c_uint, text: *mut *const c_char) -> c_uint {
    let answer = if code == 803 {
        c"system has unsupported display driver / cuda driver combination".as_ptr()
    } else {
        ptr::null()
    };
    // SAFETY: the out-pointer is valid.
    unsafe { text.write(answer) };
    0
}

fakes! {
    fn cuInit(_flags: c_uint) |_state| {}
    fn cuDriverGetVersion(version: *mut c_int) |state| { version.write(state.version) }
    fn cuDeviceGetCount(count: *mut c_int) |_state| { count.write(1) }
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) |_state| { device.write(ordinal) }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: CUdevice) |_state| {
        let text = c"Fake GPU".to_bytes_with_nul();
        assert!(text.len() <= len as usize);
        name.copy_from(text.as_ptr().cast(), text.len());
    }
    fn cuDeviceGetAttribute(value: *mut c_int, which: u32, _device: CUdevice) |_state| {
        value.write(which as c_int)
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: CUdevice) |_state| { bytes.write(1 << 37) }
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, _device: CUdevice) |_state| {
        context.write(PRIMARY as CUcontext)
    }
    fn cuDevicePrimaryCtxRelease_v2(_device: CUdevice) |_state| {}
    fn cuCtxGetCurrent(context: *mut CUcontext) |state| {
        context.write(state.current as CUcontext)
    }
    fn cuCtxSetCurrent(context: CUcontext) |state| { state.current = context as usize }
    fn cuCtxGetDevice(device: *mut CUdevice) |state| {
        assert_eq!(state.current, FOREIGN, "asked about another context");
        device.write(0)
    }
    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, _at: CUdeviceptr) |_state| {
        base.write(0x7000);
        size.write(0x200);
    }
    fn cuMemcpyHtoD_v2(_to: CUdeviceptr, _from: *const c_void, _bytes: usize) |_state| {}
    fn cuStreamSynchronize(stream: CUstream) |state| {
        assert!(stream.is_null(), "the copy ran on the legacy stream");
        state.waited_in.push(state.mode);
    }
    fn cuStreamGetCtx(_stream: CUstream, context: *mut CUcontext) |_state| {
        context.write(FOREIGN as CUcontext)
    }
    fn cuStreamGetCaptureInfo_v3(
        _stream: CUstream,
        status: *mut u32,
        id: *mut u64,
        graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) |state| {
        assert!(!edges.is_null(), "the call fails on edges that carry data");
        struct Nodes([usize; 2]);
        static NODES: Nodes = Nodes([0x10, 0x20]);
        status.write(state.capture_status);
        // For an invalidated capture the graph and the nodes mean nothing.
        if state.capture_status != 0 {
            id.write(7);
            graph.write(0x90 as CUgraph);
            nodes.write(NODES.0.as_ptr().cast());
            count.write(2);
        }
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) |state| {
        state.mode = mode.replace(state.mode);
    }
    fn cuGraphGetNodes(_graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) |_state| {
        if !nodes.is_null() {
            assert_eq!(count.read(), 3);
            for at in 0..3 {
                nodes.add(at).write((0x10 * (at + 1)) as CUgraphNode);
            }
        }
        count.write(3);
    }
    fn cuGraphGetEdges_v2(
        _graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize,
    ) |_state| {
        if !from.is_null() {
            assert_eq!(count.read(), 2);
            for at in 0..2 {
                from.add(at).write((0x10 * (at + 1)) as CUgraphNode);
                to.add(at).write(0x30 as CUgraphNode);
                (*data.add(at)).from_port = at as u8;
                (*data.add(at)).type_ = at as u8;
            }
        }
        count.write(2);
    }
    fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut u32) |_state| {
        kind.write(node as usize as u32)
    }
    fn cuGraphMemAllocNodeGetParams(
        _node: CUgraphNode,
        params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) |_state| {
        (*params).dptr = 0x7000;
        (*params).bytesize = 0x200;
    }
    fn cuGraphMemFreeNodeGetParams(_node: CUgraphNode, address: *mut CUdeviceptr) |_state| {
        address.write(0x7000)
    }
    fn cuGraphKernelNodeGetParams_v2(
        _node: CUgraphNode,
        _params: *mut CUDA_KERNEL_NODE_PARAMS,
    ) |_state| {}
    fn cuGraphKernelNodeGetAttribute(
        _node: CUgraphNode,
        attribute: u32,
        value: *mut CUkernelNodeAttrValue,
    ) |_state| {
        // Cooperative 1, cluster (2, 1, 1), priority -3, device-updatable.
        let words = value.cast::<[u32; 3]>();
        words.write(match attribute {
            2 => [1, 0, 0],
            4 => [2, 1, 1],
            8 => [(-3_i32).cast_unsigned(), 0, 0],
            13 => [1, 0, 0],
            _ => panic!("attribute {attribute} is not one that is used"),
        });
    }
    fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) |_state| {
        assert_eq!((to as usize, from as usize), (0x70, 0x30));
    }
    fn cuGraphCreate(graph: *mut CUgraph, _flags: c_uint) |_state| { graph.write(0x90 as CUgraph) }
    fn cuGraphMemsetNodeGetParams(
        _node: CUgraphNode,
        params: *mut CUDA_MEMSET_NODE_PARAMS,
    ) |_state| {
        (*params).dst = 0x7000;
    }
    fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        _after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS,
        context: CUcontext,
    ) |_state| {
        assert_eq!((graph as usize, count, (*params).dst), (0x90, 0, 0x7000));
        assert!(!context.is_null());
        node.write(0x70 as CUgraphNode);
    }
    fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        _after: *const CUgraphNode,
        count: usize,
        _params: *const CUDA_KERNEL_NODE_PARAMS,
    ) |_state| {
        assert_eq!((graph as usize, count), (0x90, 0));
        node.write(0x70 as CUgraphNode);
    }
    fn cuGraphDestroy(graph: CUgraph) |_state| { assert_eq!(graph as usize, 0x90) }
    fn cuPointerGetAttributes(
        count: c_uint,
        _attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void,
        address: CUdeviceptr,
    ) |_state| {
        assert_eq!(count, 3);
        // Memory of the device at 0x7000, of the host at 0x9000; nothing else.
        let memory = match address {
            0x7000..0x7200 => 2,
            0x9000..0x9200 => 1,
            _ => return,
        };
        data.read().cast::<u64>().write(address & !0xfff);
        data.add(1).read().cast::<usize>().write(0x200);
        data.add(2).read().cast::<u32>().write(memory);
    }
    fn cuUserObjectCreate(
        object: *mut CUuserObject,
        value: *mut c_void,
        destroy: CUhostFn,
        references: c_uint,
        flags: c_uint,
    ) |state| {
        assert_eq!((references, flags), (1, 1));
        state.user_object = destroy.map(|destroy| (value, destroy));
        object.write(value.cast());
    }
    fn cuUserObjectRelease(_object: CUuserObject, references: c_uint) |state| {
        assert_eq!(references, 1);
        let (value, destroy) = state.user_object.take().expect("an object was created");
        destroy(value);
    }
    fn cuGraphRetainUserObject(
        _graph: CUgraph,
        _object: CUuserObject,
        references: c_uint,
        flags: c_uint,
    ) |_state| {
        assert_eq!((references, flags), (1, 1));
    }
}

/// Refuses every image, in words of its compiler.
unsafe extern "C" fn refuse_image(
    _module: *mut CUmodule,
    image: *const c_void,
    count: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> c_uint {
    // SAFETY: the image is text that ends in a zero, and there are as many
    // values as options.
    unsafe {
        let text = CStr::from_ptr(image.cast()).to_bytes_with_nul();
        with(|state| state.image = text.to_vec());
        assert_eq!(count, 2);
        assert_eq!(options.read(), CUjit_option::CU_JIT_ERROR_LOG_BUFFER);
        let said = c"ptxas: line 1: unknown directive";
        assert!(said.count_bytes() < values.add(1).read() as usize);
        values
            .read()
            .cast::<c_char>()
            .copy_from(said.as_ptr(), said.count_bytes() + 1);
    }
    218
}
