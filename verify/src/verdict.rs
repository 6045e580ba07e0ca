//! The verdict about one trace.

use streamweir_trace::Trace;

use crate::accesses::Shown;
use crate::context::Context;
use crate::error::VerifyError;
use crate::options::Options;
use crate::report::{self, Report, Subject};
use crate::rules;

/// Checks a trace against every rule, with default [`Options`].
///
/// # Errors
/// When the tables of the trace do not fit together, when its edges form a
/// cycle, or when the graph is too wide to be ordered in memory. A broken rule
/// is no error but a hazard of the report.
pub fn verify(trace: &Trace) -> Result<Report, VerifyError> {
    verify_with(trace, &Options::default())
}

/// Checks a trace against every rule.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(trace: &Trace, options: &Options) -> Result<Report, VerifyError> {
    let shown = Shown::new(trace)?;
    let context = Context::new(&shown)?;
    let findings = rules::run(&context, options.limit)?;
    Ok(report::assemble(
        &context,
        findings,
        options,
        Subject::Capture,
    ))
}
