//! Which free node belongs to which allocation node.
//!
//! A buffer of kind [`BufferKind::Graph`] says it outright. Nodes that no buffer
//! names are paired by address, in the order of the graph, since a driver may
//! hand out one address twice within a graph once it has been freed. An allocation
//! that does not say its address has that of the buffers that name it. A node
//! whose operands are not known and that no buffer names stays out of this: the
//! verdict lists it as not analysed.

use std::collections::{HashMap, VecDeque};

use streamweir_trace::{BufferId, BufferKind, ByteRange, NodeId, NodeKind, Trace};

use crate::facts::Facts;
use crate::graph::Graph;

/// Memory that an allocation node makes and nothing frees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) node: NodeId,
    pub(crate) buffer: Option<BufferId>,
    pub(crate) bytes: ByteRange,
}

/// A free node with nothing of its own to free.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StrayFree {
    /// The memory has a free node already.
    Twice {
        node: NodeId,
        first: NodeId,
        buffer: Option<BufferId>,
    },
    /// No node of this graph allocates the memory. It is that of `buffer` when
    /// one begins there.
    Foreign {
        node: NodeId,
        buffer: Option<BufferId>,
    },
}

/// Memory that an allocation node makes, and until which free node it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphLife {
    pub(crate) alloc: NodeId,
    pub(crate) free: Option<NodeId>,
    pub(crate) bytes: ByteRange,
}

/// The allocation and free nodes of one graph.
#[derive(Debug, Default)]
pub(crate) struct GraphMemory {
    /// The free node of an allocation node; empty when the graph has neither.
    free_of: Vec<Option<NodeId>>,
    /// The pairs that no buffer names.
    by_address: Vec<(NodeId, NodeId)>,
    /// What is allocated, where the address is known.
    lives: Vec<GraphLife>,
    unfreed: Vec<Held>,
    stray: Vec<StrayFree>,
}

impl GraphMemory {
    /// `trace` is the one that was given: memory that only the nodes show names
    /// nothing.
    pub(crate) fn new(trace: &Trace, graph: &Graph, facts: &Facts) -> Self {
        let named = ranges_by_alloc(trace);
        let mut allocs: Vec<(NodeId, ByteRange)> = Vec::new();
        let mut pieces: Vec<(NodeId, ByteRange)> = Vec::new();
        let mut frees: Vec<(NodeId, u64)> = Vec::new();
        let mut nodes = facts.memory.clone();
        nodes.sort_unstable_by_key(|&node| graph.position(node));
        for node in nodes {
            match &trace.node(node).kind {
                NodeKind::MemAlloc(alloc) if alloc.at == 0 => {
                    let named = named.get(&node).map_or(&[][..], Vec::as_slice);
                    pieces.extend(named.iter().map(|&bytes| (node, bytes)));
                    allocs.push((node, named.iter().copied().min().unwrap_or_default()));
                }
                NodeKind::MemAlloc(alloc) => {
                    let bytes = ByteRange::from_len(alloc.at, alloc.bytes).unwrap_or_default();
                    pieces.push((node, bytes));
                    allocs.push((node, bytes));
                }
                NodeKind::MemFree(free) => frees.push((node, free.at)),
                _ => {}
            }
        }
        if allocs.is_empty() && frees.is_empty() {
            return Self::default();
        }
        let mut pairs = Pairs::declared(trace);
        let by_address = pairs.by_address(&allocs, &frees);
        let pieces = pieces.iter().filter(|(_, bytes)| !bytes.is_empty());
        let lives = pieces.map(|&(alloc, bytes)| GraphLife {
            alloc,
            free: pairs.free_of[alloc.index()],
            bytes,
        });
        Self {
            lives: lives.collect(),
            by_address,
            unfreed: pairs.unfreed(trace, &allocs),
            stray: pairs.stray(trace, &frees),
            free_of: pairs.free_of,
        }
    }

    /// Whether the graph has no such node at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.free_of.is_empty()
    }

    /// The node that frees what `alloc` allocates.
    pub(crate) fn free_of(&self, alloc: NodeId) -> Option<NodeId> {
        self.free_of.get(alloc.index()).copied().flatten()
    }

    /// Each allocation node and the node that frees it.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let nodes = (0..).map(NodeId).zip(&self.free_of);
        nodes.filter_map(|(alloc, free)| Some((alloc, (*free)?)))
    }

    /// Those pairs that no buffer names.
    pub(crate) fn by_address(&self) -> &[(NodeId, NodeId)] {
        &self.by_address
    }

    /// The memory that allocation nodes make, where its address is known.
    pub(crate) fn lives(&self) -> &[GraphLife] {
        &self.lives
    }

    /// The allocations without a free node.
    pub(crate) fn unfreed(&self) -> &[Held] {
        &self.unfreed
    }

    /// The free nodes without an allocation.
    pub(crate) fn stray_frees(&self) -> &[StrayFree] {
        &self.stray
    }
}

/// The bytes of the buffers that name an allocation node, by that node.
fn ranges_by_alloc(trace: &Trace) -> HashMap<NodeId, Vec<ByteRange>> {
    let mut ranges: HashMap<NodeId, Vec<ByteRange>> = HashMap::new();
    for buffer in &trace.buffers {
        if let BufferKind::Graph { alloc, .. } = buffer.kind {
            ranges.entry(alloc).or_default().push(buffer.range);
        }
    }
    ranges
}

/// What belongs together, by node.
struct Pairs {
    /// The buffer that names an allocation node.
    buffer_of: Vec<Option<BufferId>>,
    /// The free node of an allocation node.
    free_of: Vec<Option<NodeId>>,
    /// Whether a free node is that of an allocation.
    taken: Vec<bool>,
    /// The free node and the buffer of what is freed, by first byte.
    freed: HashMap<u64, (NodeId, Option<BufferId>)>,
}

impl Pairs {
    /// The pairs that the buffers of `trace` name.
    fn declared(trace: &Trace) -> Self {
        let count = trace.nodes.len();
        let mut pairs = Self {
            buffer_of: vec![None; count],
            free_of: vec![None; count],
            taken: vec![false; count],
            freed: HashMap::new(),
        };
        for (at, buffer) in trace.buffers.iter().enumerate() {
            let BufferKind::Graph { alloc, free } = buffer.kind else {
                continue;
            };
            pairs.buffer_of[alloc.index()].get_or_insert(BufferId::at(at));
            // That one free node frees one allocation the form check has seen to.
            if let Some(free) = free {
                pairs.pair(alloc, free, buffer.range.start);
            }
        }
        pairs
    }

    /// Pairs the rest by address.
    fn by_address(
        &mut self,
        allocs: &[(NodeId, ByteRange)],
        frees: &[(NodeId, u64)],
    ) -> Vec<(NodeId, NodeId)> {
        let mut found = Vec::new();
        let mut open: HashMap<u64, VecDeque<NodeId>> = HashMap::new();
        for &(node, at) in frees {
            if at != 0 && !self.taken[node.index()] {
                open.entry(at).or_default().push_back(node);
            }
        }
        for &(alloc, bytes) in allocs {
            if self.free_of[alloc.index()].is_none()
                && let Some(free) = open.get_mut(&bytes.start).and_then(VecDeque::pop_front)
            {
                self.pair(alloc, free, bytes.start);
                found.push((alloc, free));
            }
        }
        found
    }

    fn pair(&mut self, alloc: NodeId, free: NodeId, start: u64) {
        self.free_of[alloc.index()] = Some(free);
        self.taken[free.index()] = true;
        let buffer = self.buffer_of[alloc.index()];
        self.freed.entry(start).or_insert((free, buffer));
    }

    fn unfreed(&self, trace: &Trace, allocs: &[(NodeId, ByteRange)]) -> Vec<Held> {
        let held = |&(node, bytes): &(NodeId, ByteRange)| {
            let buffer = self.buffer_of[node.index()];
            let known = buffer.is_some() || bytes.start != 0;
            (known && self.free_of[node.index()].is_none()).then(|| Held {
                node,
                buffer,
                bytes: buffer.map_or(bytes, |id| trace.buffer(id).range),
            })
        };
        allocs.iter().filter_map(held).collect()
    }

    fn stray(&self, trace: &Trace, frees: &[(NodeId, u64)]) -> Vec<StrayFree> {
        let open = frees
            .iter()
            .filter(|(node, at)| *at != 0 && !self.taken[node.index()]);
        let mut owners: Option<HashMap<u64, BufferId>> = None;
        open.map(|&(node, at)| {
            if let Some(&(first, buffer)) = self.freed.get(&at) {
                return StrayFree::Twice {
                    node,
                    first,
                    buffer,
                };
            }
            let owners = owners.get_or_insert_with(|| {
                let starts = trace.buffers.iter().enumerate();
                starts
                    .map(|(at, buffer)| (buffer.range.start, BufferId::at(at)))
                    .collect()
            });
            let buffer = owners.get(&at).copied();
            StrayFree::Foreign { node, buffer }
        })
        .collect()
    }
}
