//! Exact search: a layout no higher than a bound, or the proof that there is
//! none.
//!
//! Branch and bound over the layouts in which every buffer rests on the floor or
//! on one below it, built from the bottom upwards: the manner of Moffitt,
//! "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
//! Learning" (ASPLOS 2023). If there is a layout at all, then there is one of
//! least sum of offsets, and that one passes all of the following.
//!
//! - **Canonical**: buffers are placed in the order of their offsets, so what is
//!   still to come lies at or above what has been placed last, and each at the
//!   lowest place that those placed before leave it.
//! - **Dominance**: none is placed at or above the place where another one, still
//!   to come, would end: that one could slide below it.
//! - **Nothing above**: a buffer that nothing still to come conflicts with is
//!   placed where it can be; if that leads nowhere, nor does any other place.
//! - **Room**: nor is one placed so high that a section, of which nothing more can
//!   lie below it, does not fit between it and the bound.
//! - **Floor**: what is still to come in a section ([`Sections`]) lies beside each
//!   other and above the lowest place that any of it can have; it must fit below
//!   the bound.
//! - **Parts**: what is left falls into parts that have no conflict with each
//!   other; each is searched alone, and the first that fails fails them all.

use super::budget::Meter;
use super::conflict::Conflicts;
use super::fit::{Sizes, UNPLACED};
use super::lives::Lives;
use super::rng::Rng;
use super::section::Sections;

/// How the search prefers one buffer over another at the same offset. Which
/// preference is quick depends on the problem, and a long search with a bad one
/// is worth less than short ones with several: they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taste(pub(super) u64);

impl Taste {
    /// The first so many are known to be good for many problems; the later ones
    /// are these with noise.
    pub(super) const GOOD: u64 = PREFERENCES.len() as u64;
}

/// What a buffer is preferred for, the first first.
#[derive(Clone, Copy)]
enum Trait {
    /// The most bytes of a section it is in.
    Total,
    /// Its bytes times its life.
    Area,
    /// Its life.
    Life,
    /// Its bytes.
    Size,
}

/// The preferences of the good tastes.
const PREFERENCES: [[Trait; 3]; 4] = [
    [Trait::Total, Trait::Area, Trait::Life],
    [Trait::Total, Trait::Life, Trait::Area],
    [Trait::Life, Trait::Area, Trait::Total],
    [Trait::Total, Trait::Size, Trait::Life],
];

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A layout, by its offsets.
    Solved(Vec<u64>),
    /// There is none.
    Impossible,
    /// The steps were used up.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Solved,
    Failed,
    Stopped,
}

/// What a search needs to know and does not change.
pub(super) struct Exact<'a> {
    sizes: Sizes<'a>,
    conflicts: &'a Conflicts,
    sections: Sections,
    /// For each buffer the last section that it or a later conflict begins in:
    /// where no buffer reaches past a section, the problem falls apart.
    reach: Vec<u32>,
    lives: &'a Lives,
}

impl<'a> Exact<'a> {
    pub(super) fn new(sizes: Sizes<'a>, lives: &'a Lives, conflicts: &'a Conflicts) -> Self {
        let sections = Sections::new(lives);
        let reach = (0..lives.len() as u32).map(|at| {
            let others = conflicts.of_item(at).iter();
            let others = others.map(|&other| sections.of[other as usize].0);
            let own = sections.of[at as usize].1.saturating_sub(1);
            others.fold(own, u32::max)
        });
        Self {
            reach: reach.collect(),
            sizes,
            conflicts,
            sections,
            lives,
        }
    }

    pub(super) fn sizes(&self) -> Sizes<'a> {
        self.sizes
    }

    /// Looks for a layout that is no higher than `bound`.
    pub(super) fn solve(&self, bound: u64, taste: Taste, meter: &mut Meter) -> Outcome {
        let mut search = Search {
            exact: self,
            bound,
            rank: self.ranks(taste),
            offsets: vec![UNPLACED; self.lives.len()],
            lowest: vec![0; self.lives.len()],
            totals: self.sections.totals(self.sizes.bytes),
            trail: Vec::new(),
            meter,
        };
        if search.totals.iter().any(|&total| total > bound) {
            return Outcome::Impossible;
        }
        let mut all = Vec::new();
        for at in 0..self.lives.len() as u32 {
            if self.lives.span(at as usize).is_some() {
                all.push(at);
            } else {
                search.offsets[at as usize] = 0;
            }
            if self.sizes.bytes(at) > bound {
                return Outcome::Impossible;
            }
        }
        all.sort_unstable_by_key(|&at| (self.sections.of[at as usize].0, at));
        match search.parts(&all, (0, 0)) {
            Part::Solved => Outcome::Solved(search.offsets),
            Part::Failed => Outcome::Impossible,
            Part::Stopped => Outcome::Stopped,
        }
    }

    /// For each buffer how many are preferred to it.
    fn ranks(&self, taste: Taste) -> Vec<u32> {
        let contention = self.sections.contention(self.sizes.bytes);
        let value = |at: u32, what: Trait| {
            let (begin, end) = self.lives.span(at as usize).unwrap_or_default();
            let life = u128::from(end - begin) + 1;
            match what {
                Trait::Total => u128::from(contention[at as usize]),
                Trait::Area => life * u128::from(self.sizes.bytes(at)),
                Trait::Life => life,
                Trait::Size => u128::from(self.sizes.bytes(at)),
            }
        };
        let count = PREFERENCES.len() as u64;
        let preference = PREFERENCES[(taste.0 % count) as usize];
        let key = |at: u32| preference.map(|what| std::cmp::Reverse(value(at, what)));
        let mut order: Vec<u32> = (0..self.lives.len() as u32).collect();
        order.sort_by_cached_key(|&at| (key(at), at));
        let round = taste.0 / count;
        if round > 0 {
            let mut rng = Rng::new(taste.0);
            let reach = order.len() as u64 >> (1 + round % 5);
            let mut moved: Vec<(u64, u32)> = (0_u64..)
                .zip(&order)
                .map(|(place, &at)| (place + rng.below(reach + 2), at))
                .collect();
            moved.sort_unstable();
            order = moved.into_iter().map(|(_, at)| at).collect();
        }
        let mut ranks = vec![0; order.len()];
        for (rank, at) in (0..).zip(order) {
            ranks[at as usize] = rank;
        }
        ranks
    }
}

struct Search<'a, 'm> {
    exact: &'a Exact<'a>,
    bound: u64,
    rank: Vec<u32>,
    offsets: Vec<u64>,
    /// Where each buffer can begin at the lowest, given those placed below it.
    lowest: Vec<u64>,
    /// For each section the bytes that are still to come.
    totals: Vec<u64>,
    /// What `lowest` was before, for the way back.
    trail: Vec<(u32, u64)>,
    meter: &'m mut Meter,
}

/// A buffer that may be next, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    offset: u64,
    rank: u32,
    at: u32,
}

impl Search<'_, '_> {
    /// Solves each part of `left`, which is sorted by first section.
    fn parts(&mut self, left: &[u32], last: (u64, u32)) -> Part {
        let mut from = 0;
        let mut reach = 0;
        let mut cuts = Vec::new();
        for (place, &at) in left.iter().enumerate() {
            if place > from && self.exact.sections.of[at as usize].0 > reach {
                cuts.push(from..place);
                from = place;
                reach = 0;
            }
            reach = reach.max(self.exact.reach[at as usize]);
        }
        if from < left.len() {
            cuts.push(from..left.len());
        }
        // The smallest first: it fails soonest if it does.
        cuts.sort_by_key(|cut| cut.len());
        for (done, cut) in cuts.iter().enumerate() {
            let outcome = self.part(&left[cut.clone()], last);
            if outcome != Part::Solved {
                for &at in cuts[..done].iter().flat_map(|cut| &left[cut.clone()]) {
                    self.withdraw(at);
                }
                return outcome;
            }
        }
        Part::Solved
    }

    /// Solves one part. On success all of it is placed; else none is.
    fn part(&mut self, left: &[u32], last: (u64, u32)) -> Part {
        let mut candidates = Vec::with_capacity(left.len());
        // None can begin at or above the place where another would end, nor so
        // high that some section, all of which comes later, no longer fits.
        let mut ceiling = u64::MAX;
        let (mut first, mut end) = (u32::MAX, 0);
        for &at in left {
            let offset = self.lowest[at as usize];
            ceiling = ceiling.min(offset + self.exact.sizes.bytes(at));
            let (from, to) = self.exact.sections.of[at as usize];
            first = first.min(from);
            end = end.max(to);
        }
        let totals = &self.totals[first as usize..end as usize];
        let crowded = totals.iter().copied().max().unwrap_or(0);
        ceiling = ceiling.min(self.bound.saturating_sub(crowded) + 1);
        for &at in left {
            let offset = self.lowest[at as usize];
            let rank = self.rank[at as usize];
            if offset < ceiling && (offset, rank) >= last {
                candidates.push(Candidate { offset, rank, at });
            }
        }
        candidates.sort_unstable();
        let mut rest = Vec::with_capacity(left.len());
        for candidate in candidates {
            let at = candidate.at;
            if !self.meter.take(4 + left.len() as u64 / 2) {
                return Part::Stopped;
            }
            let mark = self.trail.len();
            let fits = self.place(at, candidate.offset);
            let outcome = if fits {
                rest.clear();
                rest.extend(left.iter().copied().filter(|&other| other != at));
                self.parts(&rest, (candidate.offset, candidate.rank))
            } else {
                Part::Failed
            };
            match outcome {
                Part::Solved => return Part::Solved,
                Part::Stopped => {
                    self.unplace(at, mark);
                    return Part::Stopped;
                }
                Part::Failed => self.unplace(at, mark),
            }
            // Nothing would have lain on it, so it was in nobody's way there:
            // there is no layout with it elsewhere either.
            let others = self.exact.conflicts.of_item(at).iter();
            let mut left_over = others.map(|&other| self.offsets[other as usize]);
            if fits && left_over.all(|offset| offset != UNPLACED) {
                return Part::Failed;
            }
        }
        Part::Failed
    }

    /// Places a buffer; false when what is left cannot fit any more.
    fn place(&mut self, at: u32, offset: u64) -> bool {
        let exact = self.exact;
        let bytes = exact.sizes.bytes(at);
        let top = offset + bytes;
        self.offsets[at as usize] = offset;
        let (from, to) = exact.sections.of[at as usize];
        for total in &mut self.totals[from as usize..to as usize] {
            *total -= bytes;
        }
        let others = exact.conflicts.of_item(at);
        let mut fits = self.meter.take(others.len() as u64);
        let (mut first, mut last) = (from, to);
        for &other in others {
            if self.offsets[other as usize] != UNPLACED {
                continue;
            }
            let lowest = exact.sizes.aligned(other, top);
            if lowest > self.lowest[other as usize] {
                self.trail.push((other, self.lowest[other as usize]));
                self.lowest[other as usize] = lowest;
                fits &= lowest + exact.sizes.bytes(other) <= self.bound;
                let (begin, end) = exact.sections.of[other as usize];
                first = first.min(begin);
                last = last.max(end);
            }
        }
        fits && self.sections_fit(first..last, offset)
    }

    /// Whether what is left of these sections fits between the lowest place that
    /// any of it can have and the bound.
    fn sections_fit(&mut self, range: std::ops::Range<u32>, offset: u64) -> bool {
        for section in range {
            let total = self.totals[section as usize];
            if total == 0 {
                continue;
            }
            let members = &self.exact.sections.members[section as usize];
            let lowest = members.iter().map(|&at| at as usize);
            let lowest = lowest.filter(|&at| self.offsets[at] == UNPLACED);
            let lowest = lowest.map(|at| self.lowest[at]).min().unwrap_or(0);
            if lowest.max(offset) + total > self.bound {
                return false;
            }
        }
        true
    }

    fn unplace(&mut self, at: u32, mark: usize) {
        self.withdraw(at);
        for (other, lowest) in self.trail.drain(mark..).rev() {
            self.lowest[other as usize] = lowest;
        }
    }

    /// Takes a buffer out without a look at what it did to others: the caller
    /// goes back along the trail.
    fn withdraw(&mut self, at: u32) {
        self.offsets[at as usize] = UNPLACED;
        let (from, to) = self.exact.sections.of[at as usize];
        let bytes = self.exact.sizes.bytes(at);
        for total in &mut self.totals[from as usize..to as usize] {
            *total += bytes;
        }
    }
}
