//! Steps of a batch: the bucket that holds it, its graph, its results.

use std::collections::BTreeMap;

use half::bf16;
use streamweir::verify::Report;
use streamweir::{ArenaConfig, DeviceStream, Differential, EagerRun, Graph};

use super::arm::{Arm, Exec};
use super::engine::Engine;
use super::error::Error;
use super::inputs::Row;
use super::instruments::Findings;
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
struct Judged {
    report: Report,
    reserved: u64,
}

/// An engine that is ready to run the steps of one arm.
pub struct Decoder<'a> {
    arm: Arm,
    stream: DeviceStream,
    graphs: BTreeMap<u32, Graph>,
    /// Of the rows that ran launch by launch, the run with the most hazards.
    eager: BTreeMap<u32, Judged>,
    watch: Option<Watch>,
    engine: &'a mut Engine,
}

impl Engine {
    /// Captures every bucket for an arm, the largest first: all share one arena,
    /// which then is as large as the largest needs. An eager arm has nothing to
    /// capture.
    ///
    /// # Errors
    /// When a capture is refused or fails.
    pub fn prepare(&mut self, arm: Arm) -> Result<Decoder<'_>, Error> {
        let group = self.device.replay_group("decode", ArenaConfig::default());
        let mut graphs = BTreeMap::new();
        let mut watch = (self.engine_options().instruments.differential && arm != Arm::REFERENCE)
            .then(|| Watch::new(&self.device));
        if arm.exec == Exec::Graph {
            for bucket in self.buckets().rev() {
                let taps = watch.as_mut().map(|watch| watch.taps(bucket));
                graphs.insert(bucket, self.capture_tapped(arm, bucket, &group, taps)?);
            }
        }
        Ok(Decoder {
            arm,
            stream: self.device.stream("decode")?,
            graphs,
            eager: BTreeMap::new(),
            watch,
            engine: self,
        })
    }
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

    /// The graph of a bucket.
    pub(super) fn graph(&self, bucket: u32) -> Result<&Graph, Error> {
        self.graphs.get(&bucket).ok_or(Error::NoGraph { bucket })
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

    /// Runs a step of a batch and compares what each command read and wrote with
    /// the same step on one stream without graphs. Its results are those of
    /// [`chosen`](Self::chosen), as after [`step`](Self::step).
    ///
    /// # Errors
    /// As [`step`](Self::step); [`Error::NotWatched`] when the engine was made
    /// without [`Instruments::differential`](super::Instruments::differential), or
    /// the arm is the reference itself.
    pub fn differential(&mut self, batch: &[Row<'_>]) -> Result<Differential, Error> {
        if self.watch.is_none() {
            return Err(Error::NotWatched);
        }
        let rows = self.stage(batch)?;
        let run = self.run(rows)?;
        let Some(watch) = &mut self.watch else {
            return Err(Error::NotWatched);
        };
        let of_graph = self.graphs.get(&rows).map(|g| (g.trace(), g.report()));
        let of_run = run.as_ref().map(|run| (run.trace(), run.report()));
        watch.compare(self.engine, rows, of_graph.or(of_run))
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
    pub fn found(&self) -> Result<Findings, Error> {
        let engine = &*self.engine;
        let canary = engine.engine_options().instruments.canary;
        let guards = canary.then(|| engine.device.check_guards());
        Ok(Findings {
            guards: guards.transpose()?,
            compared: self.watch.as_ref().map(Watch::compared),
        })
    }

    /// Waits for the last step and returns the slots that each layer with an indexer
    /// selected for the `rows` rows, by its number. There are none unless the engine
    /// keeps them ([`EngineOptions::keep_selected`](super::EngineOptions)).
    ///
    /// # Errors
    /// When the device fails.
    pub fn selected(&self, rows: usize) -> Result<BTreeMap<u32, Vec<i32>>, Error> {
        let model = &self.engine.model;
        let each = model.config.top_k as usize;
        (model.selected.iter())
            .map(|(&layer, kept)| {
                let mut slots = kept.download()?;
                slots.truncate(rows * each);
                Ok((layer, slots))
            })
            .collect()
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

#[cfg(test)]
mod tests {
    use streamweir::driver::sim::SimDriver;
    use streamweir::{Device, Taps};

    use super::super::arm::{EngineOptions, Packing, Pools, Setup};
    use super::super::config::Overlap;
    use super::super::instruments::Instruments;
    use super::*;

    /// Whatever the arm does wrong, it is held against one stream without graphs.
    #[test]
    fn the_reference_is_not_the_arm() {
        let driver = SimDriver::new(1);
        let device = Device::with_driver(driver.clone());
        let setup = Setup {
            packing: Packing::Ordered,
            ..Setup::of_three_layers(2)
        };
        let instruments = Instruments {
            differential: true,
            ..Instruments::default()
        };
        let options = EngineOptions {
            instruments,
            ..EngineOptions::default()
        };
        let mut engine = Engine::with_options(&device, setup, options).unwrap();
        let mut pages = engine.reset().unwrap();
        let mut sequences = [pages.begin().unwrap(), pages.begin().unwrap()];
        for sequence in &mut sequences {
            pages.grow(sequence, 128).unwrap();
        }
        let batch = sequences
            .each_ref()
            .map(|sequence| Row { sequence, token: 3 });
        let mut decoder = engine
            .prepare(Arm {
                overlap: Overlap::Full,
                pools: Pools::Shared,
                exec: Exec::Graph,
            })
            .unwrap();
        let independent = Taps::new(&device, "independent");
        let mut wrong = 0;
        for seed in 0..4 {
            driver.reseed(seed);
            wrong += decoder.differential(&batch).unwrap().differing;
            let engine = &decoder.engine;
            (engine.run_eager(Arm::REFERENCE, 2, Some(&independent))).unwrap();
            let expected = independent.read().unwrap();
            let reference = decoder.watch.as_ref().unwrap().reference().unwrap();
            let found = expected.compare(&reference).unwrap();
            assert!(found.is_clean(), "{seed}: {found}");
        }
        assert!(wrong > 0, "no interleaving showed a hazard");
    }
}
