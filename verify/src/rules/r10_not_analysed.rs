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

use streamweir_trace::{Count, NodeId, NodeKind, Trace};

/// How many nodes of a kind a line names.
const NAMED: usize = 4;

/// Why nodes of this kind cannot be looked into, and what that leaves open.
fn why(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "the function may touch any host memory, and device memory it maps",
        NodeKind::ChildGraph => {
            "its nodes are not expanded, and may touch any memory that they refer to"
        }
        NodeKind::BatchMemOp => "its words may be waited for, or written, outside of this graph",
        NodeKind::Conditional => "whether its body runs, and how often, is decided on the device",
        NodeKind::SemaphoreSignal | NodeKind::SemaphoreWait => {
            "the other side of the semaphore is outside of this graph"
        }
        NodeKind::Unknown(_) => "this version does not know the driver's kind",
        NodeKind::MemAlloc(_) | NodeKind::MemFree(_) => "its address is not known",
        NodeKind::Kernel(_)
        | NodeKind::Memcpy(_)
        | NodeKind::Memset(_)
        | NodeKind::Empty
        | NodeKind::EventWait
        | NodeKind::EventRecord => "its accesses are not declared",
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
    let names: Vec<String> = nodes
        .iter()
        .take(NAMED)
        .map(|&node| format!("{node} `{}`", trace.node(node).name))
        .collect();
    let more = if nodes.len() > NAMED { ", ..." } else { "" };
    format!(
        "{} not analysed: {} ({}{more}): {}",
        Count::of(nodes.len() as u64, "node"),
        kind.word(),
        names.join(", "),
        why(kind)
    )
}
