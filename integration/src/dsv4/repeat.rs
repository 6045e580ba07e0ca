//! One step, repeated in several arms, each time compared with the reference.
//!
//! The batch and its inputs are the same every time, and a step stores the same
//! entries in the same places again. So every replay has to come to the bits of one
//! run on one stream without graphs, and what an earlier replay has stored wrong is
//! stored anew before it is read.

use std::collections::BTreeMap;

use streamweir::Device;
use streamweir::verify::Report;

use super::arm::{Arm, EngineOptions, Setup};
use super::decoder::{Chosen, Decoder};
use super::engine::Engine;
use super::error::Error;
use super::inputs::Row;
use super::pages::{Pages, Sequence};
use super::timer::{Timer, median};
use crate::common::name_of;

/// What is repeated, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Tokens of the longest sequence; each of the others has one less.
    pub context: u32,
    /// Replays of each arm.
    pub replays: u32,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatProgress {
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

/// What came out of all arms.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// The device: `sim`, or `cuda:0` and its name.
    pub device: String,
    /// What was run: one batch with all rows that there are inputs for.
    pub setup: Setup,
    /// The arms, in the order in which they ran.
    pub arms: Vec<RepeatedArm>,
}

/// What came out of one arm.
#[derive(Clone, Debug)]
pub struct RepeatedArm {
    /// The arm.
    pub arm: Arm,
    /// Replays made.
    pub replays: u32,
    /// Replays whose hidden states or tokens differ from the reference in any bit.
    pub wrong: u32,
    /// Replays in which any layer selected other entries than the reference.
    pub selected_differs: u32,
    /// The median time of a replay in microseconds, between two events on the
    /// device. The simulated device has no clock.
    pub us_per_replay: Option<f64>,
    /// Bytes that the pools took from the arena.
    pub reserved: u64,
    /// The streams that the driver replays the graph on, as
    /// [`Graph::replay_streams`](streamweir::Graph::replay_streams) counts.
    pub replay_streams: usize,
    /// What the verifier says of the captured graph.
    pub report: Report,
}

impl Repetition {
    /// Runs the step once as the reference, and `repeat.replays` times in each arm.
    /// On the simulated device replay `n` of every arm interleaves as
    /// `setup.seed + n` says.
    ///
    /// # Errors
    /// When the model cannot be made, the context does not fit the setup, an arm is
    /// eager or has no bucket for the batch, a capture that is to refuse hazards has
    /// one ([`Error::report`] has it then), or the device fails.
    pub fn run(
        device: &Device,
        setup: Setup,
        repeat: Repeat,
        arms: &[Arm],
        mut progress: impl FnMut(RepeatProgress),
    ) -> Result<Self, Error> {
        progress(RepeatProgress::Preparing);
        let options = EngineOptions {
            keep_selected: true,
            ..EngineOptions::default()
        };
        let mut engine = Engine::with_options(device, setup.clone(), options)?;
        let batch = Batch::new(&engine, repeat.context)?;
        let mut decoder = engine.prepare(Arm::REFERENCE)?;
        decoder.step(&batch.rows())?;
        let reference = batch.results(&decoder)?;
        drop(decoder);
        let arms = arms
            .iter()
            .map(|&arm| {
                let mut told = |done| progress(RepeatProgress::Replayed { arm, done });
                let decoder = engine.prepare(arm)?;
                batch.replay(device, decoder, repeat, &reference, &mut told)
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            device: name_of(device),
            setup,
            arms,
        })
    }

    /// The result of an arm.
    pub fn arm(&self, arm: Arm) -> Option<&RepeatedArm> {
        self.arms.iter().find(|result| result.arm == arm)
    }
}

impl RepeatedArm {
    /// No wrong replay, no wrong selection, no hazard.
    pub fn is_clean(&self) -> bool {
        self.wrong == 0 && self.selected_differs == 0 && self.report.hazards_total == 0
    }
}

/// What a step came to.
#[derive(PartialEq, Eq)]
struct Results {
    chosen: Chosen,
    selected: BTreeMap<u32, Vec<i32>>,
}

/// The sequences of the step.
struct Batch {
    /// Whose they are.
    _pages: Pages,
    sequences: Vec<Sequence>,
}

impl Batch {
    fn new(engine: &Engine, context: u32) -> Result<Self, Error> {
        let mut pages = engine.reset()?;
        let sequences = (0..engine.setup().capacity.rows)
            .map(|row| {
                let mut sequence = pages.begin()?;
                // Every phase of the compressors' groups is there.
                pages.grow(&mut sequence, context.saturating_sub(row).max(1))?;
                Ok(sequence)
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            _pages: pages,
            sequences,
        })
    }

    fn rows(&self) -> Vec<Row<'_>> {
        (self.sequences.iter().zip(1..))
            .map(|(sequence, token)| Row { sequence, token })
            .collect()
    }

    fn results(&self, decoder: &Decoder<'_>) -> Result<Results, Error> {
        Ok(Results {
            chosen: decoder.chosen(self.sequences.len())?,
            selected: decoder.selected(self.sequences.len())?,
        })
    }

    fn replay(
        &self,
        device: &Device,
        mut decoder: Decoder<'_>,
        repeat: Repeat,
        reference: &Results,
        done: &mut impl FnMut(u32),
    ) -> Result<RepeatedArm, Error> {
        let bucket = decoder.stage(&self.rows())?;
        decoder.graph(bucket)?;
        let timer = match device.simulated() {
            Some(_) => None,
            None => Some(Timer::new(device)?),
        };
        let seed = decoder.engine().setup().seed;
        let (mut wrong, mut selected_differs, mut times) = (0, 0, Vec::new());
        for replay in 0..repeat.replays {
            if let Some(sim) = device.simulated() {
                sim.reseed(seed.wrapping_add(replay.into()));
            }
            match &timer {
                Some(timer) => times.push(timer.replay(decoder.graph(bucket)?)?),
                None => drop(decoder.run(bucket)?),
            }
            let results = self.results(&decoder)?;
            wrong += u32::from(results.chosen != reference.chosen);
            selected_differs += u32::from(results.selected != reference.selected);
            done(replay + 1);
        }
        let graph = decoder.graph(bucket)?;
        Ok(RepeatedArm {
            arm: decoder.arm(),
            replays: repeat.replays,
            wrong,
            selected_differs,
            us_per_replay: median(times),
            reserved: graph.pools().reserved,
            replay_streams: graph.replay_streams(),
            report: graph.report().clone(),
        })
    }
}
