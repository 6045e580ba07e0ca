//! Which free node gives back what an allocation node of the graph makes.

use std::collections::{BTreeMap, HashSet};

use streamweir_trace::{BufferKind, ByteRange, NodeId, NodeKind, Phase, Trace};

use super::super::form::Certificate;
use super::order::{Checked, Order, nodes, rule};

/// The memory that the graph allocates itself.
pub(super) struct GraphMemory {
    /// The free node of an allocation node.
    pub(super) free_of: BTreeMap<NodeId, NodeId>,
    /// The free nodes that free something.
    pub(super) freeing: HashSet<NodeId>,
    /// The allocation and free nodes that a buffer names.
    pub(super) named: HashSet<NodeId>,
    /// What the allocation nodes allocate, where they say it, or the buffers that
    /// name them.
    pub(super) made: Vec<(NodeId, ByteRange)>,
}

impl GraphMemory {
    /// R8, of free nodes: each frees one allocation, after it.
    pub(super) fn new(trace: &Trace, proof: &Certificate, order: &Order) -> Checked<Self> {
        let (mut free_of, mut named) = (BTreeMap::new(), HashSet::new());
        let made = nodes(trace).filter_map(|(id, node)| match &node.kind {
            NodeKind::MemAlloc(alloc) if alloc.at != 0 => {
                Some((id, ByteRange::from_len(alloc.at, alloc.bytes)?))
            }
            _ => None,
        });
        let mut made: Vec<(NodeId, ByteRange)> = made.collect();
        for buffer in &trace.buffers {
            if let BufferKind::Graph { alloc, free } = buffer.kind {
                named.insert(alloc);
                if matches!(&trace.node(alloc).kind, NodeKind::MemAlloc(alloc) if alloc.at == 0) {
                    made.push((alloc, buffer.range));
                }
                if let Some(free) = free {
                    named.insert(free);
                    free_of.insert(alloc, free);
                }
            }
        }
        for &(alloc, free) in &proof.freed {
            let kind = |id: NodeId| trace.nodes.get(id.index()).map(|node| &node.kind);
            let alike = match (kind(alloc), kind(free)) {
                (Some(NodeKind::MemAlloc(_)), Some(NodeKind::MemFree(free))) => {
                    let own = made.iter().filter(|(id, _)| *id == alloc);
                    let first = own.map(|(_, bytes)| bytes.start).min();
                    free.at != 0 && first == Some(free.at)
                }
                _ => false,
            };
            rule("R8", free, alike && free_of.insert(alloc, free).is_none())?;
        }
        let mut freeing = HashSet::new();
        for (&alloc, &free) in &free_of {
            let follows = order.before(alloc, free, Phase::BeforeWait);
            rule("R8", free, follows && freeing.insert(free))?;
        }
        Ok(Self {
            made,
            free_of,
            freeing,
            named,
        })
    }
}
