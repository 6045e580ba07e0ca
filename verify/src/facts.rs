//! What the rules ask of all nodes, found out in one walk.
//!
//! Nodes carry names, launch lines and parameters. Most rules care for few of
//! them, and a walk over the table for each rule would cost more than the rule.

use std::collections::HashSet;

use streamweir_trace::{
    AllocNode, BlockSync, BufferKind, CopyNode, FillNode, FreeNode, Node, NodeId, NodeKind, Param,
    StreamId, Trace,
};

/// The nodes that some rule looks at, each list in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// By node: its stream.
    streams: Vec<Option<StreamId>>,
    /// Kernels whose blocks spin on each other (R14).
    pub(crate) spinning: Vec<NodeId>,
    /// Allocation and free nodes (R7, R8).
    pub(crate) memory: Vec<NodeId>,
    /// Kernels with a declared pointer to no known buffer (R3).
    pub(crate) unknown_pointers: Vec<NodeId>,
    /// Nodes whose accesses may not be known (R10).
    pub(crate) opaque: Vec<NodeId>,
}

impl Facts {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut facts = Self {
            streams: Vec::with_capacity(trace.nodes.len()),
            ..Self::default()
        };
        for (id, node) in (0..).map(NodeId).zip(&trace.nodes) {
            facts.streams.push(node.stream);
            if is_opaque(node) {
                facts.opaque.push(id);
            }
            match &node.kind {
                NodeKind::Kernel(kernel) => {
                    if kernel.sync == BlockSync::Spin {
                        facts.spinning.push(id);
                    }
                    let mut pointers = kernel.params.iter().flat_map(Param::pointers);
                    if pointers.any(|(_, pointer)| pointer.buffer.is_none()) {
                        facts.unknown_pointers.push(id);
                    }
                }
                NodeKind::MemAlloc(_) | NodeKind::MemFree(_) => facts.memory.push(id),
                _ => {}
            }
        }
        facts
    }

    /// The stream of a node, where it is known.
    #[inline]
    pub(crate) fn stream(&self, node: NodeId) -> Option<StreamId> {
        self.streams[node.index()]
    }

    /// The nodes whose effect on memory is not known (R10).
    pub(crate) fn unanalysed(&self, trace: &Trace) -> Vec<NodeId> {
        let opaque = &self.opaque;
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
}

/// Whether the effect of a node on memory may be unknown, from the node alone.
fn is_opaque(node: &Node) -> bool {
    let unknown = matches!(
        node.kind,
        NodeKind::MemAlloc(AllocNode { at: 0, .. })
            | NodeKind::MemFree(FreeNode { at: 0 })
            | NodeKind::Memcpy(CopyNode { to: 0, .. } | CopyNode { from: 0, .. })
            | NodeKind::Memset(FillNode { to: 0, .. })
            | NodeKind::Host
            | NodeKind::ChildGraph
            | NodeKind::BatchMemOp
            | NodeKind::Conditional
            | NodeKind::SemaphoreSignal
            | NodeKind::SemaphoreWait
            | NodeKind::Unknown(_)
    );
    !node.analysed || unknown
}
