//! Nodes of an instantiated graph that are told to do nothing.

use super::rig::{BYTES, Check, Rig, fails};
use crate::driver::{DriverResult, ErrorClass, EventScope, ExecHandle, NodeHandle};

impl Rig<'_> {
    fn enable(&self, exec: ExecHandle, node: NodeHandle, enabled: bool) -> DriverResult<()> {
        // SAFETY: live handles of one graph, which nothing else uses.
        unsafe { self.driver.exec_enable(exec, node, enabled) }
    }
}

pub(super) fn disabled_node_does_nothing(rig: &Rig<'_>) -> Check {
    let (stream, data, other) = (rig.stream()?, rig.memory()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.fill(stream, data, 2)?;
    rig.copy(stream, other, data)?;
    let graph = rig.end(stream)?;
    let (nodes, exec) = (rig.nodes(graph)?, rig.instantiate(graph)?);
    for (enabled, value) in [(false, 1), (true, 2), (false, 1)] {
        rig.enable(exec, nodes[1], enabled)?;
        rig.launch(exec, stream)?;
        rig.synchronize(stream)?;
        rig.holds(data, value)?;
        rig.holds(other, value)?;
    }
    Ok(())
}

/// What comes after a node that does nothing still comes after what is before it.
pub(super) fn disabled_node_orders(rig: &Rig<'_>) -> Check {
    let (main, side) = (rig.stream()?, rig.stream()?);
    let (data, other, function) = (rig.memory()?, rig.memory()?, rig.function()?);
    rig.begin(main)?;
    rig.fill(main, data, 7)?;
    rig.add_one(main, function, other, (BYTES / 4) as u32)?;
    rig.order(main, side)?;
    rig.copy(side, other, data)?;
    rig.order(side, main)?;
    let graph = rig.end(main)?;
    let (nodes, exec) = (rig.nodes(graph)?, rig.instantiate(graph)?);
    rig.enable(exec, nodes[1], false)?;
    for _ in 0..4 {
        rig.launch(exec, main)?;
        rig.synchronize(main)?;
        rig.holds(other, 7)?;
    }
    Ok(())
}

pub(super) fn only_work_is_disabled(rig: &Rig<'_>) -> Check {
    let (stream, event, data) = (rig.stream()?, rig.event()?, rig.memory()?);
    rig.begin(stream)?;
    rig.fill(stream, data, 1)?;
    rig.record_as(event, stream, EventScope::External)?;
    let graph = rig.end(stream)?;
    let (nodes, exec) = (rig.nodes(graph)?, rig.instantiate(graph)?);
    fails(
        "an event node",
        ErrorClass::InvalidValue,
        rig.enable(exec, nodes[1], false),
    )
}
