//! The certificate of a safe verdict, and its checker.
//!
//! A certificate says what was established about which trace: its digest, what
//! it holds, what was assumed and what was left out. What is work to find in it
//! is a sequence of the nodes that the edges bear out, and a cover of the graph
//! by chains, from which anyone can recompute the order in one pass. It holds no
//! clocks and no pairs, so it is eight bytes per node and a little more.
//!
//! [`check`] trusts none of it. Of the verifier it shares nothing but this form
//! and [`digest`], which belongs to it: it validates the sequence and the chains,
//! computes its order from them, and goes through the obligations of every rule
//! again.

mod check;
mod digest;
mod error;

use serde::{Deserialize, Serialize};
use streamweir_trace::NodeId;

pub use check::check;
pub use digest::digest;
pub use error::CertificateError;

use crate::Report;
use crate::report::Stats;
use crate::rules::Context;

/// The version of certificates that this build writes and reads.
pub const VERSION: u32 = 3;

/// The proof of a safe verdict.
///
/// It is about the graph as it was when it was verified. An exec update, or any
/// other change of the instantiated graph, voids it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`VERSION`] of the build that wrote it.
    pub version: u32,
    /// The name of the capture.
    pub capture: String,
    /// SHA-256 of the trace, in hexadecimal.
    pub digest: String,
    /// How much the verdict rests on.
    pub stats: Stats,
    /// The nodes, each once and behind all that its edges come from, with the
    /// number of its chain. Each node ends before the next one of its chain ends.
    pub order: Vec<(NodeId, u32)>,
    /// What the trace takes for granted.
    pub assumptions: Vec<String>,
    /// How many words of parameters stand in for what kernels do not declare:
    /// the verdict takes for granted that they touch no other known memory.
    pub possible: u64,
    /// The nodes that the verdict does not speak about.
    pub not_analysed: Vec<NodeId>,
}

impl Certificate {
    pub(crate) fn new(context: &Context<'_>, report: &Report, not_analysed: Vec<NodeId>) -> Self {
        Self {
            version: VERSION,
            capture: report.capture.clone(),
            digest: digest(context.trace),
            stats: report.stats,
            order: context
                .graph
                .order()
                .iter()
                .map(|&node| (node, context.reach.place(node).0))
                .collect(),
            assumptions: context.trace.assumptions.clone(),
            possible: context.trace.possible.len() as u64,
            not_analysed,
        }
    }

    /// The certificate as the text of a file.
    pub fn to_json(&self) -> String {
        // No key is anything but a string, and no Serialize here fails.
        serde_json::to_string(self).expect("a certificate always has a JSON form")
    }

    /// Reads what [`to_json`](Self::to_json) wrote. Whether the certificate
    /// holds is for [`check`] to say.
    ///
    /// # Errors
    /// When the bytes are no certificate, or one of another version.
    pub fn from_json(bytes: &[u8]) -> Result<Self, CertificateError> {
        #[derive(Deserialize)]
        struct Header {
            version: u32,
        }
        let unreadable = |error: serde_json::Error| CertificateError::Json(error.to_string());
        let Header { version } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if version != VERSION {
            return Err(CertificateError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

/// What a verdict takes for granted when there are words of parameters that may
/// be pointers and that nothing declares.
pub(crate) fn pointers_assumed(words: usize) -> Option<String> {
    (words > 0).then(|| {
        let plural = if words == 1 { "" } else { "s" };
        format!(
            "kernels touch no known memory but what is declared or what {words} word{plural} of their parameters point{} to",
            if words == 1 { "s" } else { "" }
        )
    })
}
