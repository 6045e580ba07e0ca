//! Calls that a capture forbids, to whom, and what they do to it.

use std::thread;

use super::Failure;
use super::rig::{BYTES, Check, Rig, equal, fails};
use crate::driver::{
    CaptureMode, CaptureStatus, DriverResult, DynDriver, ErrorClass, StreamHandle,
};

/// A capture with one node, on which a forbidden call is tried: the call fails
/// with `class` and invalidates the capture.
fn breaks<T: std::fmt::Debug>(
    rig: &Rig<'_>,
    mode: CaptureMode,
    class: ErrorClass,
    forbidden: impl FnOnce(StreamHandle) -> DriverResult<T>,
) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin_as(stream, mode)?;
    rig.fill(stream, data, 1)?;
    fails("the call", class, forbidden(stream))?;
    equal(
        "the capture",
        CaptureStatus::Invalidated,
        rig.info(stream)?.status,
    )?;
    fails("the end", ErrorClass::CaptureInvalidated, rig.end(stream))
}

/// Allocates and frees. Whatever the first says, nothing is left behind.
fn alloc_and_free(driver: &DynDriver) -> DriverResult<()> {
    let address = driver.mem_alloc(BYTES)?;
    // SAFETY: allocated just now, used by nothing.
    unsafe { driver.mem_free(address) }
}

pub(super) fn synchronize_of_capturing_stream(rig: &Rig<'_>) -> Check {
    breaks(
        rig,
        CaptureMode::Relaxed,
        ErrorClass::CaptureUnsupported,
        |stream| rig.synchronize(stream),
    )
}

pub(super) fn query_of_capturing_stream(rig: &Rig<'_>) -> Check {
    breaks(
        rig,
        CaptureMode::Relaxed,
        ErrorClass::CaptureUnsupported,
        // SAFETY: a live handle.
        |stream| unsafe { rig.driver.stream_query(stream) },
    )
}

pub(super) fn synchronize_of_captured_event(rig: &Rig<'_>) -> Check {
    let event = rig.event()?;
    breaks(
        rig,
        CaptureMode::Relaxed,
        ErrorClass::CapturedEvent,
        |stream| {
            rig.record(event, stream)?;
            // SAFETY: a live handle.
            unsafe { rig.driver.event_synchronize(event) }
        },
    )
}

pub(super) fn query_of_captured_event(rig: &Rig<'_>) -> Check {
    let event = rig.event()?;
    breaks(
        rig,
        CaptureMode::Relaxed,
        ErrorClass::CapturedEvent,
        |stream| {
            rig.record(event, stream)?;
            // SAFETY: a live handle.
            unsafe { rig.driver.event_query(event) }
        },
    )
}

pub(super) fn alloc_under_capture(rig: &Rig<'_>) -> Check {
    breaks(
        rig,
        CaptureMode::ThreadLocal,
        ErrorClass::CaptureUnsupported,
        |_| alloc_and_free(rig.driver),
    )
}

pub(super) fn instantiate_under_capture(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    let graph = rig.end(stream)?;
    breaks(
        rig,
        CaptureMode::ThreadLocal,
        ErrorClass::CaptureUnsupported,
        |_| rig.instantiate(graph),
    )
}

pub(super) fn exec_destroy_under_capture(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    breaks(
        rig,
        CaptureMode::ThreadLocal,
        ErrorClass::CaptureUnsupported,
        // SAFETY: a live handle. The call fails, so it stays so until `close`.
        |_| unsafe { rig.driver.exec_destroy(exec) },
    )
}

pub(super) fn replay_into_capture(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    breaks(
        rig,
        CaptureMode::Relaxed,
        ErrorClass::CaptureUnsupported,
        |stream| rig.launch(exec, stream),
    )
}

pub(super) fn synchronize_of_other_stream(rig: &Rig<'_>) -> Check {
    let other = rig.stream()?;
    breaks(
        rig,
        CaptureMode::ThreadLocal,
        ErrorClass::CaptureUnsupported,
        |_| rig.synchronize(other),
    )
}

pub(super) fn query_of_event_from_outside(rig: &Rig<'_>) -> Check {
    let (other, event) = (rig.stream()?, rig.event()?);
    rig.record(event, other)?;
    breaks(
        rig,
        CaptureMode::ThreadLocal,
        ErrorClass::CaptureUnsupported,
        // SAFETY: a live handle.
        |_| unsafe { rig.driver.event_query(event) },
    )
}

/// A capture stays sound while `allowed` is done.
fn stays_sound(
    rig: &Rig<'_>,
    mode: CaptureMode,
    allowed: impl FnOnce(StreamHandle) -> Check,
) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin_as(stream, mode)?;
    rig.fill(stream, data, 6)?;
    allowed(stream)?;
    let graph = rig.end(stream)?;
    rig.replay(graph, stream)?;
    rig.holds(data, 6)
}

pub(super) fn alloc_under_relaxed_capture(rig: &Rig<'_>) -> Check {
    stays_sound(rig, CaptureMode::Relaxed, |_| {
        Ok(alloc_and_free(rig.driver)?)
    })
}

/// A blocking copy takes the legacy default stream, which non-blocking streams
/// do not know of.
pub(super) fn copy_under_capture(rig: &Rig<'_>) -> Check {
    let other = rig.memory()?;
    stays_sound(rig, CaptureMode::ThreadLocal, |_| {
        // SAFETY: live memory of this length that nothing uses.
        unsafe { rig.driver.copy_to_device(other, &[5; BYTES as usize]) }?;
        rig.holds(other, 5)
    })
}

/// A replay outside a capture does not disturb it.
pub(super) fn replay_beside_capture(rig: &Rig<'_>) -> Check {
    let (stream, other) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, other, 5)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    stays_sound(rig, CaptureMode::ThreadLocal, |_| {
        Ok(rig.launch(exec, stream)?)
    })?;
    rig.synchronize(stream)?;
    rig.holds(other, 5)
}

/// How memory grows inside a capture: the thread relaxes its mode meanwhile.
pub(super) fn alloc_in_relaxed_thread(rig: &Rig<'_>) -> Check {
    stays_sound(rig, CaptureMode::ThreadLocal, |_| {
        let former = rig.driver.capture_mode_exchange(CaptureMode::Relaxed)?;
        let outcome = alloc_and_free(rig.driver);
        rig.driver.capture_mode_exchange(former)?;
        Ok(outcome?)
    })
}

/// What another thread may do under a thread-local capture.
pub(super) fn alloc_in_other_thread(rig: &Rig<'_>) -> Check {
    let driver = rig.driver;
    stays_sound(rig, CaptureMode::ThreadLocal, |_| {
        Ok(on_other_thread(|| alloc_and_free(driver))??)
    })
}

pub(super) fn alloc_in_other_thread_of_global_capture(rig: &Rig<'_>) -> Check {
    let driver = rig.driver;
    let mut outcome = Ok(());
    breaks(
        rig,
        CaptureMode::Global,
        ErrorClass::CaptureUnsupported,
        |_| match on_other_thread(|| alloc_and_free(driver)) {
            Ok(result) => result,
            Err(failure) => {
                outcome = Err(failure);
                Ok(())
            }
        },
    )
    .and(outcome)
}

pub(super) fn on_other_thread<R: Send>(run: impl FnOnce() -> R + Send) -> Result<R, Failure> {
    thread::scope(|scope| scope.spawn(run).join())
        .map_err(|_| Failure::new("a thread that ends", "a panic"))
}

pub(super) fn mode_exchange_gives_former_mode(rig: &Rig<'_>) -> Check {
    let exchange = |mode| rig.driver.capture_mode_exchange(mode);
    let first = exchange(CaptureMode::Relaxed)?;
    let second = exchange(CaptureMode::ThreadLocal)?;
    let third = exchange(first)?;
    equal("a new thread's mode", CaptureMode::Global, first)?;
    equal("the former mode", CaptureMode::Relaxed, second)?;
    equal("the former mode", CaptureMode::ThreadLocal, third)
}

pub(super) fn streams_and_events_may_be_made(rig: &Rig<'_>) -> Check {
    stays_sound(rig, CaptureMode::ThreadLocal, |main| {
        let (side, event) = (rig.stream()?, rig.event()?);
        rig.record(event, main)?;
        rig.wait(side, event)?;
        equal("capturing", CaptureStatus::Active, rig.info(side)?.status)
    })
}

pub(super) fn legacy_stream_is_not_captured(rig: &Rig<'_>) -> Check {
    fails(
        "the begin",
        ErrorClass::CaptureUnsupported,
        rig.begin(StreamHandle(0)),
    )
}

pub(super) fn legacy_stream_does_not_join(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.record(event, stream)?;
    fails(
        "the wait",
        ErrorClass::CaptureImplicit,
        rig.wait(StreamHandle(0), event),
    )
}
