//! What capture makes of work: nodes, operands, edges, frontiers.

use streamweir_trace::{CopyNode, FillNode, NodeKind};

use super::Failure;
use super::rig::{BYTES, Check, Rig, equal, fails};
use crate::driver::{CaptureStatus, ErrorClass, LaunchShape, Start};

pub(super) fn fill_runs_at_replay(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 7)?;
    let graph = rig.end(stream)?;
    rig.replay(graph, stream)?;
    rig.holds(data, 7)
}

pub(super) fn fill_node_tells_operands(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 7)?;
    let graph = rig.end(stream)?;
    let fill = FillNode::linear(data, BYTES, 7);
    equal("the nodes", vec![NodeKind::Memset(fill)], rig.kinds(graph)?)
}

pub(super) fn copy_node_tells_operands(rig: &Rig<'_>) -> Check {
    let (stream, to, from, host) = (rig.stream()?, rig.memory()?, rig.memory()?, rig.pinned()?);
    rig.begin(stream)?;
    rig.copy(stream, to, from)?;
    rig.copy(stream, from, host as u64)?;
    rig.copy(stream, host as u64, to)?;
    let graph = rig.end(stream)?;
    let copies = [(to, from), (from, host as u64), (host as u64, to)]
        .map(|(to, from)| NodeKind::Memcpy(CopyNode::linear(to, from, BYTES)));
    equal("the nodes", copies.to_vec(), rig.kinds(graph)?)
}

pub(super) fn kernel_node_tells_parameters(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.begin(stream)?;
    rig.add_one(stream, function, data, 40)?;
    let graph = rig.end(stream)?;
    let kinds = rig.kinds(graph)?;
    let [NodeKind::Kernel(kernel)] = &kinds[..] else {
        return Err(Failure::new("one kernel node", format!("{kinds:?}")));
    };
    equal("the symbol", rig.symbol(), &kernel.function)?;
    equal("the grid", [2, 1, 1], kernel.grid)?;
    equal("the block", [32, 1, 1], kernel.block)?;
    let params: Vec<_> = kernel
        .params
        .iter()
        .map(|param| (param.offset, param.bytes.clone()))
        .collect();
    equal(
        "the parameters",
        vec![
            (0, data.to_le_bytes().to_vec()),
            (8, 40_u32.to_le_bytes().to_vec()),
        ],
        params,
    )
}

pub(super) fn parameters_are_copied_at_launch(rig: &Rig<'_>) -> Check {
    // `add_one` passes pointers to variables that are gone when it returns.
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 0)?;
    rig.add_one(stream, function, data, (BYTES / 4) as u32)?;
    let graph = rig.end(stream)?;
    rig.replay(graph, stream)?;
    let mut bytes = [0; BYTES as usize];
    // SAFETY: live memory, and the replay was waited for.
    unsafe { rig.driver.copy_to_host(&mut bytes, data) }?;
    equal(
        "every element",
        [1, 0, 0, 0].repeat(BYTES as usize / 4),
        bytes.to_vec(),
    )
}

pub(super) fn one_stream_makes_a_chain(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    for value in 0..3 {
        rig.fill(stream, data, value)?;
    }
    let graph = rig.end(stream)?;
    equal("the edges", vec![(0, 1), (1, 2)], rig.edges(graph)?)
}

pub(super) fn frontier_is_last_node(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    equal("no frontier yet", vec![], rig.frontier(stream)?)?;
    rig.fill(stream, data, 1)?;
    rig.fill(stream, data, 2)?;
    let info = rig.info(stream)?;
    equal("the status", CaptureStatus::Active, info.status)?;
    let Some(graph) = info.graph else {
        return Err(Failure::new("a graph under construction", "none"));
    };
    let nodes = rig.nodes(graph)?;
    let frontier = rig.frontier(stream)?;
    let made = rig.end(stream)?;
    equal("the frontier", vec![nodes[1]], frontier)?;
    equal("the nodes", rig.nodes(made)?, nodes)?;
    equal("the status", CaptureStatus::None, rig.info(stream)?.status)
}

pub(super) fn nodes_come_in_order_of_creation(rig: &Rig<'_>) -> Check {
    let (main, side, data) = (rig.stream()?, rig.stream()?, rig.memory()?);
    rig.begin(main)?;
    rig.order(main, side)?;
    for value in 0..4 {
        rig.fill(if value % 2 == 0 { main } else { side }, data, value)?;
    }
    rig.order(side, main)?;
    let graph = rig.end(main)?;
    let values: Vec<_> = rig
        .kinds(graph)?
        .iter()
        .map(|kind| match kind {
            NodeKind::Memset(fill) => fill.value,
            _ => u32::MAX,
        })
        .collect();
    equal("the values filled", vec![0, 1, 2, 3], values)
}

pub(super) fn empty_capture_makes_empty_graph(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    rig.begin(stream)?;
    let graph = rig.end(stream)?;
    equal("no nodes", vec![], rig.nodes(graph)?)?;
    Ok(rig.replay(graph, stream)?)
}

pub(super) fn nothing_runs_under_capture(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 9)?;
    rig.end(stream)?;
    rig.synchronize(stream)?;
    rig.holds(data, 0)
}

pub(super) fn launch_of_wrong_shape_is_refused(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    let (mut data, mut len) = (data, 4_u32);
    for (grid, block) in [([0, 1, 1], [32, 1, 1]), ([1, 1, 1], [2048, 1, 1])] {
        let shape = LaunchShape::from((grid, block));
        let mut params = [(&raw mut data).cast(), (&raw mut len).cast()];
        // SAFETY: the kernel's two parameters; the memory is live.
        let launched = unsafe {
            rig.driver
                .launch(stream, function, shape, Start::InOrder, &mut params)
        };
        fails("the launch", ErrorClass::InvalidValue, launched)?;
    }
    Ok(())
}
