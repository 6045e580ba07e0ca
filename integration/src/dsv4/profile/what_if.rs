//! What parts of a step cost the step, by replays in which they do nothing.
//!
//! A limit says how far away a step is from it, and not why. Two kinds of replays of
//! its graph do: without all kernels of one role, and without all that are not on the
//! longest path. What the path takes then, beyond the limit, goes to the edges of
//! forks and joins; what the whole step takes beyond that goes to the work beside the
//! path, which has no place on it and holds it up all the same.

use std::collections::HashSet;

use streamweir::Graph;
use streamweir::trace::{NodeId, NodeKind, Trace};

use super::roles::{Roles, calls};
use crate::dsv4::error::Error;
use crate::dsv4::timer::Timer;

/// Replays without some nodes at the most.
const REPLAYS: usize = 9;

/// Puts down what the step saves without each role.
pub(super) fn leave_out_roles(
    graph: &Graph,
    roles: &mut Roles,
    timer: &Timer,
    replays: usize,
) -> Result<(), Error> {
    for (role, nodes) in roles.roles.iter_mut().zip(&roles.nodes) {
        let [whole, rest] = without(graph, nodes, timer, replays)?;
        role.saves = Some(whole - rest);
    }
    Ok(())
}

/// The share of the step that is left when only the nodes of a path do anything.
pub(super) fn path_alone(
    graph: &Graph,
    path: &[NodeId],
    timer: &Timer,
    replays: usize,
) -> Result<f64, Error> {
    // In turn: clocks drift.
    let [whole, alone] = without(graph, &beside(graph.trace(), path), timer, replays)?;
    Ok(alone / whole)
}

fn without(
    graph: &Graph,
    nodes: &[NodeId],
    timer: &Timer,
    replays: usize,
) -> Result<[f64; 2], Error> {
    let replays = replays.min(REPLAYS);
    // SAFETY: as where roles are timed: a kernel ends and stays in bounds whatever is
    // in its inputs, and a call of the library is left out as a whole or not at all.
    Ok(unsafe { graph.time_without(&timer.stream, nodes, replays) }?)
}

/// Kernels and fills that are on no path of these nodes, whole calls of a library.
fn beside(trace: &Trace, path: &[NodeId]) -> Vec<NodeId> {
    let path: HashSet<NodeId> = path.iter().copied().collect();
    let works = |id: &NodeId| {
        let kind = &trace.node(*id).kind;
        matches!(kind, NodeKind::Kernel(_) | NodeKind::Memset(_))
    };
    calls(trace)
        .filter(|call| !call.iter().any(|id| path.contains(id)))
        .flatten()
        .filter(works)
        .collect()
}

#[cfg(test)]
mod tests {
    use streamweir::trace::{FillNode, Node};

    use super::*;

    /// The kernel of a library's call waits for ever when the fill before it is left
    /// out.
    #[test]
    fn a_call_on_the_path_is_kept_whole_and_one_beside_it_left_out_whole() {
        let mut trace = Trace::new("test");
        let fill = || NodeKind::Memset(FillNode::linear(0x100, 4, 0));
        for (kind, name) in [
            (NodeKind::kernel(), "norm"),
            (fill(), "product"),
            (NodeKind::kernel(), "product"),
            (fill(), "product beside"),
            (NodeKind::kernel(), "product beside"),
            (NodeKind::Empty, "nothing"),
        ] {
            trace.add_node(Node::new(kind, name));
        }
        let left_out = beside(&trace, &[0, 2].map(NodeId));
        assert_eq!(left_out, [3, 4].map(NodeId));
    }
}
