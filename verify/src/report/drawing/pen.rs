//! How nodes and streams are written into a drawing.

use streamweir_trace::{Count, NodeId};

use crate::context::Context;
use crate::report::canvas::shortened;

/// What a drawing is drawn from.
pub(super) struct Pen<'c, 't> {
    pub(super) context: &'c Context<'t>,
}

/// A node and what it does.
pub(super) type Marked = (NodeId, String);

impl Pen<'_, '_> {
    pub(super) fn node(&self, id: NodeId) -> String {
        let number = id.to_string();
        let name = &self.context.trace.node(id).name;
        format!("{number} `{}`", shortened(name, number.len() + 3))
    }

    /// The node, and where it is, in a line of its own.
    pub(super) fn elsewhere(&self, id: NodeId, what: &str) -> String {
        match self.context.trace.stream_of(id) {
            Some(stream) => format!("{} on \"{}\" {what}", self.node(id), shortened(stream, 9)),
            None => format!("{} {what}", self.node(id)),
        }
    }

    /// What stands above the column of `node`.
    pub(super) fn header(&self, node: NodeId) -> String {
        match self.context.trace.stream_of(node) {
            Some(stream) => format!("stream \"{}\"", shortened(stream, 9)),
            None => format!("chain of {node}"),
        }
    }

    /// Whether two nodes belong into one column: a chain may lead over several
    /// streams, and a column has the name of one.
    pub(super) fn same_line(&self, a: NodeId, b: NodeId) -> bool {
        let line = |node: NodeId| {
            let chain = self.context.reach.place(node).0;
            (chain, self.context.trace.node(node).stream)
        };
        line(a) == line(b)
    }

    /// Where a node is that stands in the column of another stream; empty for
    /// all others.
    pub(super) fn strays(&self, node: NodeId, head: NodeId) -> String {
        let trace = self.context.trace;
        if trace.node(node).stream == trace.node(head).stream {
            return String::new();
        }
        match trace.stream_of(node) {
            Some(stream) => format!("  on \"{}\"", shortened(stream, 7)),
            None => "  on no known stream".to_owned(),
        }
    }

    /// The columns of two nodes on different chains: streams in their order.
    pub(super) fn columns(&self, a: NodeId, b: NodeId) -> [usize; 2] {
        let rank = |node: NodeId| {
            let stream = self.context.trace.node(node).stream;
            (stream.is_none(), stream, self.context.reach.place(node).0)
        };
        if rank(a) <= rank(b) { [0, 1] } else { [1, 0] }
    }
}

/// A stretch of nodes that is left out; empty when there are none.
pub(super) fn skipped(nodes: u32) -> String {
    match nodes {
        0 => String::new(),
        _ => format!("... {}", Count::of(nodes.into(), "node")),
    }
}
