//! The arms as a table.

use std::fmt;

use streamweir_integration::demo::{Arm, ArmReport};

use crate::paint::Paint;

pub(super) struct Table<'a> {
    pub(super) arms: &'a [ArmReport],
    pub(super) paint: Paint,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paint = self.paint;
        let header = format!(
            "  {:<14}  {:>7}  {:<17} {:>12}  {:>13}  {:>7}  {:>9}",
            "arm", "streams", "scratch", "wrong", "top-k differs", "hazards", "µs/replay"
        );
        writeln!(f, "{}", paint.bold(&header))?;
        let rule = "─".repeat(header.chars().count() - 2);
        writeln!(f, "  {}", paint.faint(rule))?;
        for arm in self.arms {
            self.row(f, arm)?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, result: &ArmReport) -> fmt::Result {
        let paint = self.paint;
        let (streams, scratch) = match result.arm {
            Arm::SharedOverlap | Arm::SharedRepaired(_) => (2, "one pool for both"),
            Arm::TaggedOverlap | Arm::PlannedOverlap => (2, "a pool for each"),
            Arm::Serial => (1, "one pool"),
        };
        let of_all = |count: u32| format!("{count} of {}", result.replays);
        let hazards = result.report.hazards_total;
        let time = match result.us_per_replay {
            Some(us) => format!("{us:.1}"),
            None => "no clock".to_owned(),
        };
        writeln!(
            f,
            "  {:<14}  {streams:>7}  {scratch:<17} {:>12}  {:>13}  {:>7}  {time:>9}",
            result.arm.name(),
            paint.judged(result.wrong == 0, of_all(result.wrong)),
            paint.judged(result.topk_differs == 0, of_all(result.topk_differs)),
            paint.judged(hazards == 0, hazards),
        )
    }
}
