//! What a verdict does not speak about (R10): said in plain words beside it.

use streamweir_trace::{NodeId, NodeKind, Trace};

/// The nodes whose effect on memory is not known: declared as such, or of a
/// kind that touches memory in ways a trace cannot name and without an access.
pub(crate) fn nodes(trace: &Trace) -> Vec<NodeId> {
    let mut declared = vec![false; trace.nodes.len()];
    for access in &trace.accesses {
        declared[access.node.index()] = true;
    }
    trace
        .nodes
        .iter()
        .zip(declared)
        .enumerate()
        .filter(|(_, (node, declared))| !node.analysed || (opaque(&node.kind) && !declared))
        .map(|(at, _)| NodeId::at(at))
        .collect()
}

fn opaque(kind: &NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::Host
            | NodeKind::ChildGraph
            | NodeKind::BatchMemOp
            | NodeKind::Conditional
            | NodeKind::SemaphoreSignal
            | NodeKind::SemaphoreWait
            | NodeKind::Unknown(_)
    )
}

/// One line for each kind among `nodes`: "3 nodes not analysed: child graph
/// (n2, n5, n9)".
pub(crate) fn lines(trace: &Trace, nodes: &[NodeId]) -> Vec<String> {
    const NAMED: usize = 4;
    let mut kinds: Vec<(&'static str, Vec<NodeId>)> = Vec::new();
    for &node in nodes {
        let word = trace.node(node).kind.word();
        match kinds.iter_mut().find(|(kind, _)| *kind == word) {
            Some((_, nodes)) => nodes.push(node),
            None => kinds.push((word, vec![node])),
        }
    }
    kinds
        .into_iter()
        .map(|(kind, nodes)| {
            let plural = if nodes.len() == 1 { "" } else { "s" };
            let names: Vec<String> = nodes.iter().take(NAMED).map(NodeId::to_string).collect();
            let more = if nodes.len() > NAMED { ", ..." } else { "" };
            format!(
                "{} node{plural} not analysed: {kind} ({}{more})",
                nodes.len(),
                names.join(", ")
            )
        })
        .collect()
}
