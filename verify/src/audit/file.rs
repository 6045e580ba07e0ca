//! From a file to a verdict, whatever format the file has.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use streamweir_trace::dump::Dump;
use streamweir_trace::session::Session;
use streamweir_trace::{DUMP_FORMAT, FORMAT, Trace, format_of, from_json, session};

use crate::audit::audited::{Audited, Mode};
use crate::audit::error::AuditError;
use crate::options::Options;
use crate::report::Report;
use crate::session::verify_session_with;
use crate::verdict::verify_with;

/// A file with the verdict about it.
#[derive(Clone, Debug)]
pub struct Audit {
    /// What was checked. A session is the trace that it comes down to.
    pub trace: Trace,
    /// The verdict.
    pub report: Report,
}

/// Reads the file at `path` and checks it: a trace, a session trace or a
/// capture dump, told apart by the field `format`. A dump is read as a stream;
/// the text of the others is let go of before they are checked.
///
/// `mode` concerns dumps alone.
///
/// # Errors
/// When the file cannot be read, is of another format, contradicts itself, or
/// allows no verdict. A broken rule is no error but a hazard of the report.
pub fn audit_file(path: &Path, mode: Mode, options: &Options) -> Result<Audit, AuditError> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(AuditError::Directory);
    }
    if about.is_file() && about.len() == 0 {
        return Err(AuditError::Empty);
    }
    let format = format_of(BufReader::new(file)).map_err(not_json)?;
    if format == DUMP_FORMAT {
        let dump = Dump::from_reader(File::open(path)?)?;
        return of_dump(dump, mode, options);
    }
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    match format.as_str() {
        FORMAT => {
            let trace = from_json(&bytes)?;
            drop(bytes);
            of_trace(trace, options)
        }
        session::FORMAT => {
            let session = Session::from_json(&bytes)?;
            drop(bytes);
            of_session(&session, options)
        }
        _ => Err(AuditError::Format(format)),
    }
}

/// The same for a file that is in memory.
///
/// # Errors
/// As [`audit_file`].
pub fn audit_json(bytes: &[u8], mode: Mode, options: &Options) -> Result<Audit, AuditError> {
    if bytes.is_empty() {
        return Err(AuditError::Empty);
    }
    let format = format_of(bytes).map_err(not_json)?;
    match format.as_str() {
        DUMP_FORMAT => of_dump(Dump::from_json(bytes)?, mode, options),
        FORMAT => of_trace(from_json(bytes)?, options),
        session::FORMAT => of_session(&Session::from_json(bytes)?, options),
        _ => Err(AuditError::Format(format)),
    }
}

/// What keeps a file from being read is no fault of its text.
fn not_json(error: serde_json::Error) -> AuditError {
    if error.is_io() {
        AuditError::Read(error.into())
    } else {
        AuditError::NotJson(error)
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
    let report = verify_session_with(session, options)?;
    let trace = crate::session::lower(session)?;
    Ok(Audit { trace, report })
}
