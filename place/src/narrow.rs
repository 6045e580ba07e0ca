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

/// How many steps down there are to choose from, each half of the one before, the first half of
/// what lies between the lowest height and the best layout.
const STEPS: usize = 8;

/// How runs one step down have ended, lately.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    runs: u32,
    reached: u32,
}

impl Record {
    /// What part of the way a run may be hoped to make.
    fn promise(self, step: usize) -> f64 {
        let chance = f64::from(self.reached + 1) / f64::from(self.runs + 2);
        chance / f64::from(2_u32 << step)
    }
}

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
    records: [Record; STEPS],
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
            records: [Record::default(); STEPS],
        }
    }

    /// Tells that no layout is lower than this.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.low = self.low.max(floor);
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
            let promise = |step: &usize| self.records[*step].promise(*step);
            let step = (0..STEPS).max_by(|a, b| promise(a).total_cmp(&promise(b)));
            let step = step.unwrap_or(0);
            let down = ((best.height - lowest) >> (step + 1)).max(1);
            let bound = best.height - down;
            let bound = (bound - bound % self.grain).max(lowest);
            self.records[step].runs += 1;
            if self.attempt(best, bound, run, meter) {
                self.records[step].reached += 1;
                // What lies between is another one now.
                for record in &mut self.records {
                    record.runs /= 2;
                    record.reached /= 2;
                }
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
