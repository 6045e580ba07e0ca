//! The result for people: the table, the first hazard, and what it means.

use std::fmt;

use streamweir_integration::dsv4::{RepeatedArm, Repetition};

use super::Way;
use super::table::Table;
use crate::paint::Paint;

pub(super) struct Story<'a> {
    pub(super) found: &'a Repetition,
    /// Whether a CUDA device would have been taken, had there been one.
    pub(super) no_cuda: bool,
    pub(super) paint: Paint,
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, paint) = (self.found, self.paint);
        let device = match found.device.as_str() {
            "sim" => "the simulated device",
            device => device,
        };
        writeln!(
            f,
            "{}",
            paint.bold(format_args!(
                "Chained decode layers of DeepSeek-V4, size {}, on {device}",
                found.setup.config.name
            ))
        )?;
        writeln!(
            f,
            "Replays of each graph are compared bit by bit with an eager run on one stream; seed {}",
            found.setup.seed
        )?;
        if self.no_cuda {
            let note = "No CUDA device could be opened; `streamweir doctor` says why";
            writeln!(f, "{}", paint.faint(note))?;
        }
        writeln!(f)?;
        writeln!(f, "{}", Table { found, paint })?;
        if let Some(shared) = found.arm(Way::SharedOverlap.arm()) {
            self.first_hazard(f, shared)?;
        }
        match found.arm(Way::TaggedOverlap.arm()) {
            Some(tagged) if tagged.is_clean() => write!(f, "{}", wrap(TAGGED)),
            _ => Ok(()),
        }
    }
}

impl Story<'_> {
    fn first_hazard(&self, f: &mut fmt::Formatter<'_>, shared: &RepeatedArm) -> fmt::Result {
        let Some(hazard) = shared.report.hazards.first() else {
            return Ok(());
        };
        writeln!(
            f,
            "The verifier on {}, the first of {}:\n",
            Way::SharedOverlap.name(),
            shared.report.hazards_total
        )?;
        for line in hazard.to_string().lines() {
            writeln!(f, "{}", wrap(line))?;
        }
        writeln!(f, "\n{}\n", wrap(SHARED))
    }
}

const SHARED: &str = "Host code dropped the buffer after launching its last user, so the pool gave \
    its bytes to the other stream. In the order of host calls that is right. A replay has no host \
    between its launches: both kernels run at once, on the same bytes.";

const TAGGED: &str = "tagged-overlap runs the same code with the same drops. Each stream takes its \
    scratch from a pool of its own, the capture was refused unless proven free of hazards, and the \
    overlap stays.";

/// The most characters of a line.
const WIDTH: usize = 96;

/// Breaks a line that has more than [`WIDTH`] characters. What follows the first of
/// them stands under its text when the line is indented.
fn wrap(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let indent = line.len() - line.trim_start().len();
    let hanging = if indent > 0 { indent + 4 } else { 0 };
    let mut wrapped = " ".repeat(indent);
    let (mut length, mut first) = (indent, true);
    for word in line.split_whitespace() {
        let word_length = word.chars().count();
        if first {
            first = false;
        } else if length + 1 + word_length <= WIDTH {
            wrapped.push(' ');
            length += 1;
        } else {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(hanging));
            length = hanging;
        }
        wrapped.push_str(word);
        length += word_length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrap("  short   line"), "  short   line");
        let long = format!("   = help: {}", "word ".repeat(40));
        let lines: Vec<String> = wrap(&long).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= 96), "{lines:?}");
        assert!(lines[0].starts_with("   = help: word"));
        assert!(lines[1].starts_with("       word"));
        assert!(!wrap(TAGGED).contains("\n "));
    }
}
