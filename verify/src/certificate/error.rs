//! Why a certificate is refused.

use streamweir_trace::NodeId;
use thiserror::Error;

use super::about::About;
use super::version::VERSION;

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
    /// About another trace, or misstated.
    #[error("the certificate is about another trace: it says {certified}, this trace has {found}")]
    AnotherTrace {
        /// What the certificate says.
        certified: String,
        /// What the trace has instead.
        found: String,
    },
    /// The trace itself cannot be read.
    #[error("the trace does not fit together: {0}")]
    Malformed(String),
    /// A list does not hold what it must.
    #[error("the certificate's \"{0}\" does not name the nodes that it must")]
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

impl CertificateError {
    /// The error that names what is different, the digest last: it is different
    /// whenever anything is.
    pub(super) fn another(certified: &About, found: &About) -> Self {
        let facts = |about: &About| {
            let About {
                capture,
                digest,
                nodes,
                edges,
                streams,
                accesses,
                possible,
                assumptions,
            } = about;
            [
                format!("name {capture:?}"),
                format!("{nodes} nodes"),
                format!("{edges} edges"),
                format!("{streams} streams"),
                format!("{accesses} accesses"),
                format!("{possible} words"),
                format!("assumptions {assumptions:?}"),
                format!("digest {digest}"),
            ]
        };
        let pairs = facts(certified).into_iter().zip(facts(found));
        let (certified, found) = pairs
            .into_iter()
            .find(|(certified, found)| certified != found)
            .unwrap_or_default();
        Self::AnotherTrace { certified, found }
    }
}
