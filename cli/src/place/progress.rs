//! How far a search is, on standard error, where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use streamweir::place::Progress;
use streamweir::trace::shown;

pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A line for one file, which appears when there is something to say.
    pub(super) fn new(name: &str) -> Self {
        // Draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_prefix(shown(name).to_string());
        Self { bar }
    }

    pub(super) fn show(&self, Progress { height, floor }: Progress) {
        let ratio = height as f64 / floor.max(1) as f64;
        self.bar
            .set_message(format!("{height} bytes, {ratio:.4} of the floor"));
        // From now on by itself: turns of the search may take a while.
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
