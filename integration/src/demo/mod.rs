//! The story in three arms: one layer code, three ways to give it memory.
//!
//! A few chained C4 layers of DeepSeek-V4 are captured into a graph, the
//! indexer on a side stream (`layer.rs`). Each [`Arm`] captures the same code
//! with the same drop points, and its replays are compared bit by bit with an
//! eager run on one stream:
//!
//! | arm | streams | scratch | verifier |
//! | --- | --- | --- | --- |
//! | [`SharedOverlap`](Arm::SharedOverlap) | two | one pool, free at host drop | only reports |
//! | [`TaggedOverlap`](Arm::TaggedOverlap) | two | a pool for each stream | refuses |
//! | [`Serial`](Arm::Serial) | one | one pool for that stream | refuses |
//!
//! [`PlannedOverlap`](Arm::PlannedOverlap) is the second once more, with memory
//! placed over the whole recording; the story does not need it.
//!
//! The first is how an engine with a caching allocator captures today. Its
//! replays are wrong although no kernel, no launch and no event is: the graph
//! runs two kernels at once on bytes that the host took for free.

mod arm;
mod error;
mod layer;
mod model;
mod replay;
mod sizes;

use streamweir_sched::Device;
use streamweir_trace::Trace;
use streamweir_verify::Report;

pub use arm::{Arm, Repair};
pub use error::Error;
pub use sizes::Size;

use crate::common::name_of;
use model::Model;
use replay::Outcome;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The sizes of the layers.
    pub size: Size,
    /// Replays of each arm.
    pub replays: u32,
    /// Decides weights and inputs, and on the simulated device how the replays
    /// interleave: replay `n` of every arm runs under `seed + n`.
    pub seed: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Weights are made, kernels loaded, the reference is computed.
    Preparing,
    /// So many replays of an arm have been compared.
    Replayed {
        /// The arm.
        arm: Arm,
        /// Replays done.
        done: u32,
    },
}

/// What came out.
#[derive(Clone, Debug)]
pub struct DemoReport {
    /// The device: `sim`, or `cuda:0` and its name.
    pub device: String,
    /// The sizes.
    pub size: Size,
    /// The arms in the order in which they ran.
    pub arms: Vec<ArmReport>,
}

/// What came out of one arm.
#[derive(Clone, Debug)]
pub struct ArmReport {
    /// The arm.
    pub arm: Arm,
    /// Replays made.
    pub replays: u32,
    /// Replays whose final hidden state differs from the reference in any bit.
    pub wrong: u32,
    /// Replays in which any layer selected other entries than the reference.
    pub topk_differs: u32,
    /// The median time of a replay in microseconds, between two events on the
    /// device. The simulated device has no clock.
    pub us_per_replay: Option<f64>,
    /// Bytes that the pools took from the arena.
    pub reserved: u64,
    /// The streams that the driver replays the graph on, as
    /// [`Graph::replay_lanes`](streamweir_sched::Graph::replay_lanes) counts.
    pub replay_lanes: usize,
    /// What the verifier says of the captured graph.
    pub report: Report,
}

impl DemoReport {
    /// The result of an arm.
    pub fn arm(&self, arm: Arm) -> Option<&ArmReport> {
        self.arms.iter().find(|result| result.arm == arm)
    }
}

impl ArmReport {
    /// No wrong replay, no wrong selection, no hazard.
    pub fn is_clean(&self) -> bool {
        self.wrong == 0 && self.topk_differs == 0 && self.report.hazards_total == 0
    }
}

/// Runs all arms on `device` and compares their replays with the reference.
///
/// # Errors
/// When the kernels cannot be compiled for the device, memory runs out, a call
/// of the driver fails, or a capture that is to refuse hazards has one
/// ([`Error::report`] has it then).
pub fn run(
    device: &Device,
    config: &Config,
    progress: impl FnMut(Step),
) -> Result<DemoReport, Error> {
    run_arms(device, config, &Arm::ALL, progress)
}

/// As [`run`], with `arms` only.
///
/// # Errors
/// As [`run`].
pub fn run_arms(
    device: &Device,
    config: &Config,
    arms: &[Arm],
    mut progress: impl FnMut(Step),
) -> Result<DemoReport, Error> {
    progress(Step::Preparing);
    let model = Model::new(device, config.size, config.seed)?;
    let reference = replay::reference(device, &model)?;
    let arms = arms
        .iter()
        .map(|&arm| {
            let graph = arm.capture(device, &model)?;
            let outcome = replay::compare(device, &model, &graph, &reference, config, |done| {
                progress(Step::Replayed { arm, done });
            })?;
            let Outcome {
                wrong,
                topk_differs,
                us_per_replay,
            } = outcome;
            Ok(ArmReport {
                arm,
                replays: config.replays,
                wrong,
                topk_differs,
                us_per_replay,
                reserved: graph.pools().reserved,
                replay_lanes: graph.replay_lanes(),
                report: graph.report().clone(),
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(DemoReport {
        device: name_of(device),
        size: config.size,
        arms,
    })
}

/// The trace of the layers as `arm` captures them, for whatever reads traces.
/// Nothing is replayed, and `config.replays` does not matter.
///
/// # Errors
/// As [`run`].
pub fn trace(device: &Device, config: &Config, arm: Arm) -> Result<Trace, Error> {
    let model = Model::new(device, config.size, config.seed)?;
    Ok(arm.capture(device, &model)?.trace().clone())
}
