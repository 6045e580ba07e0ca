//! Exact searches that narrow down how low a layout can be.
//!
//! Runs at the lowest height that is not ruled out take turns with runs at heights
//! between that and the best layout: the former prove or reach the least, the
//! latter get lower step by step where it is out of reach.
//!
//! Most runs end within a few times the steps that a run takes which never has to go back, or
//! practically never. So that is the unit of their lengths.

use crate::budget::Meter;
use crate::eject::Layout;
use crate::exact::{Exact, Outcome, Taste, units};

/// The steps of the shortest run, as long as no run has gone from end to end.
const UNIT: u64 = 1 << 16;

/// How often a height between is tried, with another taste each time, before one
/// nearer to the best layout is.
const PATIENCE: u64 = 6;

/// Runs over one set of buffers.
pub(crate) struct Narrow<'a> {
    exact: Exact<'a>,
    /// The greatest number that all sizes and alignments are multiples of; so are all heights.
    grain: u64,
    /// No layout is lower than this.
    low: u64,
    /// The steps of the shortest run.
    unit: Option<u64>,
    /// How many runs there have been at the lowest height.
    lowest: u64,
    /// How many there have been between.
    between: u64,
    /// The runs between that found no layout, less [`PATIENCE`] for each that did.
    failures: u64,
}

impl<'a> Narrow<'a> {
    pub(crate) fn new(exact: Exact<'a>, floor: u64) -> Self {
        Self {
            grain: exact.grain(),
            exact,
            low: floor,
            unit: None,
            lowest: 0,
            between: 0,
            failures: 0,
        }
    }

    /// Whether there is no layout lower than this.
    pub(crate) fn proves(&self, height: u64) -> bool {
        self.low >= height
    }

    /// Lowers `best` until it is no higher than `enough`, nothing lower is
    /// possible, or the steps are used up.
    pub(crate) fn turn(&mut self, best: &mut Layout, enough: u64, meter: &mut Meter) {
        while best.height > enough.max(self.low) && !meter.is_spent() {
            let lowest = enough.max(self.low);
            if self.lowest <= self.between {
                let run = self.lowest;
                self.lowest += 1;
                self.attempt(best, lowest, run, meter);
                continue;
            }
            let run = self.between;
            self.between += 1;
            let parts = 2 << (self.failures / PATIENCE).min(32);
            let down = ((best.height - lowest) / parts).max(1);
            let bound = best.height - down;
            let bound = (bound - bound % self.grain).max(lowest);
            if self.attempt(best, bound, run, meter) {
                self.failures = self.failures.saturating_sub(PATIENCE);
            } else {
                self.failures += 1;
            }
            if down <= self.grain {
                // As near as can be: begin again further down.
                self.failures = 0;
            }
        }
    }

    /// Whether a layout no higher than `bound` was found.
    fn attempt(&mut self, best: &mut Layout, bound: u64, run: u64, meter: &mut Meter) -> bool {
        let unit = *self.unit.get_or_insert_with(|| {
            // With all the room in the world nothing has to be taken back.
            let mut part = meter.part(u64::MAX);
            let before = part.left();
            let ample = self.exact.ample();
            self.exact.solve(ample, Taste::number(0), &mut part);
            let dive = before - part.left();
            meter.reclaim(&part);
            dive.saturating_mul(2).max(UNIT)
        });
        let mut part = meter.part(unit.saturating_mul(units(run + 1)));
        let outcome = self.exact.solve(bound, Taste::number(run), &mut part);
        meter.reclaim(&part);
        match outcome {
            Outcome::Solved(offsets) => {
                best.height = self.exact.sizes().height(&offsets);
                best.offsets = offsets;
                return true;
            }
            Outcome::Impossible => self.low = self.low.max(bound + 1),
            Outcome::Stopped => {}
        }
        false
    }
}
