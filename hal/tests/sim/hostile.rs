//! Bad handles, bad addresses, kernels that misbehave.

use streamweir_hal::driver::{
    CaptureCalls, DriverResult, ErrorClass, EventHandle, EventScope, ExecHandle, FunctionHandle,
    GraphCalls, GraphHandle, MemoryCalls, ModuleCalls, ModuleHandle, ModuleImage, NodeHandle,
    Start, StreamCalls, StreamHandle,
};
use streamweir_hal::sim::{LiveObjects, SimDriver};

use super::common::{begin, end, load, upload};

fn class<T: std::fmt::Debug>(result: DriverResult<T>) -> ErrorClass {
    result.unwrap_err().class
}

#[test]
fn bad_handles_are_errors() {
    let sim = SimDriver::new(0);
    let s = &*sim;
    let live = s.event_create(false).unwrap();
    let stream = s.stream_create(0).unwrap();
    let gone = s.stream_create(0).unwrap();
    unsafe { s.stream_destroy(gone) }.unwrap();
    // A handle that was never given, one that is gone, one of another kind.
    for bad in [1, u64::MAX, gone.0, live.0] {
        let bad_stream = StreamHandle(bad);
        unsafe {
            for result in [
                s.stream_destroy(bad_stream),
                s.stream_synchronize(bad_stream),
                s.stream_query(bad_stream).map(drop),
                s.fill_async(bad_stream, 0, 0, 1),
                s.copy_async(bad_stream, 0, 0, 1),
                s.event_record(live, bad_stream, EventScope::Internal),
                s.stream_wait(bad_stream, live, EventScope::Internal),
                begin(s, bad_stream),
                end(s, bad_stream).map(drop),
                s.capture_info(bad_stream, &mut Vec::new()).map(drop),
            ] {
                assert_eq!(class(result), ErrorClass::InvalidHandle);
            }
        }
    }
    for bad in [1, u64::MAX, gone.0, stream.0] {
        unsafe {
            for result in [
                s.event_destroy(EventHandle(bad)),
                s.event_query(EventHandle(bad)).map(drop),
                s.event_synchronize(EventHandle(bad)),
                s.event_record(EventHandle(bad), stream, EventScope::Internal),
                s.stream_wait(stream, EventHandle(bad), EventScope::External),
                s.graph_nodes(GraphHandle(bad)).map(drop),
                s.graph_edges(GraphHandle(bad)).map(drop),
                s.graph_node(NodeHandle(bad)).map(drop),
                s.graph_retain(GraphHandle(bad), Box::new(())),
                s.graph_destroy(GraphHandle(bad)),
                s.graph_instantiate(GraphHandle(bad)).map(drop),
                s.exec_launch(ExecHandle(bad), stream),
                s.exec_upload(ExecHandle(bad), stream),
                s.exec_destroy(ExecHandle(bad)),
                s.module_unload(ModuleHandle(bad)),
                s.module_function(ModuleHandle(bad), "x").map(drop),
                s.function_params(FunctionHandle(bad)).map(drop),
                s.function_shared_limit(FunctionHandle(bad), 0),
            ] {
                assert_eq!(class(result), ErrorClass::InvalidHandle);
            }
        }
    }
    assert_eq!(
        class(unsafe { s.stream_destroy(StreamHandle(0)) }),
        ErrorClass::InvalidHandle
    );
}

#[test]
fn bad_addresses_are_errors() {
    let sim = SimDriver::new(0);
    let s = &*sim;
    let stream = s.stream_create(0).unwrap();
    let data = upload(s, &[0; 8]);
    for address in [0, data - 1, data + 31, data + 32, data + 256, u64::MAX] {
        unsafe {
            for result in [
                s.fill_async(stream, address, 0, 2),
                s.copy_async(stream, address, data, 2),
                s.copy_async(stream, data, address, 2),
                s.copy_to_device(address, &[0; 2]),
                s.copy_to_host(&mut [0; 2], address),
            ] {
                assert_eq!(class(result), ErrorClass::InvalidValue, "{address:#x}");
            }
        }
    }
    unsafe { s.mem_free(data) }.unwrap();
    for address in [data, data + 1, 0] {
        assert_eq!(
            class(unsafe { s.mem_free(address) }),
            ErrorClass::InvalidValue
        );
    }
    assert_eq!(
        class(unsafe { s.host_free(std::ptr::null_mut()) }),
        ErrorClass::InvalidValue
    );
    assert_eq!(class(s.mem_alloc(0)), ErrorClass::InvalidValue);
    assert_eq!(class(s.mem_alloc(u64::MAX)), ErrorClass::OutOfMemory);
}

#[test]
fn memory_has_a_limit() {
    let sim = SimDriver::with_memory(0, 1000);
    let first = sim.mem_alloc(600).unwrap();
    assert_eq!(class(sim.mem_alloc(401)), ErrorClass::OutOfMemory);
    let second = sim.mem_alloc(400).unwrap();
    assert_eq!(first % 256, 0);
    assert_eq!(second % 256, 0);
    unsafe { sim.mem_free(first) }.unwrap();
    assert_eq!(sim.live().bytes, 400);
    sim.mem_alloc(600).unwrap();
}

#[test]
fn a_kernel_fault_stays() {
    let sim = SimDriver::new(0);
    let code = load(&*sim).unwrap();
    let stream = sim.stream_create(0).unwrap();
    let data = upload(&*sim, &[0; 8]);
    code.bump(&*sim, stream, data, 9).unwrap();
    let error = unsafe { sim.stream_synchronize(stream) }.unwrap_err();
    assert_eq!(error.class, ErrorClass::IllegalAddress);
    let text = error.to_string();
    assert!(
        text.contains("bump") && text.contains(&format!("{:#x}", data + 32)),
        "{text}"
    );
    assert_eq!(class(sim.mem_alloc(1)), ErrorClass::IllegalAddress);
    assert_eq!(class(sim.stream_create(0)), ErrorClass::IllegalAddress);
    // Giving back works, and says so too.
    assert_eq!(
        class(unsafe { sim.mem_free(data) }),
        ErrorClass::IllegalAddress
    );
    assert_eq!(
        class(unsafe { sim.stream_destroy(stream) }),
        ErrorClass::IllegalAddress
    );
    assert_eq!(
        class(unsafe { sim.module_unload(code.module) }),
        ErrorClass::IllegalAddress
    );
    assert_eq!(sim.live(), LiveObjects::default());
}

#[test]
fn freed_memory_faults_at_replay() {
    let sim = SimDriver::new(0);
    let stream = sim.stream_create(0).unwrap();
    let data = upload(&*sim, &[0; 8]);
    begin(&*sim, stream).unwrap();
    unsafe { sim.fill_async(stream, data, 1, 32) }.unwrap();
    let graph = end(&*sim, stream).unwrap();
    let exec = unsafe { sim.graph_instantiate(graph) }.unwrap();
    unsafe { sim.mem_free(data) }.unwrap();
    unsafe { sim.exec_launch(exec, stream) }.unwrap();
    assert_eq!(
        class(unsafe { sim.stream_synchronize(stream) }),
        ErrorClass::IllegalAddress
    );
}

#[test]
fn a_graph_whose_module_is_gone_does_not_launch() {
    let sim = SimDriver::new(0);
    let code = load(&*sim).unwrap();
    let stream = sim.stream_create(0).unwrap();
    let data = upload(&*sim, &[0; 8]);
    begin(&*sim, stream).unwrap();
    code.bump(&*sim, stream, data, 8).unwrap();
    let graph = end(&*sim, stream).unwrap();
    let exec = unsafe { sim.graph_instantiate(graph) }.unwrap();
    unsafe { sim.module_unload(code.module) }.unwrap();
    let error = unsafe { sim.exec_launch(exec, stream) }.unwrap_err();
    assert_eq!(error.class, ErrorClass::InvalidHandle);
    assert!(error.to_string().contains("bump"), "{error}");
}

#[test]
fn a_graph_under_capture_belongs_to_it() {
    let sim = SimDriver::new(0);
    let stream = sim.stream_create(0).unwrap();
    begin(&*sim, stream).unwrap();
    let info = unsafe { sim.capture_info(stream, &mut Vec::new()) }.unwrap();
    let graph = info.graph.unwrap();
    assert_eq!(
        class(unsafe { sim.graph_destroy(graph) }),
        ErrorClass::IllegalState
    );
    assert_eq!(
        class(unsafe { sim.graph_instantiate(graph) }),
        ErrorClass::CaptureUnsupported
    );
    assert_eq!(sim.live().captures, 1);
    // A capture goes with its origin.
    unsafe { sim.stream_destroy(stream) }.unwrap();
    assert_eq!(sim.live(), LiveObjects::default());
}

#[test]
fn modules_that_do_not_fit_are_refused() {
    let sim = SimDriver::new(0);
    assert_eq!(
        class(sim.module_load(&ModuleImage::Cuda(vec![1, 2, 3]))),
        ErrorClass::NoBinaryForGpu
    );
    let twice = super::common::kernels()
        .into_iter()
        .chain(super::common::kernels())
        .collect();
    assert_eq!(
        class(sim.module_load(&ModuleImage::Sim(twice))),
        ErrorClass::InvalidImage
    );
    let code = load(&*sim).unwrap();
    assert_eq!(
        class(unsafe { sim.module_function(code.module, "absent") }),
        ErrorClass::NotFound
    );
    assert_eq!(
        class(unsafe {
            sim.launch(
                StreamHandle(0),
                code.bump,
                super::common::shape(4),
                Start::InOrder,
                &mut [],
            )
        }),
        ErrorClass::InvalidValue
    );
}
