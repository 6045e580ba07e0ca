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

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
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
    #[arg(long, value_enum, default_value_t = IndexKeys::Bf16)]
    index_k: IndexKeys,

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
    #[arg(help_heading = ARMS, long, value_name = "OVERLAP", default_value = Overlaps::ALL, value_parser = Overlaps::parser())]
    overlap: Overlaps,

    /// Where scratch comes from [default: both, shared with overlap only]
    #[arg(help_heading = ARMS, long, value_enum)]
    pools: Option<Pools>,

    /// Graphs, or launch by launch
    #[arg(help_heading = ARMS, long, value_enum, default_value_t = Exec::Graph)]
    exec: Exec,

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
    #[arg(help_heading = CAPTURES, long, value_enum, default_value_t = Packing::Planned)]
    packing: Packing,

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

    /// Write the step of the last bucket and context, with the full overlap and each
    /// kernel as long as it takes by itself, as a trace for Perfetto
    #[arg(
        help_heading = PROFILE,
        long,
        requires = "profile",
        value_name = "FILE"
    )]
    chrome: Option<PathBuf>,

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

/// The overlaps to run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Overlaps(Vec<Overlap>);

impl Overlaps {
    /// The word for each in turn.
    const ALL: &str = "all";

    fn parser() -> impl TypedValueParser<Value = Self> {
        let words = Overlap::value_variants().iter();
        let words = words.filter_map(ValueEnum::to_possible_value);
        let all = PossibleValue::new(Self::ALL).help("Each in turn");
        PossibleValuesParser::new(words.chain([all])).map(|word| {
            match <Overlap as ValueEnum>::from_str(&word, false) {
                Ok(one) => Self(vec![one]),
                // The only other word that there is.
                Err(_) => Self(Overlap::ALL.to_vec()),
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
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
            chrome: options.chrome.as_deref(),
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
            index_keys: self.index_k,
            buckets,
            capacity,
            packing: self.packing,
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
            chrome: self.chrome.is_some(),
        }
    }

    fn arms(&self) -> Vec<Arm> {
        let pools = match self.pools {
            None => vec![Pools::Tagged, Pools::Shared],
            Some(pools) => vec![pools],
        };
        pools
            .into_iter()
            .flat_map(|pools| self.overlap.0.iter().map(move |&overlap| (pools, overlap)))
            // Of one stream the shared pool is the tagged one: nothing to show.
            .filter(|&(pools, overlap)| {
                self.pools.is_some() || pools == Pools::Tagged || overlap != Overlap::Off
            })
            .map(|(pools, overlap)| Arm {
                overlap,
                pools,
                exec: self.exec,
            })
            .collect()
    }
}

/// Each of these numbers once.
fn ascending(numbers: &[u32]) -> Vec<u32> {
    let numbers: BTreeSet<u32> = numbers.iter().copied().collect();
    numbers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<T: ValueEnum>() -> Vec<String> {
        let values = T::value_variants().iter();
        let words = values.filter_map(|value| Some(value.to_possible_value()?.get_name().into()));
        words.collect()
    }

    /// What is typed is what tables and JSON say.
    #[test]
    fn words_on_the_command_line_are_those_of_reports() {
        assert_eq!(words::<Overlap>(), Overlap::ALL.map(Overlap::word));
        let keys = [IndexKeys::Bf16, IndexKeys::Fp8];
        assert_eq!(words::<IndexKeys>(), keys.map(IndexKeys::word));
        let pools = [Pools::Tagged, Pools::Shared];
        assert_eq!(words::<Pools>(), pools.map(Pools::word));
        assert_eq!(words::<Exec>(), [Exec::Graph, Exec::Eager].map(Exec::word));
        let packings = [Packing::Isolated, Packing::Ordered, Packing::Planned];
        assert_eq!(words::<Packing>(), packings.map(Packing::word));
    }
}
