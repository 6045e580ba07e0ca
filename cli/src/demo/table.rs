//! The arms as a table.

use std::fmt;

use streamweir_integration::dsv4::{RepeatedArm, Repetition};

use super::Way;
use crate::paint::Paint;

pub(super) struct Table<'a> {
    pub(super) found: &'a Repetition,
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
        for way in Way::ALL {
            if let Some(result) = self.found.arm(way.arm()) {
                self.row(f, way, result)?;
            }
        }
        Ok(())
    }
}

impl Table<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, way: Way, result: &RepeatedArm) -> fmt::Result {
        let paint = self.paint;
        let (streams, scratch) = match way {
            Way::SharedOverlap => (2, "one pool for both"),
            Way::TaggedOverlap => (2, "a pool for each"),
            Way::Serial => (1, "one pool"),
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
            way.name(),
            paint.judged(result.wrong == 0, of_all(result.wrong)),
            paint.judged(
                result.selected_differs == 0,
                of_all(result.selected_differs)
            ),
            paint.judged(hazards == 0, hazards),
        )
    }
}
