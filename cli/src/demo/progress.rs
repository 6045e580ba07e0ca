//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use streamweir_integration::dsv4::RepeatProgress;

use super::Way;

pub(super) struct Progress {
    bar: ProgressBar,
    replays: u64,
}

impl Progress {
    pub(super) fn new(replays: u32) -> Self {
        let replays = u64::from(replays);
        // Draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new(replays * Way::ALL.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{msg:<24} {bar:40} {pos}/{len} replays") {
            bar.set_style(style);
        }
        Self { bar, replays }
    }

    pub(super) fn show(&self, step: RepeatProgress) {
        match step {
            RepeatProgress::Preparing => {
                self.bar.set_message("weights and reference");
                self.bar.tick();
            }
            RepeatProgress::Replayed { arm, done } => {
                let ways = (0..).zip(Way::ALL);
                if let Some((before, way)) = ways.into_iter().find(|(_, way)| way.arm() == arm) {
                    self.bar.set_message(way.name());
                    let before: u64 = before * self.replays;
                    self.bar.set_position(before + u64::from(done));
                }
            }
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
