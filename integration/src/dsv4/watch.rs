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

#[cfg(test)]
use streamweir::Readings;
use streamweir::trace::Trace;
use streamweir::verify::Report;
use streamweir::{Device, Differential, Taps};

use super::arm::Arm;
use super::engine::Engine;
use super::error::Error;
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

    /// Compares the step of `rows` rows that was run last with the same step of the
    /// reference. `judged` is what was recorded of it, and what the verifier says.
    pub(super) fn compare(
        &mut self,
        engine: &Engine,
        rows: u32,
        judged: Option<(&Trace, &Report)>,
    ) -> Result<Differential, Error> {
        let seen = self.taps(rows).read()?;
        let model = engine.model();
        let (hidden, chosen) = (model.hidden.download()?, model.chosen.download()?);
        engine.run_eager(Arm::REFERENCE, rows, Some(&self.reference))?;
        let expected = self.reference.read()?;
        model.hidden.upload(&hidden)?;
        model.chosen.upload(&chosen)?;

        let differential = expected.compare(&seen)?;
        self.compared.steps += 1;
        if let Some(first) = differential.first()
            && self.compared.first.is_none()
        {
            self.compared.first = Some(FirstDifference {
                step: self.compared.steps,
                rows,
                named: judged.is_some_and(|(trace, report)| first.is_named_by(trace, report)),
                differential: differential.clone(),
            });
        }
        Ok(differential)
    }

    /// What the reference's commands read and wrote in the last step compared.
    #[cfg(test)]
    pub(super) fn reference(&self) -> Result<Readings, Error> {
        Ok(self.reference.read()?)
    }
}
