//! Happens-before, by chain clocks.
//!
//! # What is guaranteed
//! [`Reach::ends_before`] answers "has node `u` ended before this point of node
//! `v`?" in constant time, and says yes only if the edges force it.
//!
//! # How
//! The nodes are covered by chains. In a chain each node ends before the next
//! one ends, so "which nodes of this chain have ended by now" is a prefix, and
//! one number says it. A node carries one such number per chain: its clock.
//! Building all clocks costs O((n + e) * chains).
//!
//! A captured stream ought to be a chain, but the verifier does not take that
//! from the trace: a node joins the chain of its stream only when its own clock
//! contains the tail of that chain. Otherwise, and for nodes on no known
//! stream, it joins any chain whose tail it follows, or opens a new one.
//!
//! # The three times of a node
//! Programmatic dependent launch (PDL) lets a node start while its predecessor
//! still runs, and wait for it later. A node has a start, a return of its wait
//! and an end, in this order:
//!
//! | edge `u -> v` | gives |
//! | --- | --- |
//! | full | end(u) before start(v) |
//! | programmatic, `v` waits on all paths | start(u) before start(v); end(u) before wait(v) |
//! | programmatic, nothing declared of `v` | nothing |
//!
//! `v` starts once all of `u` has triggered, and the trigger may be the first
//! thing that `u` does: hence start(u), not wait(u), in the second line.

use streamweir_trace::{EdgeKind, NodeId, PdlWait, Phase, Trace};

use crate::VerifyError;
use crate::graph::Graph;

/// The most clock entries that are built: 1 GiB of them. Graphs of a million
/// nodes on eight streams need a thirtieth of it.
const MAX_ENTRIES: usize = 1 << 28;

/// The happens-before relation of one graph.
#[derive(Debug)]
pub(crate) struct Reach {
    chains: Vec<Vec<NodeId>>,
    /// Chain of a node, and its index in the chain.
    place: Vec<(u32, u32)>,
    /// Where the clock of a node begins and how many chains it covers. Chains
    /// opened later hold nothing that happens before the node.
    extent: Vec<(u32, u32)>,
    /// How many nodes of each chain have ended before the node starts.
    start: Vec<u32>,
    /// The same before its wait returns; empty when no edge is programmatic,
    /// since the two are equal then.
    wait: Vec<u32>,
}

impl Reach {
    /// The relation of `trace`, whose graph is `graph`.
    pub(crate) fn new(trace: &Trace, graph: &Graph) -> Result<Self, VerifyError> {
        let nodes = trace.nodes.len();
        let pdl = trace
            .edges
            .iter()
            .any(|edge| edge.kind == EdgeKind::Programmatic);
        let mut reach = Self {
            chains: Vec::new(),
            place: vec![(0, 0); nodes],
            extent: vec![(0, 0); nodes],
            start: Vec::with_capacity(nodes * trace.streams.len().clamp(1, 8)),
            wait: Vec::new(),
        };
        let mut stream_chain: Vec<Option<u32>> = vec![None; trace.streams.len()];
        for &node in graph.order() {
            let base = reach.start.len();
            let width = reach.chains.len();
            if base + width > MAX_ENTRIES {
                return Err(VerifyError::TooWide {
                    nodes,
                    chains: width,
                });
            }
            reach.extent[node.index()] = (base as u32, width as u32);
            reach.start.resize(base + width, 0);
            if pdl {
                reach.wait.resize(base + width, 0);
            }
            let waits = trace.node(node).pdl == PdlWait::OnAllPaths;
            for &(pred, kind) in graph.preds(node) {
                match kind {
                    EdgeKind::Full => reach.follow(base, pred, true),
                    EdgeKind::Programmatic if waits => reach.follow(base, pred, false),
                    EdgeKind::Programmatic => {}
                }
            }
            let stream = trace.node(node).stream;
            let chain = reach.chain_for(node, stream.map(|s| stream_chain[s.index()]));
            if let Some(stream) = stream {
                stream_chain[stream.index()].get_or_insert(chain);
            }
            let members = &mut reach.chains[chain as usize];
            reach.place[node.index()] = (chain, members.len() as u32);
            members.push(node);
        }
        Ok(reach)
    }

    /// Puts what happened before or in `pred` into the clock at `base`: by its
    /// start along a full edge, by its wait along a programmatic one.
    fn follow(&mut self, base: usize, pred: NodeId, full: bool) {
        let (from, width) = self.extent[pred.index()];
        let (chain, index) = self.place[pred.index()];
        let pdl = !self.wait.is_empty();
        for c in 0..width as usize {
            let started = self.start[from as usize + c];
            let ended = if pdl {
                self.wait[from as usize + c]
            } else {
                started
            };
            raise(
                &mut self.start[base + c],
                if full { ended } else { started },
            );
            if pdl {
                raise(&mut self.wait[base + c], ended);
            }
        }
        let own = base + chain as usize;
        if full {
            raise(&mut self.start[own], index + 1);
        }
        if pdl {
            raise(&mut self.wait[own], index + 1);
        }
    }

    /// The chain that `node` goes to. `stream` is `None` for a node on no known
    /// stream, `Some(None)` for the first node of a stream.
    fn chain_for(&mut self, node: NodeId, stream: Option<Option<u32>>) -> u32 {
        let follows_tail = |chain: u32| {
            self.before(node, Phase::AfterWait, chain) as usize == self.chains[chain as usize].len()
        };
        let found = match stream {
            Some(None) => None,
            Some(Some(own)) if follows_tail(own) => Some(own),
            _ => (0..self.extent[node.index()].1).find(|&chain| follows_tail(chain)),
        };
        found.unwrap_or_else(|| {
            self.chains.push(Vec::new());
            self.chains.len() as u32 - 1
        })
    }

    /// How many nodes of `chain` have ended before this point of `node`.
    fn before(&self, node: NodeId, phase: Phase, chain: u32) -> u32 {
        let (base, width) = self.extent[node.index()];
        if chain >= width {
            return 0;
        }
        let clocks = match phase {
            Phase::AfterWait if !self.wait.is_empty() => &self.wait,
            _ => &self.start,
        };
        clocks[(base + chain) as usize]
    }

    /// Whether `first` has ended before `then` comes to accesses of this phase.
    /// False for a node and itself.
    pub(crate) fn ends_before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (chain, index) = self.place[first.index()];
        index < self.before(then, phase, chain)
    }

    /// Whether some edge is programmatic, so that the start and the wait of a
    /// node may differ.
    pub(crate) fn has_pdl(&self) -> bool {
        !self.wait.is_empty()
    }

    /// The chain of `node` and its index there.
    pub(crate) fn place(&self, node: NodeId) -> (u32, u32) {
        self.place[node.index()]
    }

    /// The chains, in order of opening.
    pub(crate) fn chains(&self) -> &[Vec<NodeId>] {
        &self.chains
    }
}

fn raise(entry: &mut u32, to: u32) {
    *entry = (*entry).max(to);
}
