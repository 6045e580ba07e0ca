//! The result for people: the table, the first hazard, and what it means.

use std::fmt;

use streamweir_integration::demo::{Arm, ArmReport, Config, DemoReport};

use super::paint::Paint;
use super::table::Table;

pub(super) struct Story<'a> {
    pub(super) report: &'a DemoReport,
    pub(super) config: &'a Config,
    /// Why the device is not a CUDA device.
    pub(super) instead: Option<&'a str>,
    pub(super) paint: Paint,
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (report, paint) = (self.report, self.paint);
        let device = match report.device.as_str() {
            "sim" => "the simulated device",
            device => device,
        };
        writeln!(
            f,
            "{}",
            paint.bold(format_args!(
                "Chained decode layers of DeepSeek-V4, size {}, on {device}",
                report.size
            ))
        )?;
        writeln!(
            f,
            "{} replays of each graph, compared bit by bit with an eager run on one stream, seed {}",
            self.config.replays, self.config.seed
        )?;
        if let Some(why) = self.instead {
            writeln!(f, "{}", paint.faint(format_args!("not on CUDA: {why}")))?;
        }
        writeln!(f)?;
        let arms = &report.arms;
        writeln!(f, "{}", Table { arms, paint })?;
        if let Some(shared) = report.arm(Arm::SharedOverlap) {
            self.first_hazard(f, shared)?;
        }
        match report.arm(Arm::TaggedOverlap) {
            Some(tagged) if tagged.is_clean() => write!(f, "{}", wrap(TAGGED)),
            _ => Ok(()),
        }
    }
}

impl Story<'_> {
    fn first_hazard(&self, f: &mut fmt::Formatter<'_>, shared: &ArmReport) -> fmt::Result {
        let Some(hazard) = shared.report.hazards.first() else {
            return Ok(());
        };
        writeln!(
            f,
            "The verifier on {}, the first of {}:\n",
            shared.arm, shared.report.hazards_total
        )?;
        writeln!(f, "{hazard}")?;
        writeln!(f, "{}\n", wrap(SHARED))
    }
}

const SHARED: &str = "Host code dropped the buffer after launching its last user, so the pool gave \
    its bytes to the other stream. In the order of host calls that is right. A replay has no host \
    between its launches: both kernels run at once, on the same bytes.";

const TAGGED: &str = "tagged-overlap runs the same code with the same drops. Each stream takes its \
    scratch from a pool of its own, the capture was refused unless proven free of hazards, and the \
    overlap stays.";

/// Breaks a paragraph into lines of at most 96 characters.
fn wrap(text: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 {
            let fits = length + 1 + word.len() <= 96;
            lines.push(if fits { ' ' } else { '\n' });
            length = if fits { length + 1 } else { 0 };
        }
        lines.push_str(word);
        length += word.len();
    }
    lines
}
