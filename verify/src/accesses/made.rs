//! Memory that the graph allocates and no buffer names.

use std::collections::HashMap;

use streamweir_trace::{
    Buffer, BufferId, BufferKind, ByteRange, NodeId, NodeKind, RangeSet, Trace,
};

use super::known::{Known, KnownMemory, Life, Meaning, Memory};

/// What the allocation nodes of a trace make, as far as no buffer names it, as
/// buffers: they stand behind those of the trace, in the order of the nodes and of
/// the addresses. They are to words and operands what other buffers are, where none
/// of those is there.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) buffers: Vec<Buffer>,
    memory: KnownMemory,
}

impl Made {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut buffers = Vec::new();
        let allocs = trace.nodes.iter().enumerate();
        let mut allocs = allocs
            .filter_map(|(at, node)| match &node.kind {
                NodeKind::MemAlloc(made) if made.at != 0 => {
                    Some((NodeId::at(at), ByteRange::from_len(made.at, made.bytes)?))
                }
                _ => None,
            })
            .peekable();
        if allocs.peek().is_some() {
            let named = Named::of(trace);
            for (alloc, bytes) in allocs {
                buffers.extend(named.gaps(alloc, bytes).map(|range| Buffer {
                    name: format!("memory of {alloc}"),
                    kind: BufferKind::Graph { alloc, free: None },
                    range,
                    carried: false,
                }));
            }
        }
        let first = trace.buffers.len();
        let pieces = buffers.iter().enumerate().map(|(at, buffer)| {
            let from = match buffer.kind {
                BufferKind::Graph { alloc, .. } => alloc,
                _ => NodeId(0),
            };
            Memory {
                range: buffer.range,
                name: buffer.name.clone(),
                known: Known::Buffer {
                    id: BufferId::at(first + at),
                    bytes: ByteRange::new(0, buffer.range.len()),
                    life: Life { from, until: None },
                },
            }
        });
        let memory = KnownMemory::new(pieces);
        Self { buffers, memory }
    }

    /// What the byte at `address` was when `node` was recorded: a buffer of the trace
    /// that was there, else memory of the graph, else what had been there.
    pub(super) fn at<'m>(
        &'m self,
        known: &'m KnownMemory,
        address: u64,
        node: NodeId,
    ) -> Option<Meaning<'m>> {
        match known.at(address, node) {
            Some(Meaning::Buffer(id, piece)) => Some(Meaning::Buffer(id, piece)),
            gone => self.memory.at(address, node).or(gone),
        }
    }
}

/// The bytes of buffers that name an allocation, or are there whatever the graph
/// allocates.
struct Named {
    standing: RangeSet,
    by_alloc: HashMap<NodeId, RangeSet>,
}

impl Named {
    fn of(trace: &Trace) -> Self {
        let mut standing = Vec::new();
        let mut by_alloc: HashMap<NodeId, Vec<ByteRange>> = HashMap::new();
        for buffer in &trace.buffers {
            match buffer.kind {
                BufferKind::Graph { alloc, .. } => {
                    by_alloc.entry(alloc).or_default().push(buffer.range);
                }
                BufferKind::Scratch { .. } => {}
                BufferKind::Workspace { .. }
                | BufferKind::Persistent
                | BufferKind::Foreign { .. } => standing.push(buffer.range),
            }
        }
        let by_alloc = by_alloc.into_iter();
        Self {
            standing: standing.into_iter().collect(),
            by_alloc: by_alloc
                .map(|(alloc, ranges)| (alloc, ranges.into_iter().collect()))
                .collect(),
        }
    }

    /// The parts of an allocation that none of them holds.
    fn gaps(&self, alloc: NodeId, bytes: ByteRange) -> impl Iterator<Item = ByteRange> {
        let own = self.by_alloc.get(&alloc);
        let gaps = own.map_or_else(|| vec![bytes], |own| own.gaps(bytes).collect());
        gaps.into_iter().flat_map(|gap| self.standing.gaps(gap))
    }
}
