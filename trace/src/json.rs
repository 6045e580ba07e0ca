//! The file format: one JSON object, versioned. docs/trace-format.md describes
//! every field.

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::header::{FORMAT, Header, OLDEST_VERSION, VERSION};
use crate::model::Trace;

#[derive(Serialize)]
struct FileOut<'a> {
    format: &'a str,
    version: u32,
    trace: &'a Trace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIn {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    trace: Trace,
}

/// Writes a trace as compact JSON.
pub fn to_json(trace: &Trace) -> String {
    write(trace, false)
}

/// Writes a trace as indented JSON.
pub fn to_json_pretty(trace: &Trace) -> String {
    write(trace, true)
}

fn write(trace: &Trace, pretty: bool) -> String {
    let file = FileOut {
        format: FORMAT,
        version: VERSION,
        trace,
    };
    let text = if pretty {
        serde_json::to_string_pretty(&file)
    } else {
        serde_json::to_string(&file)
    };
    // Every key is a string and no Serialize impl of this crate fails.
    text.expect("a trace always has a JSON form")
}

/// Reads a trace and checks that its tables fit together.
///
/// # Errors
/// When the bytes are no JSON, of another format or version, or when
/// [`Trace::check`] refuses the result.
pub fn from_json(bytes: &[u8]) -> Result<Trace, TraceError> {
    let header = Header::of(bytes)?;
    if header.format != FORMAT {
        return Err(TraceError::Format(header.format));
    }
    if !(OLDEST_VERSION..=VERSION).contains(&header.version) {
        return Err(TraceError::Version {
            found: header.version,
        });
    }
    // Text that is known to be UTF-8 as a whole is not looked at string by
    // string, which is a fifth of the time; of other text the reader of bytes
    // says where it is spoilt.
    let file: FileIn = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text)?,
        Err(_) => serde_json::from_slice(bytes)?,
    };
    file.trace.check()?;
    Ok(file.trace)
}
