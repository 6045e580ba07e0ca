//! The driver's graph as plain data.

use streamweir_hal::driver::{GraphEdge, NodeHandle};
use streamweir_trace::NodeKind;

/// The driver's graph, as it was read back.
pub(in crate::capture) struct ReadBack {
    pub(in crate::capture) nodes: Vec<NodeHandle>,
    pub(in crate::capture) kinds: Vec<NodeKind>,
    pub(in crate::capture) edges: Vec<GraphEdge>,
}
