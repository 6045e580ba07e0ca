//! The ways to break a capture's own protocol.

use super::Failure;
use super::forbidden::on_other_thread;
use super::rig::{Check, Rig, equal, fails};
use crate::driver::{CaptureMode, CaptureStatus, ErrorClass, EventScope};

pub(super) fn begin_twice(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    fails("the begin", ErrorClass::IllegalState, rig.begin(stream))
}

pub(super) fn end_without_begin(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    fails("the end", ErrorClass::IllegalState, rig.end(stream))
}

pub(super) fn end_on_forked_stream(rig: &Rig<'_>) -> Check {
    let (main, side) = (rig.stream()?, rig.stream()?);
    rig.begin(main)?;
    rig.order(main, side)?;
    fails("the end", ErrorClass::CaptureUnmatched, rig.end(side))?;
    let status = rig.info(main)?.status;
    equal("the capture", CaptureStatus::Invalidated, status)?;
    fails("the end", ErrorClass::CaptureInvalidated, rig.end(main))
}

pub(super) fn end_in_other_thread(rig: &Rig<'_>) -> Check {
    let (driver, stream) = (rig.driver, rig.stream()?);
    rig.begin(stream)?;
    // SAFETY: a live handle.
    let ended = on_other_thread(|| unsafe { driver.capture_end(stream) })?;
    fails("the end", ErrorClass::CaptureWrongThread, ended)?;
    let status = rig.info(stream)?.status;
    equal("the capture is over", CaptureStatus::None, status)
}

pub(super) fn relaxed_end_in_other_thread(rig: &Rig<'_>) -> Check {
    let (driver, stream) = (rig.driver, rig.stream()?);
    rig.begin_as(stream, CaptureMode::Relaxed)?;
    // SAFETY: a live handle.
    let graph = on_other_thread(|| unsafe { driver.capture_end(stream) })??;
    // SAFETY: the graph is nobody else's.
    Ok(unsafe { driver.graph_destroy(graph) }?)
}

pub(super) fn wait_for_event_from_outside(rig: &Rig<'_>) -> Check {
    let (stream, other, event) = (rig.stream()?, rig.stream()?, rig.event()?);
    rig.record(event, other)?;
    rig.begin(stream)?;
    fails(
        "the wait",
        ErrorClass::CaptureIsolation,
        rig.wait(stream, event),
    )?;
    fails("the end", ErrorClass::CaptureInvalidated, rig.end(stream))
}

pub(super) fn wait_for_unrecorded_event(rig: &Rig<'_>) -> Check {
    let (stream, event) = (rig.stream()?, rig.event()?);
    rig.begin(stream)?;
    rig.wait(stream, event)?;
    let status = rig.info(stream)?.status;
    equal("still capturing", CaptureStatus::Active, status)?;
    rig.end(stream).map(drop)?;
    Ok(())
}

pub(super) fn merge_of_two_captures(rig: &Rig<'_>) -> Check {
    let (first, second, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    let event = rig.event()?;
    rig.begin(first)?;
    rig.begin(second)?;
    rig.fill(first, data, 1)?;
    rig.record(event, first)?;
    fails(
        "the wait",
        ErrorClass::CaptureMerge,
        rig.wait(second, event),
    )
}

/// The event of a capture that is over cannot start anything.
pub(super) fn event_of_ended_capture(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.record(event, stream)?;
    rig.end(stream)?;
    // SAFETY: a live handle.
    let queried = unsafe { rig.driver.event_query(event) };
    fails("the query", ErrorClass::InvalidValue, queried)?;
    fails(
        "the wait",
        ErrorClass::InvalidValue,
        rig.wait(stream, event),
    )?;
    rig.record(event, stream)?;
    Ok(rig.wait(stream, event)?)
}

pub(super) fn invalidated_capture_says_so(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    fails(
        "the synchronisation",
        ErrorClass::CaptureUnsupported,
        rig.synchronize(stream),
    )?;
    for (what, call) in [
        ("the fill", rig.fill(stream, data, 1)),
        ("the record", rig.record(event, stream)),
        ("the end", rig.end(stream).map(drop)),
    ] {
        fails(what, ErrorClass::CaptureInvalidated, call)?;
    }
    equal(
        "not capturing",
        CaptureStatus::None,
        rig.info(stream)?.status,
    )
}

pub(super) fn captures_have_their_own_ids(rig: &Rig<'_>) -> Check {
    let (first, second) = (rig.stream()?, rig.stream()?);
    let mut ids = Vec::new();
    rig.begin(first)?;
    rig.begin(second)?;
    ids.extend([rig.info(first)?.id, rig.info(second)?.id]);
    rig.end(first)?;
    rig.begin(first)?;
    ids.push(rig.info(first)?.id);
    rig.end(first)?;
    rig.end(second)?;
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() == 3 && !distinct.contains(&0) {
        return Ok(());
    }
    Err(Failure::new(
        "three different ids, none zero",
        format!("{ids:?}"),
    ))
}

pub(super) fn external_flags_need_a_capture(rig: &Rig<'_>) -> Check {
    let (stream, event) = (rig.stream()?, rig.event()?);
    for (what, call) in [
        (
            "the record",
            rig.record_as(event, stream, EventScope::External),
        ),
        ("the wait", rig.wait_as(stream, event, EventScope::External)),
    ] {
        fails(what, ErrorClass::IllegalState, call)?;
    }
    Ok(())
}
