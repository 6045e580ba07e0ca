//! What lives how long, and what is read when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streamweir_trace::{ByteRange, NodeKind};

use super::rig::{BYTES, Check, Rig, equal, fails};
use super::{Failure, Kept};
use crate::driver::{ErrorClass, EventScope, GraphHandle};

pub(super) fn graph_outlived_by_exec(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 4)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    rig.destroy_graph(graph)?;
    rig.launch(exec, stream)?;
    rig.synchronize(stream)?;
    rig.holds(data, 4)
}

fn keep(rig: &Rig<'_>, graph: GraphHandle) -> Result<Kept, Failure> {
    let kept = Kept::default();
    let object = Box::new(Arc::clone(&kept));
    // SAFETY: a live handle.
    unsafe { rig.driver.graph_retain(graph, object) }?;
    Ok(kept)
}

/// A driver may drop an object a little later, on a thread of its own.
fn dropped(kept: &Kept) -> Check {
    let start = Instant::now();
    while Arc::strong_count(kept) > 1 {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(Failure::new("the object dropped", "it is still held"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn held(kept: &Kept) -> Check {
    equal("owners of the object", 2, Arc::strong_count(kept))
}

pub(super) fn kept_object_goes_with_last_owner(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 4)?;
    let graph = rig.end(stream)?;
    let kept = keep(rig, graph)?;
    let exec = rig.instantiate(graph)?;
    held(&kept)?;
    rig.destroy_graph(graph)?;
    held(&kept)?;
    rig.launch(exec, stream)?;
    rig.synchronize(stream)?;
    held(&kept)?;
    rig.destroy_exec(exec)?;
    dropped(&kept)
}

pub(super) fn kept_object_goes_with_graph(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    let graph = rig.end(stream)?;
    let kept = keep(rig, graph)?;
    held(&kept)?;
    rig.destroy_graph(graph)?;
    dropped(&kept)
}

/// An object tied to a graph under construction goes when the capture fails.
pub(super) fn kept_object_of_broken_capture_goes(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    let Some(graph) = rig.info(stream)?.graph else {
        return Err(Failure::new("a graph under construction", "none"));
    };
    let kept = keep(rig, graph)?;
    held(&kept)?;
    fails(
        "the synchronisation",
        ErrorClass::CaptureUnsupported,
        rig.synchronize(stream),
    )?;
    fails("the end", ErrorClass::CaptureInvalidated, rig.end(stream))?;
    dropped(&kept)
}

pub(super) fn pinned_memory_is_read_at_replay(rig: &Rig<'_>) -> Check {
    let (stream, data, host) = (rig.stream()?, rig.memory()?, rig.pinned()?);
    // SAFETY: page-locked memory of this length that nothing else uses now.
    let set = |value| unsafe { host.write_bytes(value, BYTES as usize) };
    set(1);
    rig.begin(stream)?;
    rig.copy(stream, data, host as u64)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    for value in [2, 3] {
        set(value);
        rig.launch(exec, stream)?;
        rig.synchronize(stream)?;
        rig.holds(data, value)?;
    }
    Ok(())
}

/// Launches of one instantiated graph on two streams do not overlap: each of
/// them clears the elements and adds 1 to them twice.
pub(super) fn replays_of_one_exec_follow_one_another(rig: &Rig<'_>) -> Check {
    let (first, second) = (rig.stream()?, rig.stream()?);
    let (data, function) = (rig.memory()?, rig.function()?);
    let elements = (BYTES / 4) as u32;
    rig.begin(first)?;
    rig.fill(first, data, 0)?;
    rig.add_one(first, function, data, elements)?;
    rig.add_one(first, function, data, elements)?;
    let graph = rig.end(first)?;
    let exec = rig.instantiate(graph)?;
    for _ in 0..8 {
        rig.launch(exec, first)?;
        rig.launch(exec, second)?;
    }
    rig.synchronize(first)?;
    rig.synchronize(second)?;
    let mut bytes = [0; BYTES as usize];
    // SAFETY: live memory, and both streams were waited for.
    unsafe { rig.driver.copy_to_host(&mut bytes, data) }?;
    equal(
        "every element",
        [2, 0, 0, 0].repeat(BYTES as usize / 4),
        bytes.to_vec(),
    )
}

pub(super) fn external_record_and_wait_are_nodes(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    rig.wait_as(stream, event, EventScope::External)?;
    rig.fill(stream, data, 1)?;
    rig.record_as(event, stream, EventScope::External)?;
    let graph = rig.end(stream)?;
    let kinds = rig.kinds(graph)?;
    let words: Vec<_> = kinds.iter().map(NodeKind::word).collect();
    equal(
        "the nodes",
        vec!["event wait", "memset", "event record"],
        words,
    )?;
    equal("the edges", vec![(0, 1), (1, 2)], rig.edges(graph)?)
}

/// What the graph records, a stream outside waits for.
pub(super) fn external_record_happens_at_replay(rig: &Rig<'_>) -> Check {
    let (stream, other, event) = (rig.stream()?, rig.stream()?, rig.event()?);
    let (data, seen) = (rig.memory()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 8)?;
    rig.record_as(event, stream, EventScope::External)?;
    let graph = rig.end(stream)?;
    let exec = rig.instantiate(graph)?;
    rig.launch(exec, stream)?;
    rig.wait(other, event)?;
    rig.copy(other, seen, data)?;
    rig.synchronize(other)?;
    rig.holds(seen, 8)
}

pub(super) fn range_of_memory_is_known(rig: &Rig<'_>) -> Check {
    let data = rig.memory()?;
    let Some(range) = rig.driver.mem_range(data + BYTES - 1)? else {
        return Err(Failure::new("the allocation", "none"));
    };
    equal(
        "that the allocation is inside",
        true,
        range.contains(&ByteRange::new(data, data + BYTES)),
    )?;
    equal("nothing at address 16", None, rig.driver.mem_range(16)?)
}
