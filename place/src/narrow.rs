//! Exact searches that narrow down how low a layout can be.
//!
//! Runs at the lowest height that is not ruled out take turns with runs at heights
//! between that and the best layout: the former prove or reach the least, the
//! latter get lower step by step where it is out of reach.

use crate::budget::Meter;
use crate::exact::{Exact, Outcome, Taste, units};
use crate::improve::Arranged;

/// The steps of the shortest run.
const UNIT: u64 = 1 << 16;

/// How often a height between is tried, with another taste each time, before one
/// nearer to the best layout is.
const PATIENCE: u64 = 4;

/// Runs over one set of buffers.
pub(crate) struct Narrow<'a> {
    exact: Exact<'a>,
    /// No layout is lower than this.
    low: u64,
    /// How many runs there have been at the lowest height.
    lowest: u64,
    /// How many there have been between.
    between: u64,
    /// The runs between since the last one that found a layout.
    failures: u64,
}

impl<'a> Narrow<'a> {
    pub(crate) fn new(exact: Exact<'a>, floor: u64) -> Self {
        Self {
            exact,
            low: floor,
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
    pub(crate) fn turn(&mut self, best: &mut Arranged, enough: u64, meter: &mut Meter) {
        while best.height > enough.max(self.low) && !meter.is_spent() {
            let lowest = enough.max(self.low);
            if self.lowest <= self.between {
                let run = self.lowest;
                self.lowest += 1;
                self.attempt(best, lowest, run, meter);
            } else {
                let run = self.between;
                self.between += 1;
                let parts = 2 << (self.failures / PATIENCE).min(32);
                let down = ((best.height - lowest) / parts).max(1);
                if self.attempt(best, best.height - down, run, meter) {
                    self.failures = 0;
                } else {
                    self.failures += 1;
                }
            }
        }
    }

    /// Whether a layout no higher than `bound` was found.
    fn attempt(&mut self, best: &mut Arranged, bound: u64, run: u64, meter: &mut Meter) -> bool {
        let mut part = meter.part(UNIT * units(run + 1));
        let outcome = self.exact.solve(bound, Taste::number(run), &mut part);
        meter.reclaim(&part);
        match outcome {
            Outcome::Solved(offsets) => {
                best.adopt(offsets, self.exact.sizes());
                return true;
            }
            Outcome::Impossible => self.low = self.low.max(bound + 1),
            Outcome::Stopped => {}
        }
        false
    }
}
