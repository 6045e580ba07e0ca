//! Graphs inside graphs, nodes by themselves, and what an address is.

use streamweir_trace::NodeKind;

use super::Failure;
use super::rig::{BYTES, Check, Rig, equal, fails};
use crate::driver::{ErrorClass, KernelAttributes, Pointed};

pub(super) fn child_graph_is_a_copy(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 5)?;
    let inner = rig.end(stream)?;
    rig.begin(stream)?;
    rig.fill(stream, data, 3)?;
    let outer = rig.end(stream)?;
    let first = rig.nodes(outer)?;
    // SAFETY: live handles, and nodes of the graph.
    let child = unsafe { rig.driver.graph_add_child(outer, &first, inner) }?;
    let kinds = rig.kinds(outer)?;
    equal("the kind", Some(&NodeKind::ChildGraph), kinds.last())?;
    // SAFETY: a node of a live graph.
    let inside = unsafe { rig.driver.graph_child(child) }?;
    equal("the child's nodes", rig.kinds(inner)?, rig.kinds(inside)?)?;
    if rig.nodes(inside)? == rig.nodes(inner)? {
        return Err(Failure::new("nodes of the child's own", "the same nodes"));
    }
    rig.destroy_graph(inner)?;
    rig.replay(outer, stream)?;
    rig.holds(data, 5)
}

pub(super) fn only_a_child_node_has_a_child(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 5)?;
    let graph = rig.end(stream)?;
    let node = rig.nodes(graph)?[0];
    // SAFETY: a node of a live graph.
    let child = unsafe { rig.driver.graph_child(node) };
    fails("the child", ErrorClass::InvalidValue, child)
}

pub(super) fn only_kernels_and_fills_are_alone(rig: &Rig<'_>) -> Check {
    let (stream, to, from) = (rig.stream()?, rig.memory()?, rig.memory()?);
    rig.begin(stream)?;
    rig.copy(stream, to, from)?;
    let graph = rig.end(stream)?;
    let node = rig.nodes(graph)?[0];
    // SAFETY: a node of a live graph.
    let alone = unsafe { rig.driver.graph_alone(node) };
    fails("the node alone", ErrorClass::InvalidValue, alone)
}

pub(super) fn fill_alone_fills(rig: &Rig<'_>) -> Check {
    let (stream, data) = (rig.stream()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 3)?;
    rig.fill(stream, data, 5)?;
    let graph = rig.end(stream)?;
    let node = rig.nodes(graph)?[0];
    // SAFETY: a node of a live graph.
    let alone = unsafe { rig.driver.graph_alone(node)? };
    rig.owns(alone);
    equal("the node", &rig.kinds(graph)?[..1], &rig.kinds(alone)?[..])?;
    rig.destroy_graph(graph)?;
    rig.replay(alone, stream)?;
    rig.holds(data, 3)
}

pub(super) fn node_alone_does_what_it_did(rig: &Rig<'_>) -> Check {
    let (stream, data, function) = (rig.stream()?, rig.memory()?, rig.function()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.add_one(stream, function, data, (BYTES / 4) as u32)?;
    rig.fill(stream, data, 9)?;
    let graph = rig.end(stream)?;
    let node = rig.nodes(graph)?[1];
    // SAFETY: a node of a live graph.
    let (alone, attributes) = unsafe {
        (
            rig.driver.graph_alone(node)?,
            rig.driver.graph_attributes(node)?,
        )
    };
    rig.owns(alone);
    let plain = KernelAttributes {
        // What a launch has that asks for neither is the driver's to say.
        priority: attributes.priority,
        cluster: attributes.cluster,
        ..KernelAttributes::default()
    };
    equal("the attributes of a plain launch", plain, attributes)?;
    equal("the node", &rig.kinds(graph)?[1..2], &rig.kinds(alone)?[..])?;
    // The graph it is taken from may go.
    rig.destroy_graph(graph)?;
    rig.replay(alone, stream)?;
    let mut bytes = [0; BYTES as usize];
    // SAFETY: live memory, and the replay was waited for.
    unsafe { rig.driver.copy_to_host(&mut bytes, data) }?;
    equal(
        "the elements",
        [1, 0, 0, 0].repeat(BYTES as usize / 4),
        bytes.to_vec(),
    )
}

pub(super) fn address_tells_its_memory(rig: &Rig<'_>) -> Check {
    let (data, host) = (rig.memory()?, rig.pinned()?);
    let pointed = |address| rig.driver.pointer(address);
    let start = |found: Option<Pointed>| found.map(|found| (found.range.start, found.device));
    equal(
        "device memory",
        Some((data, true)),
        start(pointed(data + 17)?),
    )?;
    equal(
        "host memory",
        Some((host as u64, false)),
        start(pointed(host as u64 + 17)?),
    )?;
    equal("no memory", None, pointed(8)?)
}
