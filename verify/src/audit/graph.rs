//! The part of a dump that needs no interpretation: nodes, edges, and what copies
//! and fills touch.

use streamweir_trace::dump::{CopyEnd, Dump, DumpNode};
use streamweir_trace::{
    AccessMode, ByteRange, CopyNode, Count, Edge, FillNode, KernelNode, Node, NodeId, NodeKind,
    Param, Trace,
};

use crate::audit::demangle::short_name;

/// The memory that a copy or a fill names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) node: NodeId,
    pub(super) range: ByteRange,
    pub(super) written: bool,
    pub(super) side: Side,
}

/// Whose memory an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Device,
    Host,
    /// The dump does not tell.
    Either,
}

impl Operand {
    pub(super) fn mode(&self) -> AccessMode {
        match self.written {
            true => AccessMode::Write,
            false => AccessMode::Read,
        }
    }
}

/// What a dump says without interpretation.
pub(super) struct Skeleton {
    /// The nodes and the edges. A fill of which the dump does not say what it
    /// writes, and a kernel whose parameters it does not hold, are marked as not
    /// analysed.
    pub(super) trace: Trace,
    /// What copies and fills touch.
    pub(super) operands: Vec<Operand>,
    /// By node: whether it is a kernel whose parameters are not known.
    pub(super) unknown: Vec<bool>,
    /// How many ends of copies have no known place.
    pub(super) placeless: u64,
}

impl Skeleton {
    /// The part of `dump` that it takes out of it.
    pub(super) fn of(dump: &mut Dump) -> Self {
        let mut found = Self {
            trace: Trace::new(std::mem::take(&mut dump.name)),
            operands: Vec::new(),
            unknown: Vec::with_capacity(dump.nodes.len()),
            placeless: 0,
        };
        for (at, raw) in std::mem::take(&mut dump.nodes).into_iter().enumerate() {
            let node = NodeId::at(at);
            let mut operand = |range, written, side| {
                found.operands.push(Operand {
                    node,
                    range,
                    written,
                    side,
                });
            };
            match &raw {
                DumpNode::Copy { from, to } => {
                    for (end, written) in [(from, false), (to, true)] {
                        match *end {
                            CopyEnd::Device(range) => operand(range, written, Side::Device),
                            CopyEnd::Host(range) => operand(range, written, Side::Host),
                            CopyEnd::Unified(range) => operand(range, written, Side::Either),
                            CopyEnd::Unknown(_) => found.placeless += 1,
                        }
                    }
                }
                DumpNode::Fill(Some(range)) => operand(*range, true, Side::Device),
                DumpNode::Fill(None) | DumpNode::Kernel { .. } | DumpNode::Other(_) => {}
            }
            found
                .unknown
                .push(matches!(raw, DumpNode::Kernel { params: None, .. }));
            found.trace.nodes.push(self::node(raw));
        }
        let edges = std::mem::take(&mut dump.edges).into_iter();
        found.trace.edges = edges
            .map(|(from, to)| Edge::full(NodeId(from), NodeId(to)))
            .collect();
        found
    }

    /// What is not known and is said with every verdict.
    pub(super) fn assumptions(&self, dump: &Dump) -> Vec<String> {
        let mut lines = Vec::new();
        let unknown = self.unknown.iter().filter(|&&unknown| unknown).count();
        if unknown > 0 {
            lines.push(format!(
                "the parameters of {} are not known: addresses that they compute or read from memory are not followed",
                Count::of(unknown as u64, "kernel")
            ));
        }
        if self.placeless > 0 {
            let ends = self.placeless;
            lines.push(format!(
                "{} of copies lie in host memory or arrays whose place the dump does not hold: what else touches those bytes is not checked",
                Count::of(ends, "end")
            ));
        }
        if dump.events.is_none() {
            lines.push("the dump does not say what the allocator did during the capture: whether memory was given out twice is not checked".to_owned());
        }
        if dump.segments.is_none() {
            lines.push("the dump does not say what memory the allocator holds: words of parameters that no operator explains are not followed".to_owned());
        }
        lines
    }
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
            let known = params.is_some();
            let name = short_name(&function);
            let kernel = KernelNode {
                function,
                grid,
                block,
                shared_bytes,
                cluster: [0; 3],
                params: params
                    .into_iter()
                    .flatten()
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
            let mut node = Node::new(NodeKind::Kernel(kernel), name);
            node.analysed = known;
            node
        }
        DumpNode::Copy { from, to } => {
            let [from, to] = [from, to].map(|end| end.range().unwrap_or_default());
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
