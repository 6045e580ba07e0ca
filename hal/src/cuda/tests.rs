//! What can be known without a GPU. The meaning of the calls themselves is
//! pinned down by the conformance suite, on a card.

use std::ffi::c_uint;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;
use streamweir_trace::{AllocNode, ByteRange, EdgeKind, FreeNode, NodeKind};

use super::context::Context;
use super::fake::{self, FOREIGN, PRIMARY};
use super::library::Library;
use super::{AdoptError, CudaDriver, OpenError, device, open};
use crate::driver::{
    Backend, CaptureCalls, CaptureMode, CaptureStatus, Driver, ErrorClass, GraphCalls, GraphHandle,
    KernelAttributes, MemoryCalls, ModuleCalls, ModuleImage, NodeHandle, Pointed, StreamHandle,
};

// --- finding the driver -----------------------------------------------------

#[test]
fn opening_a_device_never_panics() {
    // Succeeds where there is a GPU; says something useful where there is none.
    if let Err(error) = CudaDriver::open(0) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = CudaDriver::count() {
        assert_ne!(error, OpenError::NoDevice);
    }
}

#[test]
fn a_missing_library_says_what_was_looked_for_and_what_to_do() {
    let Err(error) = open::load(&["libstreamweir-is-not-a-driver.so"]) else {
        panic!("loaded a library that does not exist");
    };
    let OpenError::NoLibrary { reason } = &error else {
        panic!("{error}");
    };
    assert!(
        reason.contains("libstreamweir-is-not-a-driver.so"),
        "{reason}"
    );
    let text = error.to_string();
    assert!(
        text.contains("install an NVIDIA driver for CUDA 12.8"),
        "{text}"
    );
}

#[test]
fn every_missing_symbol_is_named() {
    // SAFETY: no function is found, so none is called.
    let Err(missing) = (unsafe { Library::resolve(|_| None) }) else {
        panic!("a driver without functions was taken for one");
    };
    assert_eq!(missing.len(), Library::SYMBOLS.len());
    assert!(
        Library::SYMBOLS
            .iter()
            .all(|symbol| missing.contains(symbol))
    );
    // SAFETY: nothing is called.
    let one = unsafe {
        open::resolve(|symbol| (symbol != "cuGraphGetEdges_v2").then(|| fake::lookup(symbol))?)
    };
    assert_eq!(
        one.err(),
        Some(OpenError::MissingSymbols(vec!["cuGraphGetEdges_v2"]))
    );
}

#[test]
fn an_old_driver_is_named_before_its_missing_functions() {
    fake::with(|state| state.version = 12060);
    // SAFETY: only the version is asked for.
    let old = unsafe {
        open::resolve(|symbol| (symbol == "cuDriverGetVersion").then(|| fake::lookup(symbol))?)
    };
    let error = old.expect_err("12.6 is too old");
    assert_eq!(error, OpenError::DriverTooOld { found: 12060 });
    assert!(
        error
            .to_string()
            .contains("supports CUDA 12.6, and CUDA 12.8 is needed")
    );
}

#[test]
fn a_driver_that_cannot_start_says_why() {
    let library = fake::library();
    let init = |code: c_uint| {
        fake::with(|state| state.failures = vec![("cuInit", code)]);
        open::initialise(library)
    };
    assert_eq!(init(100), Err(OpenError::NoDevice));
    let Err(OpenError::Driver(error)) = init(803) else {
        panic!("a driver that does not fit its kernel module started");
    };
    // The number is none of ours: the driver's words go with it.
    assert_eq!(error.class, ErrorClass::Other(803));
    assert!(
        error.to_string().contains("unsupported display driver"),
        "{error}"
    );
}

#[test]
fn a_device_number_out_of_range_is_an_error() {
    let library = fake::library();
    assert_eq!(device(library, 0), Ok(0));
    for ordinal in [1, u32::MAX] {
        assert_eq!(
            device(library, ordinal),
            Err(OpenError::NoSuchDevice { ordinal, count: 1 })
        );
    }
}

// --- the context ------------------------------------------------------------

#[test]
fn a_device_says_what_it_is() {
    let device = fake::device();
    let info = device.info();
    assert_eq!(
        (info.backend, info.ordinal, info.name.as_str()),
        (Backend::Cuda, 0, "Fake GPU")
    );
    // The fake answers with the number of the attribute.
    assert_eq!((info.capability, info.multiprocessors), ((75, 76), 16));
    assert_eq!((info.driver_version, info.memory), (13000, 1 << 37));
}

#[test]
fn a_call_gives_the_thread_its_own_context_back() {
    let device = fake::device();
    fake::with(|state| state.current = FOREIGN);
    assert_eq!(
        device.mem_range(0x7010),
        Ok(Some(ByteRange::new(0x7000, 0x7200)))
    );
    assert_eq!(fake::with(|state| state.current), FOREIGN);
    assert_eq!(fake::calls("cuCtxSetCurrent"), 2);
}

#[test]
fn a_thread_without_a_context_pays_once() {
    let device = fake::device();
    for _ in 0..3 {
        device.mem_range(0x7010).expect("the address is known");
    }
    assert_eq!(fake::with(|state| state.current), PRIMARY);
    assert_eq!(fake::calls("cuCtxSetCurrent"), 1);
}

#[test]
fn a_primary_context_is_released_and_an_adopted_one_is_let_go() {
    drop(fake::device());
    assert_eq!(fake::calls("cuDevicePrimaryCtxRelease_v2"), 1);
    let keep = Arc::new(());
    // SAFETY: the fake driver has no contexts that could go.
    let context =
        unsafe { Context::adopt(fake::library(), FOREIGN as sys::CUcontext, keep.clone()) };
    let context = context.expect("the fake driver knows the context");
    assert_eq!((context.device(), Arc::strong_count(&keep)), (0, 2));
    drop(context);
    assert_eq!(Arc::strong_count(&keep), 1);
    assert_eq!(fake::calls("cuDevicePrimaryCtxRelease_v2"), 1);
}

#[test]
fn a_null_context_is_refused() {
    // SAFETY: null is what the check is for.
    let adopted = unsafe { CudaDriver::from_context(ptr::null_mut(), Arc::new(())) };
    assert_eq!(adopted.err(), Some(OpenError::NullContext));
}

#[test]
fn a_raw_stream_of_another_context_is_refused() {
    let device = fake::device();
    // SAFETY: the fake driver looks no handle up.
    let adopted = unsafe { device.adopt_raw_stream(StreamHandle(0x5000)) };
    assert_eq!(
        adopted,
        Err(AdoptError::OtherContext {
            what: "stream",
            ordinal: 0
        })
    );
}

// --- answers of the driver --------------------------------------------------

#[test]
fn an_address_in_no_memory_is_no_error() {
    let device = fake::device();
    for (code, found) in [(1, Ok(None)), (500, Ok(None))] {
        fake::with(|state| state.failures = vec![("cuMemGetAddressRange_v2", code)]);
        assert_eq!(device.mem_range(8), found);
    }
    fake::with(|state| state.failures = vec![("cuMemGetAddressRange_v2", 700)]);
    let error = device.mem_range(8).expect_err("the device is lost");
    assert_eq!(
        (error.call, error.class),
        ("cuMemGetAddressRange", ErrorClass::IllegalAddress)
    );
}

#[test]
fn a_copy_to_the_device_has_arrived_when_it_returns() {
    let device = fake::device();
    // SAFETY: the fake driver copies nothing.
    unsafe { device.copy_to_device(0x7000, &[1, 2, 3]) }.expect("the copy works");
    assert_eq!(
        (
            fake::calls("cuMemcpyHtoD_v2"),
            fake::calls("cuStreamSynchronize")
        ),
        (1, 1)
    );
    // The wait is forbidden in any other mode while a stream is capturing.
    fake::with(|state| assert_eq!((&*state.waited_in, state.mode), (&[2][..], 0)));
}

#[test]
fn only_an_active_capture_has_a_graph_and_a_frontier() {
    let device = fake::device();
    let mut frontier = vec![NodeHandle(1)];
    let mut info = |status| {
        fake::with(|state| state.capture_status = status);
        // SAFETY: the fake driver looks no handle up.
        let info = unsafe { device.capture_info(StreamHandle(0x50), &mut frontier) };
        (info.expect("the state is known"), frontier.clone())
    };
    let (none, frontier) = info(0);
    assert_eq!(
        (none.status, none.id, none.graph),
        (CaptureStatus::None, 0, None)
    );
    assert!(frontier.is_empty());
    let (active, frontier) = info(1);
    assert_eq!(
        (active.status, active.id, active.graph),
        (CaptureStatus::Active, 7, Some(GraphHandle(0x90)))
    );
    assert_eq!(frontier, [NodeHandle(0x10), NodeHandle(0x20)]);
    let (broken, frontier) = info(2);
    assert_eq!(
        (broken.status, broken.id, broken.graph),
        (CaptureStatus::Invalidated, 7, None)
    );
    assert!(frontier.is_empty());
}

#[test]
fn exchanging_the_capture_mode_gives_the_former_one() {
    let device = fake::device();
    assert_eq!(
        device.capture_mode_exchange(CaptureMode::Relaxed),
        Ok(CaptureMode::Global)
    );
}

#[test]
fn a_graph_is_read_with_the_kinds_of_its_edges() {
    let device = fake::device();
    // SAFETY: the fake driver looks no handle up.
    let (nodes, edges) = unsafe {
        (
            device.graph_nodes(GraphHandle(0x90)),
            device.graph_edges(GraphHandle(0x90)),
        )
    };
    assert_eq!(
        nodes,
        Ok(vec![NodeHandle(0x10), NodeHandle(0x20), NodeHandle(0x30)])
    );
    let edges: Vec<_> = edges
        .expect("the graph has edges")
        .iter()
        .map(|edge| (edge.from.0, edge.to.0, edge.kind))
        .collect();
    assert_eq!(
        edges,
        [
            (0x10, 0x30, EdgeKind::Full),
            (0x20, 0x30, EdgeKind::Programmatic)
        ]
    );
}

#[test]
fn node_types_follow_the_numbers_of_the_driver() {
    let device = fake::device();
    // The fake takes the handle for the type.
    // SAFETY: the fake driver looks no handle up.
    let kind = |number| unsafe { device.graph_node(NodeHandle(number)) }.expect("a known node");
    for (number, expected) in [
        (3, NodeKind::Host),
        (4, NodeKind::ChildGraph),
        (5, NodeKind::Empty),
        (6, NodeKind::EventWait),
        (7, NodeKind::EventRecord),
        (8, NodeKind::SemaphoreSignal),
        (9, NodeKind::SemaphoreWait),
        (
            10,
            NodeKind::MemAlloc(AllocNode {
                at: 0x7000,
                bytes: 0x200,
            }),
        ),
        (11, NodeKind::MemFree(FreeNode { at: 0x7000 })),
        (12, NodeKind::BatchMemOp),
        (13, NodeKind::Conditional),
        (16, NodeKind::Unknown(16)),
    ] {
        assert_eq!(kind(number), expected);
    }
}

#[test]
fn what_a_graph_cannot_retain_is_dropped_at_once() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let device = fake::device();
    for (failing, drops_now) in [
        (Some("cuUserObjectCreate"), 1),
        (Some("cuGraphRetainUserObject"), 1),
        (None, 0),
    ] {
        fake::with(|state| state.failures = failing.map(|call| (call, 2)).into_iter().collect());
        let drops = Arc::new(AtomicUsize::new(0));
        // SAFETY: the fake driver looks no handle up.
        let retained =
            unsafe { device.graph_retain(GraphHandle(0x90), Box::new(Counts(drops.clone()))) };
        assert_eq!(retained.err().map(|error| error.call), failing);
        assert_eq!(drops.load(Ordering::Relaxed), drops_now);
    }
}

#[test]
fn refused_code_comes_back_with_the_words_of_the_compiler() {
    let device = fake::device();
    // What lies behind the text in memory is not part of it.
    let mut text = b".nonsense and what comes after".to_vec();
    text.truncate(9);
    let error = device
        .module_load(&ModuleImage::Cuda(text))
        .expect_err("the fake driver refuses every image");
    assert_eq!(error.class, ErrorClass::InvalidPtx);
    assert_eq!(
        error.detail.as_deref(),
        Some("ptxas: line 1: unknown directive")
    );
    assert_eq!(fake::with(|state| state.image.clone()), b".nonsense\0");
}

#[test]
fn code_of_the_simulated_device_and_no_code_are_refused_before_the_driver() {
    let device = fake::device();
    let refused = |image| {
        device
            .module_load(&image)
            .expect_err("not code for CUDA")
            .class
    };
    assert_eq!(
        refused(ModuleImage::Sim(Vec::new())),
        ErrorClass::NotSupported
    );
    assert_eq!(
        refused(ModuleImage::Cuda(Vec::new())),
        ErrorClass::InvalidImage
    );
}

#[test]
fn an_address_is_of_the_device_of_the_host_or_of_nothing() {
    let device = fake::device();
    let pointed = |start, device| {
        Some(Pointed {
            range: ByteRange::new(start, start + 0x200),
            device,
        })
    };
    assert_eq!(
        device.pointer(0x7010).expect("asked"),
        pointed(0x7000, true)
    );
    assert_eq!(
        device.pointer(0x9010).expect("asked"),
        pointed(0x9000, false)
    );
    assert_eq!(device.pointer(0x1).expect("asked"), None);
}

#[test]
fn the_attributes_of_a_kernel_node_are_read_each_by_its_number() {
    let device = fake::device();
    // SAFETY: the fake driver looks at no node.
    let found = unsafe { device.graph_attributes(NodeHandle(0x30)) };
    let attributes = KernelAttributes {
        cooperative: true,
        cluster: [2, 1, 1],
        priority: -3,
        device_updatable: true,
    };
    assert_eq!(found, Ok(attributes));
    // 1 is an invalid value, which an older driver says of a new attribute.
    fake::with(|state| state.failures = vec![("cuGraphKernelNodeGetAttribute", 1)]);
    // SAFETY: as above.
    assert!(unsafe { device.graph_attributes(NodeHandle(0x30)) }.is_err());
}

#[test]
fn a_node_alone_has_its_attributes_and_leaves_no_graph_when_that_fails() {
    let device = fake::device();
    // SAFETY: the fake driver looks at no node.
    let alone = || unsafe { device.graph_alone(NodeHandle(0x30)) };
    assert_eq!(alone(), Ok(GraphHandle(0x90)));
    assert_eq!(fake::calls("cuGraphKernelNodeCopyAttributes"), 1);
    assert_eq!(fake::calls("cuGraphDestroy"), 0);
    fake::with(|state| state.failures = vec![("cuGraphKernelNodeCopyAttributes", 1)]);
    assert!(alone().is_err());
    assert_eq!(fake::calls("cuGraphDestroy"), 1);
}

#[test]
fn a_fill_alone_is_a_fill_and_leaves_no_graph_when_that_fails() {
    let device = fake::device();
    // SAFETY: the fake driver looks at no node; to it, node 2 is a fill.
    let alone = || unsafe { device.graph_alone(NodeHandle(2)) };
    assert_eq!(alone(), Ok(GraphHandle(0x90)));
    assert_eq!(fake::calls("cuGraphAddMemsetNode"), 1);
    assert_eq!(fake::calls("cuGraphAddKernelNode"), 0);
    for call in ["cuGraphMemsetNodeGetParams", "cuGraphAddMemsetNode"] {
        let before = fake::calls("cuGraphDestroy");
        fake::with(|state| state.failures = vec![(call, 1)]);
        assert!(alone().is_err(), "{call}");
        assert_eq!(fake::calls("cuGraphDestroy"), before + 1, "{call}");
    }
}
