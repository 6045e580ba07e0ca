//! Why a certificate is refused.

use streamweir_trace::NodeId;
use thiserror::Error;

use crate::certificate::VERSION;

/// Why a certificate proves nothing about a trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Written by another version.
    #[error(
        "certificate of version {0}; this build checks version {VERSION}. Verify the trace again"
    )]
    Version(u32),
    /// The text is not JSON, or not of this form.
    #[error("not a certificate: {0}")]
    Json(String),
    /// About another trace.
    #[error("the certificate is about another trace: digest {certified}, this trace has {found}")]
    AnotherTrace {
        /// The digest in the certificate.
        certified: String,
        /// The digest of the trace.
        found: String,
    },
    /// The trace itself cannot be read.
    #[error("the trace does not fit together: {0}")]
    Malformed(String),
    /// A count, an assumption or a list of unanalysed nodes does not match.
    #[error("the certificate misstates the {0} of the trace")]
    Misstated(&'static str),
    /// The sequence of nodes is no order of the graph, or its chains are not.
    #[error(
        "the certificate's order does not hold at node {0}: it is named never, twice or ahead of a node that it follows, or nothing orders it after its chain"
    )]
    Order(NodeId),
    /// The chains are so many that their clocks would not fit.
    #[error("the certificate covers the graph with {0} chains, too many to check")]
    TooWide(usize),
    /// A rule that the certificate claims to hold does not.
    #[error("{rule} does not hold{}", .node.map_or(String::new(), |node| format!(" at node {node}")))]
    NotEstablished {
        /// The rule's number.
        rule: &'static str,
        /// A node that breaks it, where there is one to name.
        node: Option<NodeId>,
    },
}
