//! Happens-before as the full closure, and nothing cleverer.

use streamweir::trace::{Access, ByteRange, NodeId, Trace};

/// The closure of the edges of a trace.
pub(crate) struct Order(Vec<Vec<bool>>);

impl Order {
    /// The closure; `without` names an edge, by position, to leave out.
    pub(crate) fn new(trace: &Trace, without: Option<usize>) -> Self {
        let nodes = trace.nodes.len();
        let mut reached = vec![vec![false; nodes]; nodes];
        for (at, edge) in trace.edges.iter().enumerate() {
            if Some(at) != without {
                reached[edge.from.index()][edge.to.index()] = true;
            }
        }
        for via in 0..nodes {
            let onward = reached[via].clone();
            for from in &mut reached {
                if from[via] {
                    from.iter_mut().zip(&onward).for_each(|(to, on)| *to |= on);
                }
            }
        }
        Self(reached)
    }

    pub(crate) fn before(&self, first: NodeId, then: NodeId) -> bool {
        self.0[first.index()][then.index()]
    }

    pub(crate) fn concurrent(&self, one: NodeId, two: NodeId) -> bool {
        one != two && !self.before(one, two) && !self.before(two, one)
    }
}

/// The device addresses of an access.
pub(crate) fn addresses(trace: &Trace, access: &Access) -> ByteRange {
    access
        .bytes
        .shifted(trace.buffer(access.buffer).range.start)
        .unwrap()
}

/// The bytes that both have.
pub(crate) fn common(one: ByteRange, two: ByteRange) -> std::ops::Range<u64> {
    one.start.max(two.start)..one.end.min(two.end)
}
