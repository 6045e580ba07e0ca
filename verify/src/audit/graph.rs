//! The part of a dump that needs no interpretation: nodes and edges.

use streamweir_trace::dump::{Dump, DumpNode};
use streamweir_trace::{
    ByteRange, CopyNode, Edge, FillNode, KernelNode, Node, NodeId, NodeKind, Param, Trace,
};

use crate::audit::demangle::short_name;

/// The device memory that a copy or a fill names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) node: NodeId,
    pub(super) range: ByteRange,
    pub(super) written: bool,
}

/// A trace with the nodes and the edges of `dump`, which it is relieved of, and
/// what its copies and fills touch. A fill of which the dump does not say that
/// is marked as not analysed.
pub(super) fn skeleton(dump: &mut Dump) -> (Trace, Vec<Operand>) {
    let mut trace = Trace::new(std::mem::take(&mut dump.name));
    let mut operands = Vec::new();
    for (at, raw) in std::mem::take(&mut dump.nodes).into_iter().enumerate() {
        let (from, to) = match &raw {
            DumpNode::Copy { from, to } => (*from, *to),
            DumpNode::Fill(to) => (None, *to),
            DumpNode::Kernel { .. } | DumpNode::Other(_) => (None, None),
        };
        for (range, written) in [(from, false), (to, true)] {
            operands.extend(range.map(|range| Operand {
                node: NodeId::at(at),
                range,
                written,
            }));
        }
        trace.nodes.push(node(raw));
    }
    let edges = std::mem::take(&mut dump.edges).into_iter();
    trace.edges = edges
        .map(|(from, to)| Edge::full(NodeId(from), NodeId(to)))
        .collect();
    (trace, operands)
}

fn node(node: DumpNode) -> Node {
    match node {
        DumpNode::Kernel {
            function,
            grid,
            block,
            shared_bytes,
            params,
        } => {
            let name = short_name(&function);
            let kernel = KernelNode {
                function,
                grid,
                block,
                shared_bytes,
                params: params
                    .into_iter()
                    .map(|param| Param {
                        name: String::new(),
                        offset: param.offset,
                        bytes: param.bytes,
                        pointer: None,
                        fields: Vec::new(),
                    })
                    .collect(),
                ..KernelNode::default()
            };
            Node::new(NodeKind::Kernel(kernel), name)
        }
        DumpNode::Copy { from, to } => {
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            let bytes = from.len().max(to.len());
            let copy = CopyNode::linear(to.start, from.start, bytes);
            Node::new(NodeKind::Memcpy(copy), "memcpy")
        }
        DumpNode::Fill(filled) => {
            let range = filled.unwrap_or_default();
            let fill = FillNode::linear(range.start, range.len(), 0);
            let mut node = Node::new(NodeKind::Memset(fill), "memset");
            // It writes something, and the dump does not say what.
            node.analysed = filled.is_some();
            node
        }
        DumpNode::Other(kind) => {
            let kind = other(kind);
            let name = kind.word();
            Node::new(kind, name)
        }
    }
}

/// The kinds of `CUgraphNodeType`.
fn other(kind: u32) -> NodeKind {
    match kind {
        3 => NodeKind::Host,
        4 => NodeKind::ChildGraph,
        5 => NodeKind::Empty,
        6 => NodeKind::EventWait,
        7 => NodeKind::EventRecord,
        8 => NodeKind::SemaphoreSignal,
        9 => NodeKind::SemaphoreWait,
        10 => NodeKind::MemAlloc(Default::default()),
        11 => NodeKind::MemFree(Default::default()),
        12 => NodeKind::BatchMemOp,
        13 => NodeKind::Conditional,
        other => NodeKind::Unknown(other),
    }
}
