//! Local search by ejection.
//!
//! A height is aimed at, and what reaches above it loses its place. One after the other, what
//! has no place gets one: the tightest gap below the height, or, where there is none, the
//! place at which the others that lie there cost least. Those are ejected, and want a place
//! in their turn. When nothing wants one, the layout is below the height.
//!
//! A buffer costs the root of its bytes times its life, for large ones are hard to place again,
//! and that as often as it was found to have no gap: so what is in everybody's way ends up in a
//! place where it can stay, and the search leaves the circles that it falls into. The manner is
//! that of guided ejection search (Nagata and Bräysy, "A powerful route minimization heuristic
//! for the vehicle routing problem with time windows", 2009).
//!
//! The height that is aimed at is a step below the best layout. Where it is reached the next
//! step is twice as long, and where it is not in some moves, half as long; when steps become
//! very short, it begins anew with a longer one, and more moves for each. So nothing depends on
//! how near to the least height the floor is that is known.

use crate::budget::Meter;
use crate::fit::{Fit, Gap, UNPLACED};
use crate::lives::Lives;
use crate::rng::Rng;

/// A layout of some buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) offsets: Vec<u64>,
    pub(crate) height: u64,
}

/// Out of how many that want a place the dearest is next.
const DRAWN: u64 = 10;

/// Moves for each height at first, and half as many as there are buffers on top.
const LEAST_PATIENCE: u64 = 4000;

/// Steps down, as parts of the height: the first, the shortest, and that after it.
const FIRST_STEP: u64 = 8;
const SHORTEST_STEP: u64 = 2048;
const RENEWED_STEP: u64 = 64;

/// The search, which can be interrupted and goes on where it was.
pub(crate) struct Eject<'a> {
    fit: Fit<'a>,
    /// The root of bytes times life.
    weight: Vec<f64>,
    /// How often each buffer was found to have no gap, and one.
    misses: Vec<u32>,
    /// Those that want a place.
    homeless: Vec<u32>,
    /// Where neighbours end, and the costs of those that end there or below.
    ends: Vec<(u64, f64)>,
    /// The costs of the neighbours up to each, by where they begin.
    costs: Vec<f64>,
    rng: Rng,
    /// The least height that may be possible.
    floor: u64,
    /// How far below the best layout the next aim is; 0 at the beginning.
    step: u64,
    /// Moves for each height.
    patience: u64,
    /// The height that is aimed at, and the moves that are left for it.
    aim: Option<(u64, u64)>,
}

impl<'a> Eject<'a> {
    pub(crate) fn new(fit: Fit<'a>, lives: &Lives, floor: u64) -> Self {
        let count = fit.offsets.len();
        let weight = (0..count).map(|at| {
            let (begin, end) = lives.span(at).unwrap_or_default();
            (fit.sizes.bytes[at] as f64 * f64::from(end - begin + 1)).sqrt()
        });
        Self {
            weight: weight.collect(),
            misses: vec![1; count],
            homeless: Vec::new(),
            ends: Vec::new(),
            costs: Vec::new(),
            rng: Rng::new(count as u64),
            floor,
            step: 0,
            patience: LEAST_PATIENCE + count as u64 / 2,
            aim: None,
            fit,
        }
    }

    /// Tells that no layout is lower than this.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// Lowers `best` until it is no higher than `enough` or the steps are used up.
    pub(crate) fn improve(&mut self, best: &mut Layout, enough: u64, meter: &mut Meter) {
        while best.height > enough && !meter.is_spent() {
            let (height, moves) = match self.aim.take() {
                Some((height, moves)) if height < best.height => (height, moves),
                _ => {
                    let height = self.next_aim(best.height, enough);
                    self.begin(best, height);
                    (height, self.patience)
                }
            };
            match self.descend(height, moves, meter) {
                Outcome::Reached => {
                    best.offsets.clone_from(&self.fit.offsets);
                    best.height = self.fit.sizes.height(&best.offsets);
                    self.step = self.step.saturating_mul(2);
                }
                Outcome::Missed => self.step /= 2,
                Outcome::Stopped(left) => self.aim = Some((height, left)),
            }
        }
    }

    fn next_aim(&mut self, best: u64, enough: u64) -> u64 {
        let least = enough.max(self.floor);
        if self.step == 0 {
            self.step = best / FIRST_STEP;
        } else if self.step <= best / SHORTEST_STEP {
            self.step = best / RENEWED_STEP;
            self.patience = self.patience.saturating_mul(2);
        }
        self.step = self.step.clamp(1, (best - least).max(1));
        // So near that there is nothing between to gain much from.
        if best - least <= best / SHORTEST_STEP {
            return least;
        }
        best - self.step
    }

    /// Takes the best layout without what reaches above the height.
    fn begin(&mut self, best: &Layout, height: u64) {
        self.fit.offsets.clone_from(&best.offsets);
        self.homeless.clear();
        for at in 0..best.offsets.len() as u32 {
            if self.fit.offsets[at as usize] + self.fit.sizes.bytes(at) > height {
                self.fit.offsets[at as usize] = UNPLACED;
                self.homeless.push(at);
            }
        }
    }

    fn descend(&mut self, height: u64, moves: u64, meter: &mut Meter) -> Outcome {
        for left in (0..moves).rev() {
            let Some(at) = self.next() else {
                return Outcome::Reached;
            };
            let seen = self.fit.look(at);
            let offset = self.fit.gap(at, Gap::Best, height);
            let Some(offset) = offset.or_else(|| self.eject_for(at, height)) else {
                // It does not fit below the height at all.
                return Outcome::Missed;
            };
            self.fit.offsets[at as usize] = offset;
            if !meter.take(16 + 2 * seen) {
                return Outcome::Stopped(left);
            }
        }
        if self.homeless.is_empty() {
            return Outcome::Reached;
        }
        Outcome::Missed
    }

    /// The dearest of some that want a place, drawn at random.
    fn next(&mut self) -> Option<u32> {
        let count = self.homeless.len();
        if count == 0 {
            return None;
        }
        let draw = |_| self.rng.below(count as u64) as usize;
        let drawn = (0..DRAWN).map(draw).max_by(|&a, &b| {
            let weight = |place: usize| self.weight[self.homeless[place] as usize];
            weight(a).total_cmp(&weight(b))
        });
        drawn.map(|drawn| self.homeless.swap_remove(drawn))
    }

    /// Makes room for `at` where that costs least, after a [`look`](Fit::look) at it; `None`
    /// when it is larger than the height.
    fn eject_for(&mut self, at: u32, height: u64) -> Option<u64> {
        self.misses[at as usize] = self.misses[at as usize].saturating_add(1);
        let sizes = self.fit.sizes;
        let bytes = sizes.bytes(at);
        let highest = sizes.aligned_down(at, height.checked_sub(bytes)?);
        let cost =
            |other: u32| self.weight[other as usize] * f64::from(self.misses[other as usize]);
        self.costs.clear();
        self.ends.clear();
        let mut sum = 0.0;
        for &(_, end, other) in &self.fit.taken {
            sum += cost(other);
            self.costs.push(sum);
            self.ends.push((end, cost(other)));
        }
        self.ends.sort_unstable_by_key(|&(end, _)| end);
        let mut sum = 0.0;
        for (_, cost) in &mut self.ends {
            sum += *cost;
            *cost = sum;
        }
        let (taken, costs, ends, rng) = (&self.fit.taken, &self.costs, &self.ends, &mut self.rng);
        let mut best = (f64::INFINITY, 0);
        let mut consider = |offset: u64| {
            if offset > highest {
                return;
            }
            // All that begin below its end, without those that end at or below its beginning.
            let begun = taken.partition_point(|&(start, _, _)| start < offset + bytes);
            let ended = ends.partition_point(|&(end, _)| end <= offset);
            let begun = begun.checked_sub(1).map_or(0.0, |last| costs[last]);
            let ended = ended.checked_sub(1).map_or(0.0, |last| ends[last].1);
            let noise = 1.0 + rng.below(1000) as f64 / 10_000.0;
            let cost = (begun - ended) * noise;
            if cost < best.0 {
                best = (cost, offset);
            }
        };
        consider(0);
        consider(highest);
        for &(start, end, _) in taken {
            consider(sizes.aligned(at, end));
            if let Some(below) = start.checked_sub(bytes) {
                consider(sizes.aligned_down(at, below));
            }
        }
        let offset = best.1;
        for &(start, end, other) in taken {
            if start < offset + bytes && end > offset {
                self.fit.offsets[other as usize] = UNPLACED;
                self.homeless.push(other);
            }
        }
        Some(offset)
    }
}

/// How the search for a layout below one height ended.
enum Outcome {
    Reached,
    /// The moves were used up.
    Missed,
    /// The steps were; so many moves are left.
    Stopped(u64),
}
