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

/// An engine that is ready to run the steps of one arm.
pub struct Decoder<'a> {
    pub(super) arm: Arm,
    pub(super) stream: DeviceStream,
    pub(super) graphs: BTreeMap<u32, Graph>,
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

    /// What the verifier says of each graph.
    pub fn reports(&self) -> impl Iterator<Item = (u32, &Report)> {
        self.graphs
            .iter()
            .map(|(&bucket, graph)| (bucket, graph.report()))
    }

    /// Bytes that the pools take of the arena that all graphs share: what the
    /// largest of them takes.
    pub fn reserved(&self) -> u64 {
        self.graphs
            .values()
            .map(|graph| graph.pools().reserved)
            .max()
            .unwrap_or(0)
    }

    /// The least bytes that the scratch of the largest graph can do with, as the
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
        self.engine.run_eager(self.arm, rows, taps).map(Some)
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
