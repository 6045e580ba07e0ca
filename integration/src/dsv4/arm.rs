//! What is run, and in which way.

use super::config::{Config, IndexKeys, Overlap};
use super::error::Error;
use super::instruments::Instruments;
use super::model::Capacity;

/// The batch sizes that are captured where nobody says otherwise.
pub const BUCKETS: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// Where the scratch of a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Pools {
    /// A pool for each stream; a capture with a hazard is refused.
    Tagged,
    /// One pool for all streams, memory free when the host drops it, as engines
    /// capture today; hazards are reported. The negative control.
    Shared,
}

impl Pools {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tagged => "tagged",
            Self::Shared => "shared",
        }
    }
}

/// How steps are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Exec {
    /// As graphs, one for each bucket.
    Graph,
    /// Launch by launch.
    Eager,
}

impl Exec {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Eager => "eager",
        }
    }
}

/// One way to run the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    /// What overlaps.
    pub overlap: Overlap,
    /// Where scratch comes from.
    pub pools: Pools,
    /// Graphs or not.
    pub exec: Exec,
}

impl Arm {
    /// What others are compared with: one stream, launch by launch.
    pub const REFERENCE: Self = Self {
        overlap: Overlap::Off,
        pools: Pools::Tagged,
        exec: Exec::Eager,
    };
}

/// How the scratch of tagged pools is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Packing {
    /// Each pool by itself, as the step is recorded.
    Isolated,
    /// Pools reuse each other's memory where streams are ordered, as the step is
    /// recorded.
    Ordered,
    /// Likewise, placed when the recording is complete, with side work emitted
    /// just before its join.
    #[default]
    Planned,
}

impl Packing {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Ordered => "ordered",
            Self::Planned => "planned",
        }
    }
}

/// What is made once and serves every arm.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The model.
    pub config: Config,
    /// How index keys are stored.
    pub index_keys: IndexKeys,
    /// Batch sizes to capture, in ascending order.
    pub buckets: Vec<u32>,
    /// Sizes of the caches.
    pub capacity: Capacity,
    /// How the scratch of tagged pools is packed.
    pub packing: Packing,
    /// Whether kernels start early, before what they follow has ended, and wait for
    /// it themselves (programmatic dependent launch). Eager runs never do.
    pub programmatic: bool,
    /// Decides weights and prompts.
    pub seed: u64,
}

/// What becomes of a batch that no bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AboveLargest {
    /// It is refused with [`Error::Batch`].
    #[default]
    Refuse,
    /// It runs launch by launch, as long as there are inputs for its rows
    /// ([`Capacity::rows`]).
    Eager,
}

/// How an engine runs, whatever it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// What becomes of a batch that no bucket holds.
    pub above_largest: AboveLargest,
    /// What the runs are watched with.
    pub instruments: Instruments,
    /// Whether each step copies what its indexers select to where
    /// [`Decoder::selected`](super::Decoder::selected) finds it.
    pub keep_selected: bool,
}

impl Setup {
    /// The smallest model with an indexer, and one bucket of so many rows.
    #[cfg(test)]
    pub(super) fn of_three_layers(rows: u32) -> Self {
        let config = Config {
            layers: 3,
            ..Config::TINY
        };
        Self {
            config,
            index_keys: IndexKeys::Bf16,
            buckets: vec![rows],
            capacity: Capacity {
                sequences: rows,
                pages: 1 + rows * config.table_stride(),
                rows,
            },
            packing: Packing::Planned,
            programmatic: true,
            seed: 2,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let rows = self.capacity.rows;
        let ascending = self.buckets.is_sorted_by(|a, b| a < b);
        let largest = self.buckets.last().copied();
        if ascending && self.buckets.first() != Some(&0) && largest.is_some_and(|b| b <= rows) {
            return Ok(());
        }
        Err(Error::Buckets {
            buckets: self.buckets.clone(),
            rows,
        })
    }
}
