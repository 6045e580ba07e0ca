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
//! stream, it joins the chain of a predecessor that is the tail of its chain
//! still, of several the one with the fewest other successors to come; or, of the chains whose tails it follows at all, the one with
//! the latest tail; or it opens a new one. So a line of work stays on one chain,
//! and a fork takes up the chain that the last join left.
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

use std::cmp::Reverse;

use streamweir_trace::{EdgeKind, NodeId, PdlWait, Phase, Trace};

use crate::error::VerifyError;
use crate::facts::Facts;
use crate::graph::Graph;

/// The most clock entries that are built: 256 MiB of them, twice as much where
/// edges are programmatic. Graphs of a million nodes on eight streams need an
/// eighth of it, ten thousand nodes without an edge three quarters.
const MAX_ENTRIES: usize = 1 << 26;

/// The most chains, so that 16 bits can number them. The entries run out first:
/// every chain is in the clocks of all nodes behind its first.
const MAX_CHAINS: usize = 1 << 16;

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
    pdl: bool,
}

impl Reach {
    /// The relation of `trace`, whose graph is `graph`.
    pub(crate) fn new(trace: &Trace, graph: &Graph, facts: &Facts) -> Result<Self, VerifyError> {
        let nodes = trace.nodes.len();
        let mut reach = Self {
            chains: Vec::new(),
            place: vec![(0, 0); nodes],
            extent: vec![(0, 0); nodes],
            start: Vec::with_capacity(nodes * trace.streams.len().clamp(1, 8)),
            wait: Vec::new(),
            pdl: trace
                .edges
                .iter()
                .any(|edge| edge.kind == EdgeKind::Programmatic),
        };
        // How many of its successors each node still waits for.
        let mut ahead = vec![0_u32; nodes];
        for edge in &trace.edges {
            ahead[edge.from.index()] += 1;
        }
        // The chain that the last node of each stream went to.
        let mut stream_chain: Vec<Option<u32>> = vec![None; trace.streams.len()];
        for &node in graph.order() {
            let base = reach.start.len();
            let width = reach.chains.len();
            if base + width > MAX_ENTRIES || width >= MAX_CHAINS {
                return Err(VerifyError::TooWide {
                    nodes,
                    chains: width,
                });
            }
            reach.extent[node.index()] = (base as u32, width as u32);
            reach.start.resize(base + width, 0);
            if reach.pdl {
                reach.wait.resize(base + width, 0);
            }
            // Nodes are large, and this asks of them what was found out already.
            let stream = facts.stream(node);
            let pdl = match reach.pdl {
                true => trace.node(node).pdl,
                false => PdlWait::None,
            };
            for &(pred, kind) in graph.preds(node) {
                ahead[pred.index()] -= 1;
                match kind {
                    EdgeKind::Full => reach.follow(base, pred, true),
                    EdgeKind::Programmatic if pdl == PdlWait::OnAllPaths => {
                        reach.follow(base, pred, false);
                    }
                    EdgeKind::Programmatic => {}
                }
            }
            let of_stream = stream.map(|stream| stream_chain[stream.index()]);
            let chain = reach.chain_for(node, of_stream, graph, &ahead);
            if let Some(stream) = stream {
                stream_chain[stream.index()] = Some(chain);
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
        let from = from as usize..(from + width) as usize;
        let own = chain as usize;
        let (before, start) = self.start.split_at_mut(base);
        if !self.pdl {
            raise_all(start, &before[from]);
            raise(&mut start[own], index + 1);
            return;
        }
        let (waited, wait) = self.wait.split_at_mut(base);
        let ended = &waited[from.clone()];
        raise_all(start, if full { ended } else { &before[from] });
        raise_all(wait, ended);
        raise(&mut wait[own], index + 1);
        if full {
            raise(&mut start[own], index + 1);
        }
    }

    /// The chain that `node` goes to. `of_stream` is `None` for a node on no
    /// known stream, `Some(None)` for the first node of a stream. `ahead` says how
    /// many successors of a node are still to come.
    fn chain_for(
        &mut self,
        node: NodeId,
        of_stream: Option<Option<u32>>,
        graph: &Graph,
        ahead: &[u32],
    ) -> u32 {
        let clock = self.clock(node, Phase::AfterWait);
        let tail = |chain: u32| {
            let members = &self.chains[chain as usize];
            let follows = clock.get(chain as usize).copied() == Some(members.len() as u32);
            let last = *members.last()?;
            follows.then(|| (graph.position(last), chain))
        };
        let found = match of_stream {
            Some(None) => None,
            Some(Some(own)) if tail(own).is_some() => Some(own),
            _ => {
                // A predecessor that nothing else will follow loses nothing.
                let of_preds = graph.preds(node).iter().filter_map(|&(pred, _)| {
                    let (position, chain) = tail(self.place[pred.index()].0)?;
                    Some((Reverse(ahead[pred.index()]), position, chain))
                });
                let others = || (0..clock.len() as u32).filter_map(tail).max();
                let of_pred = of_preds.max().map(|(.., chain)| chain);
                of_pred.or_else(|| others().map(|(_, chain)| chain))
            }
        };
        found.unwrap_or_else(|| {
            self.chains.push(Vec::new());
            self.chains.len() as u32 - 1
        })
    }

    /// The clock of this point of `node`: for each chain, how many of its nodes
    /// have ended; chains beyond its length have not begun.
    #[inline]
    pub(crate) fn clock(&self, node: NodeId, phase: Phase) -> &[u32] {
        let (base, width) = self.extent[node.index()];
        let clocks = match phase {
            Phase::AfterWait if self.pdl => &self.wait,
            _ => &self.start,
        };
        &clocks[base as usize..(base + width) as usize]
    }

    /// Whether `first` has ended before `then` comes to accesses of this phase.
    /// False for a node and itself.
    #[inline]
    pub(crate) fn ends_before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (chain, index) = self.place[first.index()];
        let ended = self.clock(then, phase).get(chain as usize);
        ended.is_some_and(|&ended| index < ended)
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

fn raise_all(entries: &mut [u32], to: &[u32]) {
    for (entry, &to) in entries.iter_mut().zip(to) {
        raise(entry, to);
    }
}
