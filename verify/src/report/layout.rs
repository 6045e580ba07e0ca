//! Where a picture of a trace puts its nodes: lanes and columns.
//!
//! # What is guaranteed
//! - Every node has one lane and one column, and no two nodes have both in
//!   common.
//! - Along an edge the column grows. So all edges point to the right, and the
//!   column is the longest way from a start of the graph as far as lanes allow.
//! - A captured stream is a lane, whether nodes were recorded on it or not.
//!   Nodes on no known stream go to lanes of their own in which each node
//!   follows the one on its left.
//!
//! A picture is no proof: two nodes in different columns may still run at the
//! same time. What orders them is the edges that are drawn.

use streamweir_trace::{NodeId, Trace};

use crate::error::VerifyError;
use crate::graph::Graph;

/// Lanes and columns of one trace.
#[derive(Debug)]
pub(super) struct Layout {
    /// The lanes: first the streams of the trace, then the chains of nodes that
    /// are on none.
    pub(super) lanes: Vec<Lane>,
    /// The lane of each node.
    pub(super) lane: Vec<u32>,
    /// The column of each node.
    pub(super) column: Vec<u32>,
    /// How many columns there are.
    pub(super) columns: u32,
    /// The nodes in the order of the graph.
    pub(super) order: Vec<NodeId>,
}

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    /// What to call it.
    pub(super) name: String,
    /// The tag of its pool; empty for a chain.
    pub(super) tag: String,
}

impl Layout {
    /// The layout of `trace`.
    ///
    /// # Errors
    /// When the tables of the trace do not fit together or its edges form a
    /// cycle.
    pub(super) fn new(trace: &Trace) -> Result<Self, VerifyError> {
        trace.check()?;
        let nodes = trace.nodes.len();
        let graph = Graph::new(nodes, &trace.edges).map_err(|cycle| VerifyError::Cycle {
            nodes: cycle
                .into_iter()
                .map(|node| (node, trace.node(node).name.clone()))
                .collect(),
        })?;
        let mut layout = Self {
            lanes: trace
                .streams
                .iter()
                .map(|stream| Lane {
                    name: stream.name.clone(),
                    tag: stream.tag.clone(),
                })
                .collect(),
            lane: vec![0; nodes],
            column: vec![0; nodes],
            columns: 0,
            order: graph.order().to_vec(),
        };
        // The last node of each lane.
        let mut tails: Vec<Option<NodeId>> = vec![None; layout.lanes.len()];
        for &node in graph.order() {
            let preds = || graph.preds(node).iter().map(|&(pred, _)| pred);
            let lane = match trace.node(node).stream {
                Some(stream) => stream.index(),
                None => preds()
                    .filter(|&pred| trace.node(pred).stream.is_none())
                    .filter(|&pred| tails[layout.lane[pred.index()] as usize] == Some(pred))
                    .max_by_key(|&pred| graph.position(pred))
                    .map_or_else(
                        || {
                            let chain = layout.lanes.len() - trace.streams.len() + 1;
                            layout.lanes.push(Lane {
                                name: format!("chain {chain}"),
                                tag: String::new(),
                            });
                            tails.push(None);
                            layout.lanes.len() - 1
                        },
                        |pred| layout.lane[pred.index()] as usize,
                    ),
            };
            let column = preds()
                .chain(tails[lane])
                .map(|before| layout.column[before.index()] + 1)
                .max()
                .unwrap_or(0);
            tails[lane] = Some(node);
            layout.lane[node.index()] = lane as u32;
            layout.column[node.index()] = column;
            layout.columns = layout.columns.max(column + 1);
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use streamweir_trace::{Edge, Node, NodeKind, Stream};

    use super::*;

    fn trace(streams: &[Option<u32>], edges: &[(u32, u32)]) -> Trace {
        let mut trace = Trace::new("t");
        let main = trace.add_stream(Stream::origin("main"));
        trace.add_stream(Stream::forked("side", main));
        for stream in streams {
            let mut node = Node::new(NodeKind::kernel(), "k");
            node.stream = stream.map(streamweir_trace::StreamId);
            trace.add_node(node);
        }
        for &(from, to) in edges {
            trace.add_edge(Edge::full(NodeId(from), NodeId(to)));
        }
        trace
    }

    #[test]
    fn columns_follow_edges_and_lanes() {
        // 0 -> 1 on main; 2, 3 on side, 3 after 1.
        let streams = [Some(0), Some(0), Some(1), Some(1)];
        let layout = Layout::new(&trace(&streams, &[(0, 1), (2, 3), (1, 3)])).unwrap();
        assert_eq!(layout.lane, [0, 0, 1, 1]);
        assert_eq!(layout.column, [0, 1, 0, 2]);
        assert_eq!(layout.columns, 3);
    }

    #[test]
    fn nodes_of_one_lane_never_share_a_column() {
        let layout = Layout::new(&trace(&[Some(0); 3], &[])).unwrap();
        assert_eq!(layout.column, [0, 1, 2]);
    }

    #[test]
    fn nodes_on_no_stream_go_to_chains() {
        // A fork: 0 -> 1 and 0 -> 2, and both to 3.
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3)];
        let layout = Layout::new(&trace(&[None; 4], &edges)).unwrap();
        assert_eq!(layout.lane, [2, 2, 3, 3]);
        assert_eq!(layout.column, [0, 1, 1, 2]);
        assert_eq!(layout.lanes[3].name, "chain 2");
    }

    #[test]
    fn a_cycle_has_no_picture() {
        let found = Layout::new(&trace(&[None; 2], &[(0, 1), (1, 0)]));
        assert!(matches!(found, Err(VerifyError::Cycle { .. })), "{found:?}");
    }
}
