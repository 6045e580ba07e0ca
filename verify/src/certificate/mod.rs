//! The certificate of a safe verdict, and its checker.
//!
//! A certificate says what it is about ([`About`]): the digest of a trace, what
//! the trace holds and what it takes for granted. And it says what is work to
//! find, so that a checker need not find it:
//! - a sequence of the nodes that the edges bear out, and a cover of the graph by
//!   chains, from which anyone can recompute the order in one pass;
//! - the free node of each allocation that no buffer names;
//! - the turns in which buffers come to the bytes that they share: wherever one
//!   of two writes, the one whose turn is first comes first;
//! - the nodes that are not analysed.
//!
//! It holds no clocks and no pairs of accesses, so it is a few bytes for each node
//! and each buffer.
//!
//! [`check`] trusts none of it. Of the verifier it shares nothing but this form
//! and [`digest`], which belongs to it: it validates each statement and goes
//! through the obligations of every rule again. What that proves and what it does
//! not is in `docs/certificate.md`.

mod about;
mod check;
mod digest;
mod error;
mod turns;

use serde::{Deserialize, Serialize};
use streamweir_trace::{BufferId, NodeId, Trace};

pub use about::About;
pub use check::check;
pub use digest::digest;
pub use error::CertificateError;

use crate::rules::Context;
use crate::{FREED_BY_LAUNCHER, VerifyError, unanalysed};

/// The version of certificates that this build writes and reads.
pub const VERSION: u32 = 4;

/// The proof of a safe verdict.
///
/// It is about the graph as it was when it was verified. An exec update, or any
/// other change of the instantiated graph, voids it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`VERSION`] of the build that wrote it.
    pub version: u32,
    /// The trace.
    pub about: About,
    /// How many comparisons the verdict took. Nothing rests on it.
    pub comparisons: u64,
    /// The nodes, each once and behind all that its edges come from, with the
    /// number of its chain. Each node ends before the next one of its chain ends.
    pub order: Vec<(NodeId, u32)>,
    /// Allocation nodes and the free nodes that give their memory back, where no
    /// buffer says so.
    pub freed: Vec<(NodeId, NodeId)>,
    /// The buffers that are touched. Where two of them overlap and one writes, the
    /// accesses of the one that stands first come first.
    pub turns: Vec<BufferId>,
    /// The nodes that the verdict does not speak about.
    pub not_analysed: Vec<NodeId>,
}

/// The certificate that `trace` has if it is safe. All that it states is true as
/// far as it can be; whether that proves anything is for [`check`] to say.
///
/// [`verify`](crate::verify()) hands out the same, and only for a safe verdict.
///
/// # Errors
/// As [`verify`](crate::verify()).
pub fn claim(trace: &Trace) -> Result<Certificate, VerifyError> {
    let context = Context::new(trace)?;
    let not_analysed = unanalysed::nodes(trace, &context.facts.opaque);
    let (turns, _) = turns::turns(&context);
    Ok(Certificate::new(&context, turns, not_analysed, 0))
}

impl Certificate {
    /// The certificate of a graph that was found safe. None if buffers hand bytes
    /// to each other in a circle, which no sequence of turns can state.
    pub(crate) fn of_safe(
        context: &Context<'_>,
        not_analysed: Vec<NodeId>,
        comparisons: u64,
    ) -> Option<Self> {
        let (turns, whole) = turns::turns(context);
        whole.then(|| Self::new(context, turns, not_analysed, comparisons))
    }

    fn new(
        context: &Context<'_>,
        turns: Vec<BufferId>,
        not_analysed: Vec<NodeId>,
        comparisons: u64,
    ) -> Self {
        Self {
            version: VERSION,
            about: About::of(context.trace),
            comparisons,
            order: context
                .graph
                .order()
                .iter()
                .map(|&node| (node, context.reach.place(node).0))
                .collect(),
            freed: context.graph_memory.by_address().to_vec(),
            turns,
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
