//! Why a file cannot be audited.

use streamweir_trace::session::SessionError;
use streamweir_trace::{DumpError, ReadError, TraceError, shown};
use thiserror::Error;

use crate::error::VerifyError;

/// Why a file cannot be audited. Not a hazard: a hazard is a verdict.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file cannot be read, or not to its end.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file is no JSON object with a format.
    #[error("neither a trace, a session nor a capture dump: {}", shown(.0))]
    NotJson(#[source] serde_json::Error),
    /// The file says that it is something else.
    #[error(
        "\"format\" is {0:?}; this release reads {trace:?}, {session:?} and {dump:?}",
        trace = streamweir_trace::FORMAT,
        session = streamweir_trace::session::FORMAT,
        dump = streamweir_trace::DUMP_FORMAT
    )]
    Format(String),
    /// The session file cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The capture dump cannot be used.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The trace file cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No verdict can be given.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The dump makes for more accesses than a file of its size can mean.
    #[error(
        "the dump makes for more than {limit} accesses of {nodes} nodes. Where the node intervals of its operators overlap, write the operators that launch and not those around them; where it holds no parameters of kernels, write them"
    )]
    TooManyAccesses {
        /// The most that are taken from a dump of this size.
        limit: u64,
        /// How many nodes there are.
        nodes: usize,
    },
}
