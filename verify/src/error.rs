//! Why no verdict could be given.

use streamweir_trace::session::SessionError;
use streamweir_trace::{NodeId, TraceError};
use thiserror::Error;

/// Why no verdict could be given. Not a hazard: a hazard is a verdict.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The tables of the trace do not fit together.
    #[error("the trace cannot be verified: {0}")]
    Malformed(#[from] TraceError),
    /// The tables of the session do not fit together.
    #[error("the session cannot be verified: {0}")]
    Session(#[from] SessionError),
    /// The edges form a cycle, so the graph has no order to verify.
    #[error("the edges form a cycle: {}. A captured graph has none: record the edges again", chain(.nodes))]
    Cycle {
        /// The nodes of one cycle with their names, each with an edge to the
        /// next and the last to the first.
        nodes: Vec<(NodeId, String)>,
    },
    /// So many nodes are mutually unordered that their clocks would not fit.
    #[error(
        "the graph is too wide to be ordered: {nodes} nodes on more than {chains} chains. Verify it in parts"
    )]
    TooWide {
        /// How many nodes the graph has.
        nodes: usize,
        /// How many chains were open when the limit was reached.
        chains: usize,
    },
    /// So many pairs have to be looked at that it would take too long, or not fit.
    #[error(
        "the trace is too entangled to be judged: more than {most} pairs of {what}. Verify it in parts"
    )]
    TooEntangled {
        /// What there are pairs of.
        what: &'static str,
        /// How many are looked at.
        most: u64,
    },
    /// Copies and fills show more accesses that nothing declares than are looked
    /// at.
    #[error(
        "operands of copies and fills show more than {most} accesses that nothing declares. Declare them, or verify the trace in parts"
    )]
    TooMuchShown {
        /// How many are looked at.
        most: usize,
    },
    /// The steps of a session read from each other in so many ways that to look at
    /// all of them would take minutes.
    #[error(
        "the steps of the session read from each other in too many ways to look at all of them. Verify it in parts, or name fewer steps in \"reads_from\""
    )]
    TooManyOutputs,
    /// Times handed to a drawing are not those of its nodes.
    #[error(
        "{found} cannot be drawn: a graph of {nodes} nodes has as many times, finite and not negative"
    )]
    Times {
        /// What was handed over.
        found: String,
        /// How many nodes the graph has.
        nodes: usize,
    },
    /// The matching handed to a reconciliation is not one of these two traces.
    #[error(
        "the matching names {found}, but there are {expected}. Make one entry per read-back node, each a node of the declared trace"
    )]
    Matching {
        /// What the matching holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
}

fn chain(nodes: &[(NodeId, String)]) -> String {
    let mut text = String::new();
    for (node, name) in nodes.iter().chain(nodes.first()) {
        if !text.is_empty() {
            text.push_str(" -> ");
        }
        text.push_str(&format!("{node} `{name}`"));
    }
    text
}
