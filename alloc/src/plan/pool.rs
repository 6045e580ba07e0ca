//! The plan of one pool: the orders, the local search and the exact one, in turn.

use super::budget::Meter;
use super::conflict::Conflicts;
use super::exact::{Exact, Outcome, Taste};
use super::fit::{Fit, Gap, Sizes};
use super::improve::{Found, improve};
use super::lives::Lives;
use super::order;
use super::rng::Rng;
use super::section::Sections;

/// The most buffers that the exact search is tried on. It calls itself once for
/// each buffer.
const MOST_EXACT: usize = 1500;

/// The buffers of one pool.
#[derive(Clone, Copy)]
pub(super) struct Pool<'a> {
    pub(super) sizes: Sizes<'a>,
    pub(super) lives: &'a Lives,
    pub(super) conflicts: &'a Conflicts,
}

impl Pool<'_> {
    /// A layout that is as low as can be found, or no higher than `enough`.
    pub(super) fn plan(&self, enough: u64, meter: &mut Meter) -> Found {
        let totals = Sections::new(self.lives).totals(self.sizes.bytes);
        let floor = totals.into_iter().max().unwrap_or(0);
        let enough = enough.max(floor);
        let mut best = self.first(enough, meter);
        let mut rng = Rng::new(best.offsets.len() as u64);
        let mut search = self.search(floor);
        let fit = Fit::new(self.sizes, self.conflicts);
        // Turns that grow: a problem that one of the two solves quickly is not
        // kept waiting by the other.
        let mut turn = 1 << 18;
        while best.height > enough && !meter.is_spent() {
            let mut part = meter.part(turn);
            improve(&fit, &mut best, enough, &mut part, &mut rng);
            meter.settle(&part);
            if let Some(search) = &mut search {
                search.turn(&mut best, enough, turn, meter);
                if search.low >= best.height {
                    // Proved: there is none lower.
                    break;
                }
            }
            turn = turn.saturating_mul(2);
        }
        best
    }

    /// The lowest layout of the portfolio.
    fn first(&self, enough: u64, meter: &mut Meter) -> Found {
        let mut best: Option<Found> = None;
        let mut fit = Fit::new(self.sizes, self.conflicts);
        let work = self.conflicts.len() as u64 + 8 * self.sizes.bytes.len() as u64;
        for order in order::portfolio(self.lives, self.sizes.bytes, self.conflicts) {
            for gap in [Gap::Best, Gap::First] {
                let height = best.as_ref().map_or(u64::MAX, |best| best.height);
                if height <= enough || (best.is_some() && !meter.take(work)) {
                    break;
                }
                if let Some(height) = fit.place_all(&order, gap, height) {
                    best = Some(Found {
                        order: order.clone(),
                        gap,
                        offsets: fit.offsets.clone(),
                        height,
                    });
                }
            }
        }
        best.unwrap_or(Found {
            order: Vec::new(),
            gap: Gap::Best,
            offsets: Vec::new(),
            height: 0,
        })
    }

    fn search(&self, floor: u64) -> Option<Narrow<'_>> {
        let small = self.sizes.bytes.len() <= MOST_EXACT && self.lives.has_one_axis();
        small.then(|| Narrow {
            exact: Exact::new(self.sizes, self.lives, self.conflicts),
            low: floor,
            taste: Taste::GOOD,
        })
    }
}

/// An exact search that narrows down how low a layout can be.
struct Narrow<'a> {
    exact: Exact<'a>,
    /// No layout is lower than this.
    low: u64,
    /// The next taste with noise.
    taste: u64,
}

impl Narrow<'_> {
    /// Tries the lowest height that is left with each of the good tastes and as
    /// many with noise, for so many steps each: a search that succeeds does so
    /// soon, with few tastes, and nothing tells which. Then heights between that
    /// and the best, from which the best gets lower step by step where the floor
    /// is out of reach.
    fn turn(&mut self, best: &mut Found, enough: u64, steps: u64, meter: &mut Meter) {
        let noisy = self.taste..self.taste + Taste::GOOD;
        self.taste = noisy.end;
        for taste in (0..Taste::GOOD).chain(noisy) {
            let lowest = self.low.max(enough);
            if best.height <= lowest {
                return;
            }
            self.attempt(best, lowest, taste, steps, meter);
        }
        let mut parts = 2;
        for taste in 0..Taste::GOOD {
            let lowest = self.low.max(enough);
            if best.height <= lowest {
                return;
            }
            let down = ((best.height - lowest) / parts).max(1);
            if !self.attempt(best, best.height - down, taste, steps / 2, meter) {
                parts *= 2;
            }
        }
    }

    /// Whether a layout no higher than `bound` was found.
    fn attempt(
        &mut self,
        best: &mut Found,
        bound: u64,
        taste: u64,
        steps: u64,
        meter: &mut Meter,
    ) -> bool {
        let mut part = meter.part(steps);
        let outcome = self.exact.solve(bound, Taste(taste), &mut part);
        meter.settle(&part);
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
