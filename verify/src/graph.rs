//! The graph of a trace as the verifier walks it: predecessors and one
//! topological order.
//!
//! The order is the record order wherever the edges allow it, so that reports
//! name the earlier recorded node of a pair first, and it is the same in every
//! run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use streamweir_trace::{Edge, EdgeKind, NodeId};

/// Predecessors and a topological order.
#[derive(Debug)]
pub(crate) struct Graph {
    order: Vec<NodeId>,
    position: Vec<u32>,
    first_pred: Vec<u32>,
    preds: Vec<(NodeId, EdgeKind)>,
}

impl Graph {
    /// The graph of `edges` over `nodes` nodes, or the nodes of one cycle, each
    /// followed by the next and the last by the first.
    pub(crate) fn new(nodes: usize, edges: &[Edge]) -> Result<Self, Vec<NodeId>> {
        let (first_pred, preds) = group(nodes, edges, |edge| (edge.to, (edge.from, edge.kind)));
        let order = if edges.iter().all(|edge| edge.from < edge.to) {
            (0..nodes).map(NodeId::at).collect()
        } else {
            topological(nodes, edges, &first_pred)
        };
        if order.len() < nodes {
            return Err(cycle(nodes, &order, &first_pred, &preds));
        }
        let mut position = vec![0; nodes];
        for (at, node) in (0..).zip(&order) {
            position[node.index()] = at;
        }
        Ok(Self {
            order,
            position,
            first_pred,
            preds,
        })
    }

    /// All nodes, each after its predecessors.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The place of `node` in [`order`](Self::order).
    pub(crate) fn position(&self, node: NodeId) -> u32 {
        self.position[node.index()]
    }

    /// The nodes with an edge into `node`.
    pub(crate) fn preds(&self, node: NodeId) -> &[(NodeId, EdgeKind)] {
        slice(&self.first_pred, &self.preds, node)
    }

    /// For each node, whether a path of edges of any kind leads from it to one
    /// of `ends`, or it is one of them. This is what the driver asks when a
    /// capture ends; memory order is [`Reach`](crate::reach::Reach)'s business.
    pub(crate) fn leads_to(&self, ends: &[NodeId]) -> Vec<bool> {
        let mut leads = vec![false; self.order.len()];
        for end in ends {
            leads[end.index()] = true;
        }
        // What a node leads to stands behind it.
        for &node in self.order.iter().rev() {
            if leads[node.index()] {
                for &(pred, _) in self.preds(node) {
                    leads[pred.index()] = true;
                }
            }
        }
        leads
    }
}

/// `edges` grouped by the node that `entry` names: where each group starts, and
/// the groups one after the other.
fn group<T: Copy + Default>(
    nodes: usize,
    edges: &[Edge],
    entry: impl Fn(&Edge) -> (NodeId, T),
) -> (Vec<u32>, Vec<T>) {
    let mut first = vec![0_u32; nodes + 1];
    for edge in edges {
        first[entry(edge).0.index() + 1] += 1;
    }
    for at in 1..=nodes {
        first[at] += first[at - 1];
    }
    let mut next = first.clone();
    let mut entries = vec![T::default(); edges.len()];
    for edge in edges {
        let (node, value) = entry(edge);
        entries[next[node.index()] as usize] = value;
        next[node.index()] += 1;
    }
    (first, entries)
}

fn slice<'a, T>(first: &[u32], entries: &'a [T], node: NodeId) -> &'a [T] {
    let at = node.index();
    &entries[first[at] as usize..first[at + 1] as usize]
}

/// Kahn's algorithm, smallest id first; short of nodes when there is a cycle.
fn topological(nodes: usize, edges: &[Edge], first_pred: &[u32]) -> Vec<NodeId> {
    let (first_succ, succs) = group(nodes, edges, |edge| (edge.from, edge.to));
    let mut waiting: Vec<u32> = first_pred.windows(2).map(|w| w[1] - w[0]).collect();
    let mut ready: BinaryHeap<Reverse<NodeId>> = (0..nodes)
        .filter(|&at| waiting[at] == 0)
        .map(|at| Reverse(NodeId::at(at)))
        .collect();
    let mut order = Vec::with_capacity(nodes);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &succ in slice(&first_succ, &succs, node) {
            waiting[succ.index()] -= 1;
            if waiting[succ.index()] == 0 {
                ready.push(Reverse(succ));
            }
        }
    }
    order
}

/// One cycle among the nodes that `done` lacks. Each of them has a predecessor
/// that `done` lacks too, so walking back must come round.
fn cycle(
    nodes: usize,
    done: &[NodeId],
    first_pred: &[u32],
    preds: &[(NodeId, EdgeKind)],
) -> Vec<NodeId> {
    let mut stuck = vec![true; nodes];
    for node in done {
        stuck[node.index()] = false;
    }
    let mut step = vec![usize::MAX; nodes];
    let mut walk: Vec<NodeId> = Vec::new();
    let mut here = (0..nodes).find(|&at| stuck[at]).map(NodeId::at);
    while let Some(node) = here {
        if step[node.index()] != usize::MAX {
            let mut cycle = walk.split_off(step[node.index()]);
            cycle.reverse();
            return cycle;
        }
        step[node.index()] = walk.len();
        walk.push(node);
        here = slice(first_pred, preds, node)
            .iter()
            .map(|&(pred, _)| pred)
            .find(|pred| stuck[pred.index()]);
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(u32, u32)]) -> Vec<Edge> {
        pairs
            .iter()
            .map(|&(from, to)| Edge::full(NodeId(from), NodeId(to)))
            .collect()
    }

    #[test]
    fn the_record_order_is_kept_where_the_edges_allow_it() {
        let graph = Graph::new(4, &edges(&[(2, 1), (0, 2)])).unwrap();
        assert_eq!(graph.order(), [0, 2, 1, 3].map(NodeId));
        assert_eq!(graph.position(NodeId(1)), 2);
    }

    #[test]
    fn a_cycle_is_named_in_edge_order_without_what_hangs_on_it() {
        let found = Graph::new(6, &edges(&[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (4, 5)]));
        let cycle = found.unwrap_err();
        assert_eq!(cycle.len(), 3);
        for (at, &node) in cycle.iter().enumerate() {
            let next = cycle[(at + 1) % 3];
            assert!(
                [(1, 2), (2, 3), (3, 1)].contains(&(node.0, next.0)),
                "{cycle:?}"
            );
        }
    }

    #[test]
    fn leads_to_follows_edges_backwards() {
        let graph = Graph::new(4, &edges(&[(0, 1), (2, 3)])).unwrap();
        assert_eq!(graph.leads_to(&[NodeId(1)]), [true, true, false, false]);
    }
}
