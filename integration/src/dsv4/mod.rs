//! The decode path of DeepSeek-V4 attention, with the indexer beside the main
//! stream.
//!
//! A stack of layers with the model's sizes and random weights decodes many
//! sessions at once: continuous batching over buckets, one graph for each bucket,
//! all in one arena. What overlaps is decided when a step is recorded
//! ([`Overlap`]), where scratch comes from likewise ([`Pools`]), and whatever is
//! chosen, every session must come to the same bits as on one stream without
//! graphs.
//!
//! | file | what it is about |
//! | --- | --- |
//! | `config` | sizes, kinds of layers |
//! | `pages` | which sequence has which pages |
//! | `geometry`, `cache`, `weights`, `random`, `content` | what is persistent |
//! | `layout` | where entries lie in the caches, as a file |
//! | `inputs` | what the host tells a step |
//! | `kernels`, `model`, `metadata`, `layer/`, `step` | the model, and a step as it is recorded |
//! | `arm` | what is run, and in which way |
//! | `engine`, `decoder` | buckets, graphs, results of a step |
//! | `instruments`, `watch` | what a run is watched with |
//! | `sessions` | a load of sessions |
//! | `matrix` | the same load in several arms |
//! | `repeat` | one step many times, in several arms |
//! | `soak` | very many replays, compared on the device |
//! | `profile/` | how fast a step is, and how fast it could be |
//!
//! The whole model, of which the engine runs the attention so far:
//!
//! | folder | what it is about |
//! | --- | --- |
//! | [`checkpoint`] | weights as they are on the hub |
//! | [`plain`] | the decoder without kernels, which all else is held to |

mod arm;
mod cache;
pub mod checkpoint;
mod config;
mod content;
mod decoder;
mod engine;
mod error;
mod geometry;
mod inputs;
mod instruments;
mod kernels;
mod layer;
mod layout;
mod matrix;
mod metadata;
mod model;
mod pages;
pub mod plain;
mod products;
mod profile;
mod random;
mod repeat;
mod sessions;
mod soak;
mod step;
mod timer;
mod watch;
mod weights;

pub use arm::{AboveLargest, Arm, BUCKETS, EngineOptions, Exec, Packing, Pools, Setup};
pub use config::{
    Config, Group, IndexKeys, LayerKind, Overlap, PAGE_TOKENS, UnknownConfig, WINDOW,
};
pub use decoder::{Chosen, Decoder};
pub use engine::Engine;
pub use error::{Error, RowFault};
pub use inputs::Row;
pub use instruments::{Compared, Findings, FirstDifference, Instruments, UnknownInstrument};
pub use layout::{CacheLayout, LayoutFileError, PoolLayout, RingLayout};
pub use matrix::{ArmReport, Matrix, Progress};
pub use model::Capacity;
pub use pages::{PageError, Pages, Sequence};
pub use profile::{Point, Profile, ProfileOptions, Role};
pub use repeat::{Repeat, RepeatProgress, RepeatedArm, Repetition};
pub use sessions::{Load, Transcript};
pub use soak::Tally;
