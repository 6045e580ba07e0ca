//! `streamweir demo`.

mod json;
mod progress;
mod story;
mod table;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use streamweir_integration::demo::{self, Arm, Config, DemoReport, Error};

use crate::device::{Choice, Opened};
use crate::exit::{self, Failure};
use crate::paint::Paint;
use progress::Progress;

/// Capture decode layers of DeepSeek-V4 three ways, replay them and compare
/// every replay bit by bit with an eager run on one stream
///
/// Exits with 0 when the arm with a pool for each stream is clean: no wrong
/// replay and no hazard.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// `auto` (the first CUDA device, else the simulated one), `sim` or `cuda:N`
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: Choice,

    /// Sizes of the layers [default: tiny on sim, flash on cuda]
    #[arg(long, value_enum)]
    size: Option<Size>,

    /// Replays of each arm [default: 200; 1 for flash on sim, where it takes seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replays: Option<u32>,

    /// Decides weights, inputs and, on sim, the interleaving of each replay
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Size {
    /// Small enough for the simulated device
    Tiny,
    /// DeepSeek-V4 Flash, batch 8, 16,384 entries to a sequence
    Flash,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Opened { device, no_cuda } = options.device.open(options.seed)?;
    let on_sim = device.info().backend == "sim";
    let size = match options.size {
        Some(Size::Tiny) => demo::Size::Tiny,
        Some(Size::Flash) => demo::Size::Flash,
        None if on_sim => demo::Size::Tiny,
        None => demo::Size::Flash,
    };
    let replays = match size {
        demo::Size::Flash if on_sim => 1,
        demo::Size::Tiny | demo::Size::Flash => 200,
    };
    let config = Config {
        size,
        replays: options.replays.unwrap_or(replays),
        seed: options.seed,
    };
    let progress = Progress::new(&config);
    let report = demo::run(&device, &config, |step| progress.show(step)).map_err(refused)?;
    progress.clear();
    if options.json {
        exit::print(json::of(&report)?)?;
    } else {
        exit::print(story::Story {
            report: &report,
            config: &config,
            no_cuda,
            paint: Paint::for_stdout(),
        })?;
    }
    verdict(&report)
}

/// A refused capture is an answer, not a failure to get one.
fn refused(error: Error) -> Failure {
    match error.report() {
        Some(_) => Failure::not_clean(error),
        None => Failure::from(error),
    }
}

fn verdict(report: &DemoReport) -> Result<ExitCode, Failure> {
    match report.arm(Arm::TaggedOverlap) {
        Some(tagged) if tagged.is_clean() => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::not_clean(
            "tagged-overlap is not clean: its replays should equal the reference bit by bit",
        )),
    }
}

#[cfg(test)]
mod tests {
    use streamweir::Device;

    use super::*;

    #[test]
    fn a_wrong_tagged_arm_is_a_failure() {
        let config = Config {
            size: demo::Size::Tiny,
            replays: 1,
            seed: 0,
        };
        let arms = [Arm::SharedOverlap];
        let mut report = demo::run_arms(&Device::sim(0), &config, &arms, |_| {}).unwrap();
        assert!(verdict(&report).is_err(), "no tagged arm");
        report.arms[0].arm = Arm::TaggedOverlap;
        let failure = verdict(&report).unwrap_err();
        assert_eq!(failure, Failure::not_clean(&failure));
        report.arms[0].wrong = 0;
        report.arms[0].topk_differs = 0;
        assert!(verdict(&report).is_err(), "hazards alone");
        report.arms[0].report.hazards_total = 0;
        assert!(verdict(&report).is_ok());
    }
}
