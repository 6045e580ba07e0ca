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
//!   other; each is searched alone, and the first that fails fails them all. If
//!   the buffer placed last has no conflict with that part either, another one
//!   in its stead that has none is not tried.
//! - **Twins**: of buffers that are just alike, the one that is tried first lies
//!   below the others.

mod search;
mod taste;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::search::{Part, Search};
pub(crate) use self::taste::{Taste, units};
use crate::budget::Meter;
use crate::fit::Sizes;
use crate::lives::Lives;
use crate::neighbours::List;
use crate::section::Sections;

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A layout, by its offsets.
    Solved(Vec<u64>),
    /// There is none.
    Impossible,
    /// The steps were used up.
    Stopped,
}

/// What a search needs to know and does not change.
pub(crate) struct Exact<'a> {
    sizes: Sizes<'a>,
    conflicts: &'a List,
    sections: Sections,
    /// The buffers of each section.
    members: Vec<Vec<u32>>,
    /// For each buffer the most bytes of a section it is in.
    contention: Vec<u64>,
    /// For each buffer the last section that it or a later conflict begins in:
    /// where no buffer reaches past a section, the problem falls apart.
    reach: Vec<u32>,
    lives: &'a Lives,
}

impl<'a> Exact<'a> {
    pub(crate) fn new(sizes: Sizes<'a>, lives: &'a Lives, conflicts: &'a List) -> Self {
        let sections = Sections::new(lives);
        let reach = (0..lives.len() as u32).map(|at| {
            let others = conflicts.of_item(at).iter();
            let others = others.map(|&other| sections.of[other as usize].0);
            let own = sections.of[at as usize].1.saturating_sub(1);
            others.fold(own, u32::max)
        });
        Self {
            reach: reach.collect(),
            contention: sections.contention(sizes.bytes),
            members: sections.members(),
            sizes,
            conflicts,
            sections,
            lives,
        }
    }

    pub(crate) fn sizes(&self) -> Sizes<'a> {
        self.sizes
    }

    /// The greatest number that all sizes and alignments are multiples of.
    pub(crate) fn grain(&self) -> u64 {
        let both = self.sizes.bytes.iter().chain(self.sizes.align);
        both.fold(0, |a, &b| greatest_divisor(a, b)).max(1)
    }

    /// A height that any order of placement keeps below.
    pub(crate) fn ample(&self) -> u64 {
        let widest = self.sizes.align.iter().max().copied().unwrap_or(0);
        let each = self.sizes.bytes.iter().map(|bytes| bytes + widest);
        each.fold(0, u64::saturating_add)
    }

    /// Looks for a layout that is no higher than `bound`.
    pub(crate) fn solve(&self, bound: u64, taste: Taste, meter: &mut Meter) -> Outcome {
        let totals = self.sections.totals(self.sizes.bytes);
        if totals.iter().any(|&total| total > bound) {
            return Outcome::Impossible;
        }
        let mut search = Search::new(self, bound, taste.ranks(self), meter);
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

    /// For each buffer the next one before it, by rank, that has its size,
    /// alignment and life.
    fn twins(&self, rank: &[u32]) -> Vec<Option<u32>> {
        let mut order: Vec<u32> = (0..rank.len() as u32).collect();
        order.sort_unstable_by_key(|&at| rank[at as usize]);
        let mut twins = vec![None; rank.len()];
        let mut last = HashMap::new();
        for at in order {
            let life = (self.lives.begin(at as usize), self.lives.end(at as usize));
            let what = (self.sizes.bytes(at), self.sizes.align[at as usize]);
            twins[at as usize] = last.insert((life, what), at);
        }
        twins
    }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
