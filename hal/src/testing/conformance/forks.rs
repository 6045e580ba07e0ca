//! How streams enter a capture and leave it.

use super::rig::{Check, Rig, equal, fails};
use crate::driver::{CaptureStatus, ErrorClass};

///     a --- c
///      \   /
///       b-'
pub(super) fn fork_and_join(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    equal("the same capture", rig.info(main)?, rig.info(side)?)?;
    equal("one frontier", rig.frontier(main)?, rig.frontier(side)?)?;
    rig.fill(side, data, 2)?;
    rig.order(side, main)?;
    rig.fill(main, data, 3)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1), (0, 2), (1, 2)], rig.edges(graph)?)?;
    rig.replay(graph, main)?;
    rig.holds(data, 3)
}

pub(super) fn fork_before_any_node(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.order(main, side)?;
    equal("capturing", CaptureStatus::Active, rig.info(side)?.status)?;
    equal("no frontier", vec![], rig.frontier(side)?)?;
    rig.fill(side, data, 1)?;
    rig.order(side, main)?;
    rig.fill(main, data, 2)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1)], rig.edges(graph)?)
}

///     a - b -- d
///      \      /
///       `- c-'
pub(super) fn both_sides_meet_in_one_node(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    rig.fill(main, data, 2)?;
    rig.fill(side, data, 3)?;
    rig.order(side, main)?;
    equal("nodes in the frontier", 2, rig.frontier(main)?.len())?;
    rig.fill(main, data, 4)?;
    equal("nodes in the frontier", 1, rig.frontier(main)?.len())?;
    let graph = rig.end(main)?;
    equal(
        "the edges",
        vec![(0, 1), (0, 2), (1, 3), (2, 3)],
        rig.edges(graph)?,
    )
}

/// Waiting for `a` again after `b` adds the edge from `a`, though it says
/// nothing new.
pub(super) fn redundant_wait_adds_edge(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.record(event, stream)?;
    rig.fill(stream, data, 2)?;
    rig.wait(stream, event)?;
    rig.fill(stream, data, 3)?;
    let graph = rig.end(stream)?;
    equal("the edges", vec![(0, 1), (0, 2), (1, 2)], rig.edges(graph)?)
}

pub(super) fn wait_on_own_event_adds_nothing(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.order(stream, stream)?;
    equal("nodes in the frontier", 1, rig.frontier(stream)?.len())?;
    rig.fill(stream, data, 2)?;
    let graph = rig.end(stream)?;
    equal("the edges", vec![(0, 1)], rig.edges(graph)?)
}

/// Work that follows the record is not waited for.
pub(super) fn event_keeps_its_record(rig: &Rig<'_>) -> Check {
    let (main, side, event, data) = (rig.stream()?, rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.record(event, main)?;
    rig.fill(main, data, 2)?;
    rig.wait(side, event)?;
    rig.fill(side, data, 3)?;
    rig.order(side, main)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1), (0, 2)], rig.edges(graph)?)
}

pub(super) fn event_recorded_anew_moves_on(rig: &Rig<'_>) -> Check {
    let (main, side, event, data) = (rig.stream()?, rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.record(event, main)?;
    rig.fill(main, data, 2)?;
    rig.record(event, main)?;
    rig.wait(side, event)?;
    rig.fill(side, data, 3)?;
    rig.order(side, main)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1), (1, 2)], rig.edges(graph)?)
}

pub(super) fn fork_without_work_joined(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    rig.order(side, main)?;
    rig.fill(main, data, 2)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1)], rig.edges(graph)?)
}

/// Only work has to be joined.
pub(super) fn fork_without_work_not_joined(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    rig.fill(main, data, 2)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1)], rig.edges(graph)?)?;
    equal("not capturing", CaptureStatus::None, rig.info(side)?.status)
}

pub(super) fn unjoined_work(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    rig.fill(side, data, 2)?;
    fails("the end", ErrorClass::CaptureUnjoined, rig.end(main))?;
    for stream in [main, side] {
        equal(
            "not capturing",
            CaptureStatus::None,
            rig.info(stream)?.status,
        )?;
        rig.fill(stream, data, 3)?;
        rig.synchronize(stream)?;
    }
    Ok(())
}

pub(super) fn unjoined_tail_after_join(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.order(main, side)?;
    rig.fill(side, data, 1)?;
    rig.order(side, main)?;
    rig.fill(side, data, 2)?;
    fails("the end", ErrorClass::CaptureUnjoined, rig.end(main))
}

/// A third stream joins both, and the origin joins it.
pub(super) fn join_through_third_stream(rig: &Rig<'_>) -> Check {
    let (main, side, third) = (rig.stream()?, rig.stream()?, rig.stream()?);
    let data = rig.memory()?;
    rig.begin(main)?;
    rig.fill(main, data, 1)?;
    rig.order(main, side)?;
    rig.fill(side, data, 2)?;
    rig.order(side, third)?;
    rig.fill(third, data, 3)?;
    rig.order(third, main)?;
    let graph = rig.end(main)?;
    equal("the edges", vec![(0, 1), (1, 2)], rig.edges(graph)?)
}

pub(super) fn forked_stream_is_free_after_end(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.order(main, side)?;
    rig.fill(side, data, 1)?;
    rig.order(side, main)?;
    rig.end(main)?;
    rig.begin(side)?;
    rig.fill(side, data, 5)?;
    let graph = rig.end(side)?;
    rig.replay(graph, side)?;
    rig.holds(data, 5)
}
