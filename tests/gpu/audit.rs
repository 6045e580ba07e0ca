//! Audits of graphs that the engine captured itself, with driver calls alone.

use streamweir::Device;
use streamweir::audit::{AuditOptions, audit};
use streamweir::cudarc::driver::{CudaContext, CudaStream, sys};
use streamweir::driver::{EventScope, GraphHandle, Start, StreamHandle};
use streamweir::kernels::dsv4::Image;
use streamweir::trace::{BufferKind, ByteRange, NodeKind};
use streamweir::verify::{Options, Report, Rule, Verdict};

use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    (
        "memory_of_the_graph_is_freed_once_and_in_time",
        graph_memory,
    ),
    ("a_child_graph_is_expanded", child_graph),
    ("pointers_alone_prove_nothing", pointers),
];

const BYTES: u64 = 4096;

/// Makes `to` continue after `from`.
pub(crate) fn order(from: StreamHandle, to: StreamHandle) -> Outcome {
    let driver = crate::driver()?;
    let event = driver.event_create(false)?;
    // SAFETY: live handles; what waits for an event outlives it.
    unsafe {
        driver.event_record(event, from, EventScope::Internal)?;
        driver.stream_wait(to, event, EventScope::Internal)?;
        driver.event_destroy(event)?;
    }
    Ok(())
}

pub(crate) fn handle(stream: &CudaStream) -> StreamHandle {
    StreamHandle(stream.cu_stream() as u64)
}

pub(crate) fn begin(stream: StreamHandle) -> Outcome {
    let mode = streamweir::driver::CaptureMode::ThreadLocal;
    // SAFETY: a live stream.
    Ok(unsafe { crate::driver()?.capture_begin(stream, mode) }?)
}

pub(crate) fn end(stream: StreamHandle) -> Result<GraphHandle, libtest_mimic::Failed> {
    // SAFETY: a live stream.
    Ok(unsafe { crate::driver()?.capture_end(stream) }?)
}

fn fill(stream: StreamHandle, to: u64) -> Outcome {
    // SAFETY: the graphs of these tests are read and never launched.
    Ok(unsafe { crate::driver()?.fill_async(stream, to, 1, BYTES) }?)
}

fn judged(
    device: &Device,
    graph: GraphHandle,
    options: AuditOptions,
) -> Result<Report, libtest_mimic::Failed> {
    // SAFETY: a live graph that nobody changes.
    let found = unsafe { audit(device, graph, options) }?;
    Ok(found.verify(&Options::default())?)
}

/// Allocates under capture, fills on a side stream, and frees: in time, too
/// early, or not at all.
fn graph_memory(_: &Device, _: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let device = Device::from_cudarc(&context)?;
    let (main, side) = (context.new_stream()?, context.new_stream()?);
    let (main, side) = (handle(&main), handle(&side));
    for (free, expected) in [
        ("in time", None),
        ("too early", Some(Rule::FreeTooEarly)),
        ("never", Some(Rule::NotRelaunchable)),
    ] {
        begin(main)?;
        let mut at = 0;
        // SAFETY: a live stream, and a pointer to a local.
        unsafe { sys::cuMemAllocAsync(&raw mut at, BYTES as usize, main.0 as sys::CUstream) }
            .result()?;
        order(main, side)?;
        fill(side, at)?;
        // SAFETY: memory of the graph, freed once.
        let release = || unsafe { sys::cuMemFreeAsync(at, main.0 as sys::CUstream) }.result();
        if free == "too early" {
            release()?;
        }
        order(side, main)?;
        if free == "in time" {
            release()?;
        }
        let graph = end(main)?;
        let options = AuditOptions::named(free);
        // SAFETY: a live graph that nobody changes.
        let found = unsafe { audit(&device, graph, options) }?;
        let report = found.verify(&Options::default())?;
        let buffers = &found.trace().buffers;
        let made = buffers
            .iter()
            .find(|buffer| buffer.range == ByteRange::new(at, at + BYTES));
        ensure(
            made.is_some_and(|buffer| match buffer.kind {
                BufferKind::Graph { free: node, .. } => node.is_some() == (free != "never"),
                _ => false,
            }),
            || format!("{free}: the graph's memory is not among {buffers:?}"),
        )?;
        let rules: Vec<Rule> = report.hazards.iter().map(|hazard| hazard.rule).collect();
        ensure(rules == Vec::from_iter(expected), || {
            format!("{free}: {report}")
        })?;
        // SAFETY: the graph is ours, and was never instantiated.
        unsafe { crate::driver()?.graph_destroy(graph) }?;
    }
    Ok(())
}

fn child_graph(device: &Device, _: &Image) -> Outcome {
    let driver = crate::driver()?;
    let (stream, memory) = (driver.stream_create(0)?, driver.mem_alloc(BYTES)?);
    begin(stream)?;
    fill(stream, memory)?;
    let inner = end(stream)?;
    for (ordered, expected) in [(true, Verdict::Safe), (false, Verdict::Hazard)] {
        begin(stream)?;
        fill(stream, memory)?;
        let outer = end(stream)?;
        // SAFETY: a live graph and its node.
        unsafe {
            let first = driver.graph_nodes(outer)?;
            let after = if ordered { &first[..] } else { &[] };
            driver.graph_add_child(outer, after, inner)?;
        }
        let options =
            || AuditOptions::named("child").knowing("data", ByteRange::new(memory, memory + BYTES));
        let report = judged(device, outer, options())?;
        ensure(report.verdict == expected, || report.to_string())?;
        ensure(report.not_analysed.is_empty(), || report.to_string())?;
        if !ordered {
            ensure(report.to_string().contains("in child n"), || {
                report.to_string()
            })?;
        }
        // SAFETY: ours, and never instantiated.
        unsafe { driver.graph_destroy(outer) }?;
    }
    // SAFETY: ours; nothing of it ran.
    unsafe {
        driver.graph_destroy(inner)?;
        driver.mem_free(memory)?;
        driver.stream_destroy(stream)?;
    }
    Ok(())
}

/// Two kernels beside each other on one block that is known, and on one that
/// nobody names.
fn pointers(device: &Device, image: &Image) -> Outcome {
    let driver = crate::driver()?;
    let (main, side) = (driver.stream_create(0)?, driver.stream_create(0)?);
    let memory = driver.mem_alloc(BYTES)?;
    let module = driver.module_load(image)?;
    // SAFETY: a live module.
    let function = unsafe { driver.module_function(module, "add_one") }?;
    let launch = |stream| {
        let (mut data, mut len) = (memory, (BYTES / 4) as u32);
        let mut params = [(&raw mut data).cast(), (&raw mut len).cast()];
        // SAFETY: the kernel's two parameters; the graph is never launched.
        unsafe {
            driver.launch(
                stream,
                function,
                (len.div_ceil(32), 32).into(),
                Start::InOrder,
                &mut params,
            )
        }
    };
    begin(main)?;
    order(main, side)?;
    launch(main)?;
    launch(side)?;
    order(side, main)?;
    let graph = end(main)?;
    let known =
        AuditOptions::named("known").knowing("data", ByteRange::new(memory, memory + BYTES));
    let report = judged(device, graph, known)?;
    ensure(report.verdict == Verdict::Possible, || report.to_string())?;
    ensure(report.hazards[0].rule == Rule::UnorderedConflict, || {
        report.to_string()
    })?;
    let report = judged(device, graph, AuditOptions::named("unknown"))?;
    ensure(report.verdict == Verdict::Possible, || report.to_string())?;
    // Memory that only the driver knows: two nodes meet in it, and nobody names it.
    let rules: Vec<Rule> = report.hazards.iter().map(|hazard| hazard.rule).collect();
    ensure(
        rules
            == [
                Rule::UnorderedConflict,
                Rule::UnknownMemory,
                Rule::UnknownMemory,
            ]
            && report.hazards.iter().all(|hazard| !hazard.proven),
        || report.to_string(),
    )?;
    // SAFETY: a live graph.
    let kinds = unsafe {
        let nodes = driver.graph_nodes(graph)?;
        let kinds: Result<Vec<NodeKind>, _> = nodes
            .into_iter()
            .map(|node| driver.graph_node(node))
            .collect();
        driver.graph_destroy(graph)?;
        driver.mem_free(memory)?;
        driver.module_unload(module)?;
        driver.stream_destroy(side)?;
        driver.stream_destroy(main)?;
        kinds?
    };
    ensure(kinds.len() == 2, || format!("{kinds:?}"))
}
