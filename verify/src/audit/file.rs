//! From a file to a verdict, whatever format the file has.

use std::path::Path;

use streamweir_trace::dump::Dump;
use streamweir_trace::session::Session;
use streamweir_trace::{
    DUMP_FORMAT, FORMAT, ReadError, Trace, format_of, from_json, read_file, session,
};

#[cfg(doc)]
use streamweir_trace::{FILE_LIMIT, STREAM_LIMIT};

use crate::audit::audited::{Audited, Mode};
use crate::audit::error::AuditError;
use crate::error::VerifyError;
use crate::options::Options;
use crate::report::Report;
use crate::session::{judge, lower};
use crate::verdict::verify_with;

/// A file with the verdict about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Audit {
    /// What was checked. A session is the trace that it comes down to.
    pub trace: Trace,
    /// The verdict.
    pub report: Report,
}

/// Reads the file at `path` and checks it: a trace, a session trace or a
/// capture dump, told apart by the field `format`. The text is let go of before
/// anything is checked. Of a file at most [`FILE_LIMIT`] bytes are read, of a pipe
/// or a device [`STREAM_LIMIT`].
///
/// `mode` concerns dumps alone.
///
/// # Errors
/// When the file cannot be read, is of another format, contradicts itself, or
/// allows no verdict. A broken rule is no error but a hazard of the report.
pub fn audit_file(path: &Path, mode: Mode, options: &Options) -> Result<Audit, AuditError> {
    let content = Content::read(&read_file(path)?)?;
    content.judge(mode, options)
}

/// The same for a file that is in memory.
///
/// # Errors
/// As [`audit_file`].
pub fn audit_json(bytes: &[u8], mode: Mode, options: &Options) -> Result<Audit, AuditError> {
    if bytes.is_empty() {
        return Err(AuditError::Read(ReadError::Empty));
    }
    Content::read(bytes)?.judge(mode, options)
}

/// What a file holds.
enum Content {
    Trace(Trace),
    Session(Session),
    Dump(Dump),
}

impl Content {
    fn read(bytes: &[u8]) -> Result<Self, AuditError> {
        let format = format_of(bytes).map_err(AuditError::NotJson)?;
        match format.as_str() {
            FORMAT => Ok(Self::Trace(from_json(bytes)?)),
            session::FORMAT => Ok(Self::Session(Session::from_json(bytes)?)),
            DUMP_FORMAT => Ok(Self::Dump(Dump::from_json(bytes)?)),
            _ => Err(AuditError::Format(format)),
        }
    }

    fn judge(self, mode: Mode, options: &Options) -> Result<Audit, AuditError> {
        match self {
            Self::Trace(trace) => of_trace(trace, options),
            Self::Session(session) => of_session(&session, options),
            Self::Dump(dump) => of_dump(dump, mode, options),
        }
    }
}

fn of_dump(dump: Dump, mode: Mode, options: &Options) -> Result<Audit, AuditError> {
    let audited = Audited::new(dump, mode)?;
    let report = audited.verify(options)?;
    Ok(Audit {
        trace: audited.trace,
        report,
    })
}

fn of_trace(trace: Trace, options: &Options) -> Result<Audit, AuditError> {
    let report = verify_with(&trace, options)?;
    Ok(Audit { trace, report })
}

fn of_session(session: &Session, options: &Options) -> Result<Audit, AuditError> {
    let trace = lower(session).map_err(VerifyError::from)?;
    let report = judge(session, &trace, options)?;
    Ok(Audit { trace, report })
}
