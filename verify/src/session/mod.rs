//! The session level: what a program does with its graphs (R5, R12).
//!
//! # What is guaranteed
//! [`verify_session`] answers with a [`Report`] whose verdict is
//! [`Verdict::Safe`] only if, for what the session declares, no two steps that
//! touch the same bytes, one of them writing, may be in flight together, and
//! each step finds the output that it is to read from where it reads: it runs
//! after that step, and nothing else has written there in between. Bytes
//! decide, by address: graphs of one replay group that share an arena, eager
//! scratch inside an arena, a pinned staging buffer and persistent memory are
//! all the same to it, and graphs with no byte in common may overlap.
//!
//! # How
//! One engine, two vocabularies: a session is lowered to a [`Trace`] with one
//! node for each step ([`lower`]), and the rules for graphs decide it. What
//! they call an unordered conflict is R5 or R12 here, by what the steps are.
//!
//! A hazard's nodes are steps: `n4` is the step at position 4. Its fix can be
//! applied to the session with [`mend`].
//!
//! ```
//! use streamweir_trace::session::{Place, Session, Step, Use};
//! use streamweir_trace::{AccessMode, ByteRange};
//! use streamweir_verify::{Rule, Verdict, session::mend, verify_session};
//!
//! let mut session = Session::new("two batches");
//! let main = session.add_stream("main");
//! let staged = session.add_host_buffer("staged tokens", ByteRange::new(0x1000, 0x1100));
//! let tokens = session.add_buffer("tokens", ByteRange::new(0x9000, 0x9100));
//! let decode = session.add_graph("decode", vec![Use::all(tokens, 0x100, AccessMode::Read)]);
//! for _ in 0..2 {
//!     session.push(Step::host("fill", vec![Use::all(staged, 0x100, AccessMode::Write)]));
//!     session.push(Step::copy("stage", main, Place::start(staged), Place::start(tokens), 0x100));
//!     session.push(Step::launch("decode", main, decode));
//! }
//! // The second batch is filled in while the first may still be copied.
//! let report = verify_session(&session)?;
//! assert_eq!(report.verdict, Verdict::Hazard);
//! assert_eq!(report.hazards[0].rule, Rule::External);
//! assert_eq!(report.hazards[0].first.name, "stage");
//! assert_eq!(report.hazards[0].second.as_ref().unwrap().name, "fill");
//!
//! let mended = mend(&session, &report.hazards[0].fix).unwrap();
//! assert_eq!(verify_session(&mended)?.verdict, Verdict::Safe);
//! # Ok::<(), streamweir_verify::VerifyError>(())
//! ```

mod fix;
mod graph;
mod lower;
mod outputs;
mod regions;
mod report;

use streamweir_trace::Trace;
use streamweir_trace::session::Session;

pub use fix::mend;
pub use graph::add_graph;
pub use lower::lower;

#[cfg(doc)]
use crate::report::Verdict;

use crate::accesses::Shown;
use crate::context::Context;
use crate::error::VerifyError;
use crate::options::Options;
use crate::report::{Report, Subject, assemble};
use crate::rules;

/// Checks a session against R5 and R12, with default [`Options`].
///
/// # Errors
/// When the tables of the session do not fit together, when it is too wide to be
/// ordered in memory, or when its steps read from each other in too many ways. A
/// broken rule is no error but a hazard of the report.
pub fn verify_session(session: &Session) -> Result<Report, VerifyError> {
    verify_session_with(session, &Options::default())
}

/// Checks a session against R5 and R12.
///
/// The report carries no certificate: a certificate is about one graph. When
/// there are more hazards than [`Options::limit`], the list holds those of the
/// earliest steps.
///
/// # Errors
/// As [`verify_session`].
pub fn verify_session_with(session: &Session, options: &Options) -> Result<Report, VerifyError> {
    let trace = lower(session)?;
    judge(session, &trace, options)
}

/// The same with the trace that the session comes down to.
pub(crate) fn judge(
    session: &Session,
    trace: &Trace,
    options: &Options,
) -> Result<Report, VerifyError> {
    let options = Options {
        certificate: false,
        ..*options
    };
    let shown = Shown::new(trace)?;
    let context = Context::new(&shown)?;
    let findings = rules::run(&context, options.limit)?;
    let found = assemble(&context, findings, &options, Subject::Session);
    let rule = |lost: &outputs::Lost| report::rule_of(session, lost);
    let lost = outputs::lost(session, &context, options.limit, rule)?;
    Ok(report::put_into_words(
        session,
        &context,
        found,
        &lost,
        options.limit,
    ))
}
