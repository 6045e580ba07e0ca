//! The files that can be placed.

use std::path::Path;

use streamweir::trace::{AllocLog, read_file};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    AllocLog,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::AllocLog => "alloc-log",
        }
    }
}

/// A file that was read.
pub(super) struct Read {
    pub(super) kind: Kind,
    pub(super) log: AllocLog,
}

/// Reads a log or a list of lifetimes: what begins with a brace is a log,
/// whatever it is called.
pub(super) fn read(path: &Path) -> Result<Read, String> {
    let bytes = read_file(path).map_err(|error| error.to_string())?;
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, Some(b'{' | b'[')) {
        let log = AllocLog::from_json(&bytes).map_err(|error| error.to_string())?;
        let kind = Kind::AllocLog;
        return Ok(Read { kind, log });
    }
    let text = str::from_utf8(&bytes).map_err(|error| {
        let good = bytes[..error.valid_up_to()].iter();
        let line = good.filter(|&&byte| byte == b'\n').count() + 1;
        format!("line {line}: not UTF-8, hence neither an allocation log nor a list of lifetimes")
    })?;
    let log = AllocLog::from_csv(text).map_err(|error| error.to_string())?;
    let kind = Kind::Csv;
    Ok(Read { kind, log })
}
