//! `streamweir demo`.

mod json;
mod progress;
mod story;
mod table;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use streamweir::driver::Backend;
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Exec, IndexKeys, Overlap, Packing, Pools, Repeat, Repetition, Setup,
};

use crate::device::{Choice, Opened};
use crate::exit::{self, Failure, refused};
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

    /// Replays of each arm [default: 200; 1 for flash on sim, where it takes long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replays: Option<u32>,

    /// Decides weights, inputs and, on sim, the interleaving of each replay
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    /// Small enough for the simulated device
    Tiny,
    /// DeepSeek-V4 Flash, batch 8, 16,384 entries to a sequence
    Flash,
}

/// An arm of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Two streams on one pool, freed in host order, as engines capture today.
    SharedOverlap,
    /// Two streams, each with its own pool.
    TaggedOverlap,
    /// One stream: the overlap is off.
    Serial,
}

impl Way {
    const ALL: [Self; 3] = [Self::SharedOverlap, Self::TaggedOverlap, Self::Serial];

    /// The name in the table and in JSON.
    const fn name(self) -> &'static str {
        match self {
            Self::SharedOverlap => "shared-overlap",
            Self::TaggedOverlap => "tagged-overlap",
            Self::Serial => "serial",
        }
    }

    const fn arm(self) -> Arm {
        let (overlap, pools) = match self {
            Self::SharedOverlap => (Overlap::IndexerOnly, Pools::Shared),
            Self::TaggedOverlap => (Overlap::IndexerOnly, Pools::Tagged),
            Self::Serial => (Overlap::Off, Pools::Tagged),
        };
        Arm {
            overlap,
            pools,
            exec: Exec::Graph,
        }
    }
}

/// What `decode` runs at this size, as one batch of long sequences.
fn plan(size: Size, seed: u64) -> (Setup, Repeat) {
    // The third and the fifth layer have an indexer.
    const LAYERS: u32 = 5;
    let (config, rows, context) = match size {
        Size::Tiny => (Config::TINY, 2, Config::TINY.max_context),
        Size::Flash => (Config::FLASH, 8, 65_536),
    };
    let config = Config {
        layers: LAYERS,
        max_context: context,
        ..config
    };
    let setup = Setup {
        config,
        index_keys: IndexKeys::Bf16,
        buckets: vec![rows],
        capacity: Capacity {
            sequences: rows,
            pages: 1 + rows * config.table_stride(),
            rows,
        },
        packing: Packing::Isolated,
        programmatic: true,
        seed,
    };
    let repeat = Repeat {
        context,
        replays: 200,
    };
    (setup, repeat)
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Opened { device, no_cuda } = options.device.open(options.seed)?;
    let on_sim = device.info().backend == Backend::Sim;
    let size = options
        .size
        .unwrap_or(if on_sim { Size::Tiny } else { Size::Flash });
    let (setup, mut repeat) = plan(size, options.seed);
    if size == Size::Flash && on_sim {
        repeat.replays = 1;
    }
    repeat.replays = options.replays.unwrap_or(repeat.replays);
    let progress = Progress::new(repeat.replays);
    let arms = Way::ALL.map(Way::arm);
    let told = |step| progress.show(step);
    let found = Repetition::run(&device, setup, repeat, &arms, told).map_err(refused)?;
    progress.clear();
    if options.json {
        exit::print(json::of(&found)?)?;
    } else {
        exit::print(story::Story {
            found: &found,
            no_cuda,
            paint: Paint::for_stdout(),
        })?;
    }
    verdict(&found)
}

fn verdict(found: &Repetition) -> Result<ExitCode, Failure> {
    match found.arm(Way::TaggedOverlap.arm()) {
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
        let (setup, repeat) = plan(Size::Tiny, 0);
        let repeat = Repeat {
            replays: 1,
            ..repeat
        };
        let arms = [Way::SharedOverlap.arm()];
        let mut found = Repetition::run(&Device::sim(0), setup, repeat, &arms, |_| {}).unwrap();
        assert!(verdict(&found).is_err(), "no tagged arm");
        found.arms[0].arm = Way::TaggedOverlap.arm();
        let failure = verdict(&found).unwrap_err();
        assert_eq!(failure, Failure::not_clean(&failure));
        found.arms[0].wrong = 0;
        found.arms[0].selected_differs = 0;
        assert!(verdict(&found).is_err(), "hazards alone");
        found.arms[0].report.hazards_total = 0;
        assert!(verdict(&found).is_ok());
    }
}
