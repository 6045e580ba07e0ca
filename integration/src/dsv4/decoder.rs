//! Steps of a batch: the bucket that holds it, its graph, its results.

use std::collections::BTreeMap;

use half::bf16;
use streamweir_sched::{DeviceStream, EagerRun, Graph};
use streamweir_verify::Report;

use super::arm::Arm;
use super::engine::Engine;
use super::error::Error;
use super::inputs::Row;
use super::instruments::Found;
use super::watch::Watch;

/// What came out of a step, by row of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The token that each row goes on with.
    pub tokens: Vec<i32>,
    /// The bits of each row's last hidden state.
    pub hidden: Vec<Vec<u16>>,
}

/// What is kept of an eager run.
pub(super) struct Judged {
    report: Report,
    reserved: u64,
}

/// An engine that is ready to run the steps of one arm.
pub struct Decoder<'a> {
    pub(super) arm: Arm,
    pub(super) stream: DeviceStream,
    pub(super) graphs: BTreeMap<u32, Graph>,
    /// Of the rows that ran launch by launch, the run with the most hazards.
    pub(super) eager: BTreeMap<u32, Judged>,
    pub(super) watch: Option<Watch>,
    pub(super) engine: &'a mut Engine,
}

impl Decoder<'_> {
    /// The arm.
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// The graphs, by bucket; none in an eager arm.
    pub fn graphs(&self) -> &BTreeMap<u32, Graph> {
        &self.graphs
    }

    /// What the verifier says of each graph, and of the steps so far that ran
    /// launch by launch, the one with the most hazards of each number of rows.
    pub fn reports(&self) -> impl Iterator<Item = (u32, &Report)> {
        let graphs = self.graphs.iter();
        let eager = self.eager.iter();
        graphs
            .map(|(&bucket, graph)| (bucket, graph.report()))
            .chain(eager.map(|(&rows, judged)| (rows, &judged.report)))
    }

    /// Bytes that the pools take of the arena that all graphs share: what the
    /// largest of them takes, or of an eager step.
    pub fn reserved(&self) -> u64 {
        let graphs = self.graphs.values().map(|graph| graph.pools().reserved);
        let eager = self.eager.values().map(|judged| judged.reserved);
        graphs.chain(eager).max().unwrap_or(0)
    }

    /// The least bytes that the scratch of the largest step can do with, as the
    /// verifier counts it (R9).
    pub fn floor(&self) -> u64 {
        self.reports()
            // The last row is of all pools together, or of the only one.
            .filter_map(|(_, report)| report.growth.last())
            .map(|growth| growth.floor)
            .max()
            .unwrap_or(0)
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Enqueues a step of a batch; [`chosen`](Self::chosen) waits for it.
    ///
    /// With [`Instruments::differential`](super::Instruments::differential) it waits,
    /// and compares the step, until one has differed.
    ///
    /// # Errors
    /// When no bucket holds the batch, a row is wrong ([`Error::Row`]), or the
    /// device fails. Other sequences are not touched.
    pub fn step(&mut self, batch: &[Row<'_>]) -> Result<(), Error> {
        if self.watch.as_ref().is_some_and(Watch::looks) {
            return self.differential(batch).map(drop);
        }
        let rows = self.stage(batch)?;
        self.run(rows).map(drop)
    }

    /// Enqueues the inputs of a batch. The rows that it runs with.
    pub(super) fn stage(&mut self, batch: &[Row<'_>]) -> Result<u32, Error> {
        let rows = self.engine.rows(batch.len())?;
        self.engine.stage(batch)?;
        Ok(rows)
    }

    /// Enqueues a step of so many rows. What it did when it was not a graph.
    pub(super) fn run(&mut self, rows: u32) -> Result<Option<EagerRun>, Error> {
        if let Some(graph) = self.graphs.get(&rows) {
            graph.replay(&self.stream)?;
            return Ok(None);
        }
        let taps = self.watch.as_mut().map(|watch| watch.taps(rows));
        let run = self.engine.run_eager(self.arm, rows, taps)?;
        let worst = self
            .eager
            .get(&rows)
            .map(|judged| judged.report.hazards_total);
        if worst.is_none_or(|worst| worst < run.report().hazards_total) {
            let judged = Judged {
                report: run.report().clone(),
                reserved: run.pools().reserved,
            };
            self.eager.insert(rows, judged);
        }
        Ok(Some(run))
    }

    /// What the instruments have found.
    ///
    /// # Errors
    /// When the device fails, on which the guards are looked at.
    pub fn found(&self) -> Result<Found, Error> {
        let engine = &*self.engine;
        let canary = engine.engine_options().instruments.canary;
        let guards = canary.then(|| engine.device.check_guards());
        Ok(Found {
            guards: guards.transpose()?,
            compared: self.watch.as_ref().map(Watch::compared),
        })
    }

    /// Waits for the last step and returns what it chose for its `rows` rows.
    ///
    /// # Errors
    /// When the device fails.
    pub fn chosen(&self, rows: usize) -> Result<Chosen, Error> {
        let model = &self.engine.model;
        let mut tokens = model.chosen.download()?;
        tokens.truncate(rows);
        let width = model.config.hidden as usize;
        let hidden = model.hidden.download()?;
        Ok(Chosen {
            tokens,
            hidden: hidden
                .chunks_exact(width)
                .take(rows)
                .map(|row| row.iter().copied().map(bf16::to_bits).collect())
                .collect(),
        })
    }
}
