//! Steps that are compared with the reference, command by command.
//!
//! The arm runs first, from the caches as its own steps have left them, and the
//! reference after it from the same inputs: the other way round the reference's
//! entries would be there already for a kernel of the arm that reads them too
//! early. A step writes what it stores at places that depend on its inputs alone,
//! so that the second run of it finds what the first one found. The arm's results
//! are put back; its caches then hold what the reference stored, which is the same
//! until a step differs.

use std::collections::BTreeMap;

use streamweir_sched::{Device, Differential, Taps};

use super::arm::Arm;
use super::decoder::Decoder;
use super::error::Error;
use super::inputs::Row;
use super::instruments::{Compared, FirstDifference};

/// What a decoder compares with.
pub(super) struct Watch {
    device: Device,
    /// By the rows of the step.
    taps: BTreeMap<u32, Taps>,
    reference: Taps,
    compared: Compared,
}

impl Watch {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            taps: BTreeMap::new(),
            reference: Taps::new(device, "reference"),
            compared: Compared::default(),
        }
    }

    /// The taps of a step of so many rows.
    pub(super) fn taps(&mut self, rows: u32) -> &Taps {
        let device = &self.device;
        self.taps
            .entry(rows)
            .or_insert_with(|| Taps::new(device, format!("step of {rows} rows")))
    }

    /// Whether steps are still compared.
    pub(super) fn looks(&self) -> bool {
        self.compared.first.is_none()
    }

    pub(super) fn compared(&self) -> Compared {
        self.compared.clone()
    }
}

impl Decoder<'_> {
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
        let seen = watch.taps(rows).read()?;
        let model = &self.engine.model;
        let (hidden, chosen) = (model.hidden.download()?, model.chosen.download()?);
        (self.engine).run_eager(Arm::REFERENCE, rows, Some(&watch.reference))?;
        let expected = watch.reference.read()?;
        model.hidden.upload(&hidden)?;
        model.chosen.upload(&chosen)?;

        let differential = expected.compare(&seen)?;
        watch.compared.steps += 1;
        if let Some(first) = differential.first()
            && watch.compared.first.is_none()
        {
            let of_graph = self.graphs.get(&rows).map(|g| (g.trace(), g.report()));
            let of_run = run.as_ref().map(|run| (run.trace(), run.report()));
            let judged = of_graph.or(of_run);
            watch.compared.first = Some(FirstDifference {
                step: watch.compared.steps,
                rows,
                named: judged.is_some_and(|(trace, report)| first.is_named_by(trace, report)),
                differential: differential.clone(),
            });
        }
        Ok(differential)
    }
}

#[cfg(test)]
mod tests {
    use streamweir_sched::driver::sim::SimDriver;

    use super::super::arm::{EngineOptions, Exec, Packing, Pools, Setup};
    use super::super::config::Overlap;
    use super::super::engine::Engine;
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
            let reference = decoder.watch.as_ref().unwrap().reference.read().unwrap();
            let found = expected.compare(&reference).unwrap();
            assert!(found.is_clean(), "{seed}: {found}");
        }
        assert!(wrong > 0, "no interleaving showed a hazard");
    }
}
