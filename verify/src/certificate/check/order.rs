//! What happens before what, and how a refusal is put.

use streamweir_trace::{EdgeKind, Node, NodeId, PdlWait, Phase, Trace};

use super::super::error::CertificateError as Refusal;

pub(super) type Checked<T = ()> = Result<T, Refusal>;

pub(super) fn demand(holds: bool, otherwise: Refusal) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Refuses unless what `rule` asks of `node` holds.
pub(super) fn rule(rule: &'static str, node: impl Into<Option<NodeId>>, holds: bool) -> Checked {
    let node = node.into();
    demand(holds, Refusal::NotEstablished { rule, node })
}

pub(super) fn nodes(trace: &Trace) -> impl Iterator<Item = (NodeId, &Node)> {
    (0..).map(NodeId).zip(&trace.nodes)
}

/// The most numbers in all clocks at the end of nodes, and in all at their starts.
const MOST_ENTRIES: usize = 1 << 27;

/// The order of the graph.
pub(super) struct Order {
    pub(super) nodes: Vec<Placed>,
}

/// A node in the order.
#[derive(Clone, Default)]
pub(super) struct Placed {
    /// Its place in the sequence; none while it has not been named.
    pub(super) at: Option<usize>,
    chain: usize,
    /// How many nodes of its chain have ended once it has.
    number: u32,
    /// For each chain, how many of its nodes have ended when this one starts,
    /// and when it ends.
    at_start: Vec<u32>,
    at_end: Vec<u32>,
}

impl Order {
    pub(super) fn new(trace: &Trace, sequence: &[(NodeId, u32)]) -> Checked<Self> {
        let count = trace.nodes.len();
        demand(sequence.len() == count, Refusal::Misstated("order"))?;
        let mut nodes = vec![Placed::default(); count];
        let mut lengths = Vec::new();
        let mut entries = 0;
        let mut edges = trace.edges.clone();
        edges.sort_by_key(|edge| edge.to);
        for (at, &(node, chain)) in sequence.iter().enumerate() {
            let chain = chain as usize;
            let old = nodes.get(node.index());
            let new = old.is_some_and(|old| old.at.is_none());
            demand(new, Refusal::Order(node))?;
            // Chains are numbered as they begin, and a clock has those that have. No
            // certificate may ask for more than 1 GiB of clocks.
            demand(chain <= lengths.len(), Refusal::Order(node))?;
            lengths.resize(lengths.len().max(chain + 1), 0);
            let width = lengths.len();
            entries += width;
            demand(entries <= MOST_ENTRIES, Refusal::TooWide(width))?;
            let (mut at_start, mut at_end) = (vec![0; width], vec![0; width]);
            let first = edges.partition_point(|edge| edge.to < node);
            for edge in edges[first..].iter().take_while(|edge| edge.to == node) {
                let before = &nodes[edge.from.index()];
                demand(before.at.is_some(), Refusal::Order(node))?;
                match edge.kind {
                    EdgeKind::Full => {
                        raise(&mut at_start, &before.at_end);
                        raise(&mut at_end, &before.at_end);
                    }
                    // It may start once the other has started, and its wait
                    // returns when the other has ended.
                    EdgeKind::Programmatic if trace.node(node).pdl == PdlWait::OnAllPaths => {
                        raise(&mut at_start, &before.at_start);
                        raise(&mut at_end, &before.at_end);
                    }
                    // Without a declared wait the edge orders nothing.
                    EdgeKind::Programmatic => {}
                }
            }
            // A chain is one if this node ends after all that stand before it.
            demand(at_end[chain] == lengths[chain], Refusal::Order(node))?;
            lengths[chain] += 1;
            at_end[chain] = lengths[chain];
            nodes[node.index()] = Placed {
                at: Some(at),
                chain,
                number: lengths[chain],
                at_start,
                at_end,
            };
        }
        Ok(Self { nodes })
    }

    /// Whether `first` has ended when `then`, another node, comes to this phase.
    pub(super) fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let Placed { chain, number, .. } = self.nodes[first.index()];
        let then_clocks = &self.nodes[then.index()];
        let ended = match phase {
            Phase::BeforeWait => &then_clocks.at_start,
            Phase::AfterWait => &then_clocks.at_end,
        };
        first != then && ended.get(chain).is_some_and(|&ended| number <= ended)
    }
}

fn raise(clock: &mut [u32], to: &[u32]) {
    for (entry, &to) in clock.iter_mut().zip(to) {
        *entry = (*entry).max(to);
    }
}
