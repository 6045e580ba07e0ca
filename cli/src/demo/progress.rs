//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use streamweir_integration::demo::{Arm, Config, Step};

pub(super) struct Progress {
    bar: ProgressBar,
    replays: u64,
}

impl Progress {
    pub(super) fn new(config: &Config) -> Self {
        let replays = u64::from(config.replays);
        // Draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new(replays * Arm::ALL.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{msg:<24} {bar:40} {pos}/{len} replays") {
            bar.set_style(style);
        }
        Self { bar, replays }
    }

    pub(super) fn show(&self, step: Step) {
        match step {
            Step::Preparing => {
                self.bar.set_message("weights and reference");
                self.bar.tick();
            }
            Step::Replayed { arm, done } => {
                let before = Arm::ALL.iter().position(|&a| a == arm).unwrap_or(0) as u64;
                self.bar.set_message(arm.name());
                self.bar
                    .set_position(before * self.replays + u64::from(done));
            }
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
