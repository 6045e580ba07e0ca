//! The same load in several arms, each compared with the reference.

use std::time::{Duration, Instant};

use streamweir::Device;
use streamweir::verify::Report;

use super::arm::{Arm, EngineOptions, Pools, Setup};
use super::config::Overlap;
use super::engine::Engine;
use super::error::Error;
use super::instruments::Findings;
use super::sessions::{Load, Transcript};
use crate::common::name_of;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Weights are made and kernels loaded.
    Preparing,
    /// So many steps of the reference are done.
    Reference {
        /// Steps.
        steps: u64,
    },
    /// So many steps of an arm are done.
    Arm {
        /// The arm.
        arm: Arm,
        /// Steps.
        steps: u64,
        /// Steps that it will have.
        of: u64,
    },
}

/// What came out of all arms.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The device: `sim`, or `cuda:0` and its name.
    pub device: String,
    /// What was run.
    pub setup: Setup,
    /// The load.
    pub load: Load,
    /// The arms, in the order in which they ran.
    pub arms: Vec<ArmReport>,
}

/// What came out of one arm.
#[derive(Clone, Debug)]
pub struct ArmReport {
    /// The arm.
    pub arm: Arm,
    /// Sessions.
    pub sessions: usize,
    /// Sessions whose tokens or hidden states differ from the reference in any
    /// bit.
    pub wrong_sessions: usize,
    /// Hazards in the graphs of all buckets; in an eager arm, those of the worst
    /// step of each bucket.
    pub hazards: u64,
    /// The report of the largest bucket with hazards, if there is one.
    pub report: Option<Report>,
    /// Bytes that the pools take of the arena that all buckets share, or in the
    /// largest step of an eager arm.
    pub reserved: u64,
    /// The least bytes that the scratch of the largest graph, or step, can do with.
    pub floor: u64,
    /// Ids and positions outside pools and tables that kernels met.
    pub faults: u32,
    /// What the instruments found.
    pub found: Findings,
    /// How long the host took to capture, prove and instantiate the graphs of all
    /// buckets; next to nothing in an eager arm, which has none.
    pub start_up: Duration,
    /// Tokens in a second, of the host's clock over the whole load; the
    /// simulated device has no clock.
    pub tokens_per_second: Option<f64>,
    /// Microseconds of a step, likewise.
    pub us_per_step: Option<f64>,
}

impl ArmReport {
    /// No session differs, no hazard, no fault, and no instrument found anything.
    pub fn is_clean(&self) -> bool {
        self.wrong_sessions == 0 && self.hazards == 0 && self.faults == 0 && self.found.is_clean()
    }
}

impl Matrix {
    /// Runs the load once as the reference and once for each arm.
    ///
    /// # Errors
    /// When the model cannot be made, a capture that is to refuse hazards has
    /// one, the caches are too small for the load, or the device fails.
    pub fn run(
        device: &Device,
        setup: Setup,
        load: Load,
        arms: &[Arm],
        progress: impl FnMut(Progress),
    ) -> Result<Self, Error> {
        Self::run_with(
            device,
            setup,
            EngineOptions::default(),
            load,
            arms,
            progress,
        )
    }

    /// As [`run`](Self::run), with an engine that runs as `options` say.
    ///
    /// # Errors
    /// As there.
    pub fn run_with(
        device: &Device,
        setup: Setup,
        options: EngineOptions,
        load: Load,
        arms: &[Arm],
        mut progress: impl FnMut(Progress),
    ) -> Result<Self, Error> {
        progress(Progress::Preparing);
        let mut engine = Engine::with_options(device, setup.clone(), options)?;
        let reference = Self::play(device, &mut engine, Arm::REFERENCE, &load, |steps| {
            progress(Progress::Reference { steps });
        })?;
        let expected = reference.transcript;
        let of = expected.steps;
        let mut reports = Vec::with_capacity(arms.len());
        for &arm in arms {
            let played = Self::play(device, &mut engine, arm, &load, |steps| {
                progress(Progress::Arm { arm, steps, of });
            })?;
            reports.push(ArmReport {
                sessions: expected.digests.len(),
                wrong_sessions: played.transcript.wrong_sessions(&expected),
                ..played.report
            });
        }
        Ok(Self {
            device: name_of(device),
            setup,
            load,
            arms: reports,
        })
    }

    fn play(
        device: &Device,
        engine: &mut Engine,
        arm: Arm,
        load: &Load,
        mut done: impl FnMut(u64),
    ) -> Result<Played, Error> {
        let pages = engine.reset()?;
        let start = Instant::now();
        let mut decoder = engine.prepare(arm)?;
        let start_up = start.elapsed();
        let sim = device.simulated();
        let start = Instant::now();
        let transcript = load.run(&mut decoder, pages, |steps| {
            // Every step interleaves in its own way.
            if let Some(sim) = sim {
                sim.reseed(load.seed.wrapping_add(steps));
            }
            done(steps);
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let clocked = sim.is_none();
        let hazards = decoder
            .reports()
            .map(|(_, report)| report.hazards_total)
            .sum();
        let report = decoder
            .reports()
            .filter(|(_, report)| report.hazards_total > 0)
            .last()
            .map(|(_, report)| report.clone());
        let (reserved, floor) = (decoder.reserved(), decoder.floor());
        let (faults, found) = (decoder.engine().faults()?, decoder.found()?);
        Ok(Played {
            report: ArmReport {
                arm,
                sessions: 0,
                wrong_sessions: 0,
                hazards,
                report,
                reserved,
                floor,
                faults,
                found,
                start_up,
                tokens_per_second: clocked.then(|| transcript.tokens as f64 / seconds),
                us_per_step: clocked.then(|| seconds * 1e6 / transcript.steps as f64),
            },
            transcript,
        })
    }

    /// How much faster than with the overlap off, in tagged pools and executed
    /// alike, where that ran.
    pub fn speedup(&self, report: &ArmReport) -> Option<f64> {
        let off = Arm {
            overlap: Overlap::Off,
            pools: Pools::Tagged,
            ..report.arm
        };
        let off = self.arms.iter().find(|other| other.arm == off)?;
        Some(off.us_per_step? / report.us_per_step?)
    }

    /// Whether every arm with tagged pools is clean.
    pub fn tagged_is_clean(&self) -> bool {
        self.arms
            .iter()
            .filter(|report| report.arm.pools == Pools::Tagged)
            .all(ArmReport::is_clean)
    }
}

struct Played {
    report: ArmReport,
    transcript: Transcript,
}
