//! How the command ends: 0 as it should be, 1 what was to be shown does not
//! hold, 2 it could not be tried, 3 it may not hold, 64 the command line is wrong (`EX_USAGE`).

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use streamweir::trace::{shown, shows};
use streamweir_integration::dsv4;

pub(crate) const NOT_CLEAN: u8 = 1;
pub(crate) const FAILED: u8 = 2;
/// Something may be wrong, and what there is does not prove it.
pub(crate) const POSSIBLE: u8 = 3;
const USAGE: u8 = 64;

/// Why the command does not end well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    code: u8,
}

impl Failure {
    /// It could not be tried.
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            code: FAILED,
        }
    }

    /// It was tried, and does not hold.
    pub(crate) fn not_clean(what: impl fmt::Display) -> Self {
        Self {
            code: NOT_CLEAN,
            ..Self::new(what)
        }
    }

    /// Prints it, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        // Lines are the message's own; what is in them is not.
        for (at, line) in self.what.lines().enumerate() {
            let word = if at == 0 { "error: " } else { "" };
            eprintln!("{word}{}", shown(line));
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// A refused capture is an answer, not a failure to get one.
pub(crate) fn refused(error: dsv4::Error) -> Failure {
    match error.report() {
        Some(_) => Failure::not_clean(error),
        None => Failure::from(error),
    }
}

/// Prints what clap says. Help and version that were asked for are no errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if let Err(unprinted) = error.print() {
        return Failure::from(unprinted).report();
    }
    if error.use_stderr() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

/// Writes the result to standard output. A reader that has seen enough, as
/// `head` has, is no failure.
pub(crate) fn print(text: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// JSON of the same meaning without a character that a terminal would act upon:
/// outside of strings there is none but the ends of lines.
pub(crate) fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\n' || shows(letter) {
            plain.push(letter);
        } else {
            let units = letter.encode_utf16(&mut [0; 2]).to_vec();
            plain.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_meaning_without_raw_characters() {
        let name = "a\u{9b}31m\u{202e}\u{e0041}\u{7f}\n";
        let text = serde_json::to_string_pretty(&[name]).expect("JSON");
        let plain = plain_json(&text);
        assert!(plain.chars().all(|c| c == '\n' || shows(c)), "{plain:?}");
        let read: Vec<String> = serde_json::from_str(&plain).expect("JSON");
        assert_eq!(read, [name]);
    }
}
