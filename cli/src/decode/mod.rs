//! `streamweir decode`.

mod instruments;
mod json;
mod plot;
mod profile;
mod progress;
mod soak;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use streamweir::driver::Backend;
use streamweir_integration::dsv4::{
    Arm, BUCKETS, CacheLayout, Capacity, Config, EngineOptions, Exec, IndexKeys, Load, Matrix,
    Overlap, PAGE_TOKENS, Packing, Pools, ProfileOptions, Setup,
};

use crate::device::{Choice, Opened};
use crate::exit::{self, Failure, refused};
use crate::paint::Paint;
use progress::Bar;

// Headings of the help.
const SESSIONS: &str = "Sessions";
const ARMS: &str = "Arms";
const CAPTURES: &str = "Captures";
const PROFILE: &str = "A profile, instead of arms";
const SOAK: &str = "A soak, instead of arms";

/// Decode many sessions with the layers of DeepSeek-V4, in several arms, and
/// compare every session bit by bit with a run on one stream without graphs
///
/// Exits with 0 when every arm with tagged pools is clean: no session differs and
/// no graph has a hazard.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// `auto` (the first CUDA device, else the simulated one), `sim` or `cuda:N`
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: Choice,

    /// The model: tiny, flash or pro [default: tiny on sim, flash on cuda]
    #[arg(long, value_name = "MODEL", value_parser = Config::from_str)]
    config: Option<Config>,

    /// Layers [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    layers: Option<u32>,

    /// How index keys are stored
    #[arg(long, value_enum, default_value_t = Keys::Bf16)]
    index_k: Keys,

    /// Decides weights, prompts and, on sim, the interleaving of each step
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Sessions [default: 6 for tiny, 40 else]
    #[arg(help_heading = SESSIONS, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sessions: Option<u32>,

    /// Rounds of prompt growth in a session
    #[arg(help_heading = SESSIONS, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Tokens decoded in a round [default: 3 for tiny, 16 else]
    #[arg(help_heading = SESSIONS, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,

    /// The longest context that a session may come to [default: the model's]
    #[arg(help_heading = SESSIONS, long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(256..))]
    context: Option<u32>,

    /// What overlaps the main stream
    #[arg(help_heading = ARMS, long, value_enum, default_value_t = Overlaps::All)]
    overlap: Overlaps,

    /// Where scratch comes from [default: both, shared with overlap only]
    #[arg(help_heading = ARMS, long, value_enum)]
    pools: Option<PoolChoice>,

    /// Graphs, or launch by launch
    #[arg(help_heading = ARMS, long, value_enum, default_value_t = ExecChoice::Graph)]
    exec: ExecChoice,

    /// Watch the runs, with any of canary, poison and differential: guards around
    /// memory, NaNs in scratch that holds nothing yet, each step compared with the
    /// reference, command by command, until one differs
    #[arg(
        help_heading = ARMS,
        long,
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "profile"
    )]
    instruments: instruments::Choice,

    /// Batch sizes that have a graph [default: 1,2,4 for tiny, 1,2,4,8,12,16,24,32
    /// else]
    #[arg(help_heading = CAPTURES, long, value_delimiter = ',', value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    buckets: Vec<u32>,

    /// How the scratch of tagged pools is packed
    #[arg(help_heading = CAPTURES, long, value_enum, default_value_t = PackingChoice::Planned)]
    packing: PackingChoice,

    /// Programmatic dependent launch: whether kernels start early and wait
    /// themselves for what they follow
    #[arg(help_heading = CAPTURES, long, value_enum, default_value_t = Switch::On)]
    pdl: Switch,

    /// Refuse to run unless the caches have the layout of this file
    #[arg(help_heading = CAPTURES, long, value_name = "FILE")]
    layout: Option<std::path::PathBuf>,

    /// Measure each bucket with each overlap, beside the least time that
    /// is possible. Needs a device with a clock
    #[arg(help_heading = PROFILE, long, conflicts_with_all = ["sessions", "rounds", "steps", "overlap", "pools", "exec"])]
    profile: bool,

    /// Contexts to measure [default: 2048,16384,65536]
    #[arg(help_heading = PROFILE, long, requires = "profile", value_delimiter = ',', value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    contexts: Vec<u32>,

    /// Replays of each graph that are timed
    #[arg(help_heading = PROFILE, long, requires = "profile", value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    replays: u32,

    /// Also replay the full overlap without each kind of kernel, and with the longest
    /// path alone, to see what keeps the step from its limit
    #[arg(long, help_heading = PROFILE, requires = "profile")]
    what_if: bool,

    /// Draw how much faster the full overlap is into this file, as SVG
    #[arg(
        help_heading = PROFILE,
        long,
        requires = "profile",
        value_name = "FILE"
    )]
    plot: Option<PathBuf>,

    /// Replay the graphs of all buckets with the full overlap until there
    /// are so many replays, each compared on the device; prints the state as JSON
    #[arg(help_heading = SOAK, long, conflicts_with_all = ["profile", "sessions", "rounds", "steps", "overlap", "pools", "exec"], value_name = "REPLAYS", value_parser = clap::value_parser!(u64).range(1..))]
    soak: Option<u64>,

    /// Where the state of a soak is kept, to go on from it another time
    #[arg(
        help_heading = SOAK,
        long,
        requires = "soak",
        value_name = "FILE"
    )]
    soak_state: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overlaps {
    /// One stream
    Off,
    /// The indexer on a side stream
    Indexer,
    /// All side streams
    Full,
    /// Each in turn
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PoolChoice {
    /// A pool for each stream
    Tagged,
    /// One pool for all streams, free at host drop: the negative control
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PackingChoice {
    /// Each pool by itself
    Isolated,
    /// Pools reuse each other's memory where streams are ordered
    Ordered,
    /// Likewise, placed when the recording is complete
    Planned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// 256 bytes per token
    Bf16,
    /// 132 bytes per token
    Fp8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExecChoice {
    /// A graph for each bucket
    Graph,
    /// Launch by launch
    Eager,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Opened { device, .. } = options.device.open(options.seed)?;
    let on_sim = device.info().backend == Backend::Sim;
    let (setup, load) = options.plan(on_sim)?;
    if let Some(path) = &options.layout {
        let file = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        CacheLayout::new(setup.index_keys)?.check(&file)?;
    }
    if options.profile {
        let output = profile::Output {
            json: options.json,
            plot: options.plot.as_deref(),
        };
        return profile::run(&device, setup, &options.measured(), output);
    }
    if let Some(replays) = options.soak {
        return soak::run(&device, setup, replays, options.soak_state.as_deref());
    }
    let bar = Bar::new();
    let engine = EngineOptions {
        instruments: options.instruments.0,
        ..EngineOptions::default()
    };
    let arms = options.arms();
    let matrix = Matrix::run_with(&device, setup, engine, load, &arms, |step| bar.show(step))
        .map_err(refused)?;
    bar.clear();
    if options.json {
        exit::print(json::of(&matrix)?)?;
    } else {
        exit::print(table::Table {
            matrix: &matrix,
            paint: Paint::for_stdout(),
        })?;
    }
    if matrix.tagged_is_clean() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::not_clean(
            "an arm with tagged pools is not clean: its sessions should equal the reference bit by bit",
        ))
    }
}

impl Options {
    fn plan(&self, on_sim: bool) -> Result<(Setup, Load), Failure> {
        let mut config = self.config.unwrap_or(match on_sim {
            true => Config::TINY,
            false => Config::FLASH,
        });
        config.layers = self.layers.unwrap_or(config.layers);
        config.max_context = self.context.unwrap_or(config.max_context);
        let tiny = config.name == Config::TINY.name;
        let (sessions, steps) = if tiny { (6, 3) } else { (40, 16) };
        let load = {
            let steps = self.steps.unwrap_or(steps);
            // The rounds of the longest session end at the longest context.
            let most = (config.max_context / self.rounds)
                .saturating_sub(steps)
                .max(1);
            Load {
                sessions: self.sessions.unwrap_or(sessions),
                rounds: self.rounds,
                steps,
                prompt: ((most / 8).max(1), most),
                seed: self.seed,
            }
        };
        let buckets = match &self.buckets[..] {
            [] if tiny => vec![1, 2, 4],
            [] => BUCKETS.to_vec(),
            chosen => ascending(chosen),
        };
        let rows = buckets.last().copied().unwrap_or(1);
        let sequences = match self.profile || self.soak.is_some() {
            true => rows,
            false => load.sessions,
        };
        let each = config.max_context.div_ceil(PAGE_TOKENS);
        let pages = (sequences.checked_mul(each)).and_then(|pages| pages.checked_add(1));
        let capacity = Capacity {
            sequences,
            pages: pages.ok_or_else(|| {
                Failure::new(format!(
                    "{sequences} sequences of up to {each} pages need more pages than a pool has; ask for \
                     fewer --sessions, smaller --buckets or a shorter --context"
                ))
            })?,
            rows,
        };
        let setup = Setup {
            config,
            index_keys: match self.index_k {
                Keys::Bf16 => IndexKeys::Bf16,
                Keys::Fp8 => IndexKeys::Fp8,
            },
            buckets,
            capacity,
            packing: match self.packing {
                PackingChoice::Isolated => Packing::Isolated,
                PackingChoice::Ordered => Packing::Ordered,
                PackingChoice::Planned => Packing::Planned,
            },
            programmatic: self.pdl == Switch::On,
            seed: self.seed,
        };
        Ok((setup, load))
    }

    fn measured(&self) -> ProfileOptions {
        ProfileOptions {
            contexts: match &self.contexts[..] {
                [] => vec![2048, 16_384, 65_536],
                chosen => ascending(chosen),
            },
            replays: self.replays as usize,
            what_if: self.what_if,
        }
    }

    fn arms(&self) -> Vec<Arm> {
        let exec = match self.exec {
            ExecChoice::Graph => Exec::Graph,
            ExecChoice::Eager => Exec::Eager,
        };
        let overlaps = match self.overlap {
            Overlaps::Off => vec![Overlap::Off],
            Overlaps::Indexer => vec![Overlap::IndexerOnly],
            Overlaps::Full => vec![Overlap::Full],
            Overlaps::All => Overlap::ALL.to_vec(),
        };
        let pools = match self.pools {
            None => vec![Pools::Tagged, Pools::Shared],
            Some(PoolChoice::Tagged) => vec![Pools::Tagged],
            Some(PoolChoice::Shared) => vec![Pools::Shared],
        };
        pools
            .into_iter()
            .flat_map(|pools| overlaps.iter().map(move |&overlap| (pools, overlap)))
            // Of one stream the shared pool is the tagged one: nothing to show.
            .filter(|&(pools, overlap)| {
                self.pools.is_some() || pools == Pools::Tagged || overlap != Overlap::Off
            })
            .map(|(pools, overlap)| Arm {
                overlap,
                pools,
                exec,
            })
            .collect()
    }
}

/// Each of these numbers once.
fn ascending(numbers: &[u32]) -> Vec<u32> {
    let numbers: BTreeSet<u32> = numbers.iter().copied().collect();
    numbers.into_iter().collect()
}
