//! The wrapper that fails one call.

use std::sync::Arc;

use streamweir_hal::driver::{Driver, DriverResult, ErrorClass, MemoryCalls, StreamCalls};
use streamweir_hal::sim::{LiveObjects, SimDriver};
use streamweir_hal::testing::fault::FaultDriver;

use super::common::{begin, end, load, order, replay};

/// A small program that gives everything back whatever happens.
fn program(driver: &dyn Driver) -> DriverResult<()> {
    let code = load(driver)?;
    let ran = with_memory(driver, |data| {
        with_stream(driver, |main| {
            with_stream(driver, |side| {
                begin(driver, main)?;
                let captured = order(driver, main, side)
                    .and_then(|()| code.bump(driver, side, data, 8))
                    .and_then(|()| order(driver, side, main));
                let ended = end(driver, main);
                if captured.is_err() {
                    // The side stream may be unjoined, so the end may fail too.
                    if let Ok(graph) = ended {
                        unsafe { driver.graph_destroy(graph) }?;
                    }
                    return captured;
                }
                let graph = ended?;
                let exec = unsafe { driver.graph_instantiate(graph) };
                let replayed = exec.and_then(|exec| {
                    // Memory must not be freed under a replay, so a wait that
                    // failed is made again.
                    let replayed = replay(driver, exec, main).or_else(|error| {
                        unsafe { driver.stream_synchronize(main) }?;
                        Err(error)
                    });
                    let destroyed = unsafe { driver.exec_destroy(exec) };
                    replayed.and(destroyed)
                });
                let destroyed = unsafe { driver.graph_destroy(graph) };
                replayed.and(destroyed)
            })
        })
    });
    let unloaded = unsafe { driver.module_unload(code.module) };
    ran.and(unloaded)
}

fn with_memory(driver: &dyn Driver, run: impl FnOnce(u64) -> DriverResult<()>) -> DriverResult<()> {
    let data = driver.mem_alloc(32)?;
    let ran = run(data);
    let freed = unsafe { driver.mem_free(data) };
    ran.and(freed)
}

fn with_stream(
    driver: &dyn Driver,
    run: impl FnOnce(streamweir_hal::driver::StreamHandle) -> DriverResult<()>,
) -> DriverResult<()> {
    let stream = driver.stream_create(0)?;
    let ran = run(stream);
    let destroyed = unsafe { driver.stream_destroy(stream) };
    ran.and(destroyed)
}

#[test]
fn each_call_fails_once_and_nothing_leaks() {
    let sim = SimDriver::new(0);
    let fault = FaultDriver::new(sim.clone());
    program(&*fault).unwrap();
    let trace = fault.trace();
    assert_eq!(fault.calls(), trace.len() as u64);
    assert!(trace.len() > 20, "{trace:?}");
    for (index, &call) in trace.iter().enumerate() {
        fault.fail_call(index as u64, ErrorClass::Unknown);
        let error = program(&*fault).unwrap_err();
        assert_eq!(fault.failed(), Some(call), "call {index}");
        assert_eq!(error.class, ErrorClass::Unknown, "call {index}: {error}");
        assert_eq!(error.call, call);
        assert_eq!(sim.live(), LiveObjects::default(), "call {index}, {call}");
        fault.disarm();
        program(&*fault).unwrap();
        assert_eq!(fault.failed(), None);
    }
    fault.fail_call(trace.len() as u64, ErrorClass::Unknown);
    program(&*fault).unwrap();
}

#[test]
fn a_failed_call_is_not_made_but_a_release_is() {
    let sim = SimDriver::new(0);
    let fault = FaultDriver::new(sim.clone());
    fault.fail_call(0, ErrorClass::OutOfMemory);
    assert_eq!(
        fault.mem_alloc(1).unwrap_err().class,
        ErrorClass::OutOfMemory
    );
    assert_eq!(sim.live().allocations, 0);
    let data = fault.mem_alloc(1).unwrap();
    fault.fail_call(0, ErrorClass::LaunchFailed);
    assert_eq!(
        unsafe { fault.mem_free(data) }.unwrap_err().class,
        ErrorClass::LaunchFailed
    );
    assert_eq!(sim.live().allocations, 0);
}

#[test]
fn a_capture_whose_end_fails_is_over() {
    let sim = SimDriver::new(0);
    let fault = FaultDriver::new(sim.clone());
    let stream = fault.stream_create(0).unwrap();
    begin(&*fault, stream).unwrap();
    fault.fail_call(0, ErrorClass::Unknown);
    assert_eq!(end(&*fault, stream).unwrap_err().class, ErrorClass::Unknown);
    assert_eq!((sim.live().captures, sim.live().graphs), (0, 0));
    begin(&*fault, stream).unwrap();
    end(&*fault, stream).unwrap();
}

#[test]
fn a_wrapper_answers_with_what_it_wraps() {
    let sim = SimDriver::new(0);
    let fault = FaultDriver::new(sim.clone());
    let found = fault.as_any().downcast_ref::<SimDriver>().unwrap();
    assert!(std::ptr::eq(found, Arc::as_ptr(&sim)));
    assert_eq!(fault.info(), sim.info());
}
