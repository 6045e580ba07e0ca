//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use streamweir_integration::dsv4::Progress;

pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(super) fn new() -> Self {
        // Draws nothing unless standard error is a terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg:<32} {bar:40} {pos}/{len} steps") {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub(super) fn show(&self, step: Progress) {
        match step {
            Progress::Preparing => {
                self.bar.set_message("weights, caches, kernels");
                self.bar.tick();
            }
            Progress::Reference { steps } => {
                self.bar.set_message("reference: one stream, eager");
                self.bar.set_position(steps);
            }
            Progress::Arm { arm, steps, of } => {
                let (overlap, pools) = (arm.overlap.word(), arm.pools.word());
                self.bar
                    .set_message(format!("overlap {overlap}, {pools} pools"));
                self.bar.set_length(of);
                self.bar.set_position(steps);
            }
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
