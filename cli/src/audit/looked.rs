//! A file of the command line and what became of it.

use std::path::PathBuf;
use std::time::Duration;

use streamweir::verify::Verdict;
use streamweir::verify::audit::Audit;

/// A file that was looked at.
pub(super) struct Looked {
    pub(super) file: PathBuf,
    pub(super) outcome: Result<(Audit, Duration), String>,
}

/// How a file ends the command, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Safe,
    Possible,
    Hazard,
    Unreadable,
}

impl Looked {
    pub(super) fn judge(&self, strict: bool) -> Outcome {
        let Ok((Audit { report, .. }, _)) = &self.outcome else {
            return Outcome::Unreadable;
        };
        let bare = report.assumptions.is_empty() && report.not_analysed.is_empty();
        match report.verdict {
            Verdict::Safe if strict && !bare => Outcome::Possible,
            Verdict::Safe => Outcome::Safe,
            Verdict::Possible => Outcome::Possible,
            Verdict::Hazard => Outcome::Hazard,
        }
    }
}
