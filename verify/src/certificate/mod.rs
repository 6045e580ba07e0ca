//! The certificate of a safe verdict, and its checker.
//!
//! A certificate says what was established about which trace: its digest, what
//! it holds, what was assumed and what was left out. The one thing in it that
//! is work to find is the cover of the graph by chains, from which anyone can
//! recompute the order in one pass. It holds no clocks and no pairs, so it is
//! four bytes per node and a little more.
//!
//! [`check`] trusts none of it. It shares no code with the rules or with the
//! verifier's own order: it validates the chains, computes its order from
//! them, and goes through the obligations of every rule again.

mod check;
mod error;

use std::io::{self, BufWriter, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use streamweir_trace::{NodeId, Trace};

pub use check::check;
pub use error::CertificateError;

use crate::Report;
use crate::report::Stats;
use crate::rules::Context;

/// The version of certificates that this build writes and reads.
pub const VERSION: u32 = 1;

/// The proof of a safe verdict.
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
    /// The chains: each node stands in one of them, once, and ends before the
    /// next node of its chain ends.
    pub chains: Vec<Vec<NodeId>>,
    /// What the verdict takes for granted.
    pub assumptions: Vec<String>,
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
            chains: context.reach.chains().to_vec(),
            assumptions: report.assumptions.clone(),
            not_analysed,
        }
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

/// SHA-256 of the trace's JSON form, in hexadecimal.
pub fn digest(trace: &Trace) -> String {
    struct Sink(Sha256);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(Sha256::new());
    let mut buffered = BufWriter::with_capacity(1 << 16, &mut sink);
    let written = serde_json::to_writer(&mut buffered, trace).map_err(io::Error::from);
    written
        .and_then(|()| buffered.flush())
        // Every key of a trace is a string, and the sink takes all bytes.
        .expect("a trace always has a JSON form");
    drop(buffered);
    sink.0
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
