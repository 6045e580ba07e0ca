//! R10, not analysed: what a verdict does not speak about, said in plain words
//! beside it and never passed in silence.
//!
//! ```text
//! said:  safe: capture "decode" (...)
//!          = 3 nodes not analysed: child graph (n2 `body`, n5 `body`, n9 `tail`): ...
//! ```
//!
//! A node is listed when its accesses were not declared, or when it is of a kind
//! that touches memory in ways a trace cannot name and has no access declared.
//! Its place in the order is known and used; its effect on memory is not.

use std::collections::HashSet;

use streamweir_trace::{AllocNode, BufferKind, FreeNode, Node, NodeId, NodeKind, Trace};

/// How many nodes of a kind a line names.
const NAMED: usize = 4;

/// Whether the effect of a node on memory may be unknown, from the node alone.
pub(crate) fn may_be(node: &Node) -> bool {
    let nameless = matches!(
        node.kind,
        NodeKind::MemAlloc(AllocNode { at: 0, .. }) | NodeKind::MemFree(FreeNode { at: 0 })
    );
    !node.analysed || nameless || why(&node.kind).is_some()
}

/// The nodes whose effect on memory is not known, among the `opaque` ones, which
/// [`may_be`].
pub(crate) fn nodes(trace: &Trace, opaque: &[NodeId]) -> Vec<NodeId> {
    if opaque.is_empty() {
        return Vec::new();
    }
    let mut declared = vec![false; trace.nodes.len()];
    for access in &trace.accesses {
        declared[access.node.index()] = true;
    }
    let mut named: HashSet<NodeId> = HashSet::new();
    for buffer in &trace.buffers {
        if let BufferKind::Graph { alloc, free } = buffer.kind {
            named.extend(free.into_iter().chain([alloc]));
        }
    }
    let unknown = |id: &NodeId| {
        let node = trace.node(*id);
        let explained = declared[id.index()]
            || matches!(node.kind, NodeKind::MemAlloc(_) | NodeKind::MemFree(_))
                && named.contains(id);
        !node.analysed || !explained
    };
    opaque.iter().copied().filter(unknown).collect()
}

/// Why nodes of this kind cannot be looked into, and what that leaves open.
fn why(kind: &NodeKind) -> Option<&'static str> {
    match kind {
        NodeKind::Host => Some("the function may touch any host memory, and device memory it maps"),
        NodeKind::ChildGraph => {
            Some("its nodes are not expanded, and may touch any memory that they refer to")
        }
        NodeKind::BatchMemOp => {
            Some("its words may be waited for, or written, outside of this graph")
        }
        NodeKind::Conditional => {
            Some("whether its body runs, and how often, is decided on the device")
        }
        NodeKind::SemaphoreSignal | NodeKind::SemaphoreWait => {
            Some("the other side of the semaphore is outside of this graph")
        }
        NodeKind::Unknown(_) => Some("this version does not know the driver's kind"),
        _ => None,
    }
}

/// One line for each kind among `nodes`: "3 nodes not analysed: child graph
/// (n2 `body`, n5 `body`, n9 `tail`): its nodes are not expanded, ...".
pub(crate) fn lines(trace: &Trace, nodes: &[NodeId]) -> Vec<String> {
    let mut kinds: Vec<(&NodeKind, Vec<NodeId>)> = Vec::new();
    for &node in nodes {
        let kind = &trace.node(node).kind;
        let word = kind.word();
        match kinds.iter_mut().find(|(kind, _)| kind.word() == word) {
            Some((_, nodes)) => nodes.push(node),
            None => kinds.push((kind, vec![node])),
        }
    }
    kinds
        .into_iter()
        .map(|(kind, nodes)| line(trace, kind, &nodes))
        .collect()
}

fn line(trace: &Trace, kind: &NodeKind, nodes: &[NodeId]) -> String {
    let plural = if nodes.len() == 1 { "" } else { "s" };
    let names: Vec<String> = nodes
        .iter()
        .take(NAMED)
        .map(|&node| format!("{node} `{}`", trace.node(node).name))
        .collect();
    let more = if nodes.len() > NAMED { ", ..." } else { "" };
    let why = match kind {
        NodeKind::MemAlloc(_) | NodeKind::MemFree(_) => "its address is not known",
        kind => why(kind).unwrap_or("its accesses are not declared"),
    };
    format!(
        "{} node{plural} not analysed: {} ({}{more}): {why}",
        nodes.len(),
        kind.word(),
        names.join(", ")
    )
}
