//! Bounded local search over the order of placement.
//!
//! A layout is kept that is always what its order gives: each buffer is where
//! the ones before it in the order let it be. To get below a height, some buffer
//! that reaches it is moved in the order to before one of those that were in its
//! way, and what this changes is placed anew: only buffers whose own neighbours
//! moved are looked at. When no buffer reaches the height any more, the layout is
//! the new best one and the height to get below. A walk that gets nowhere starts
//! again from the best order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::budget::Meter;
use crate::fit::{Fit, Gap, Sizes, UNPLACED};
use crate::rng::Rng;

/// A layout and the order that gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arranged {
    pub(crate) order: Vec<u32>,
    pub(crate) gap: Gap,
    pub(crate) offsets: Vec<u64>,
    pub(crate) height: u64,
}

impl Arranged {
    /// Takes over a lower layout that was not found by an order: placed from the
    /// bottom upwards, each buffer comes as low as it was or lower.
    pub(crate) fn adopt(&mut self, offsets: Vec<u64>, sizes: Sizes<'_>) {
        let mut order: Vec<u32> = (0..offsets.len() as u32).collect();
        order.sort_by_key(|&at| (offsets[at as usize], at));
        let ends = order
            .iter()
            .map(|&at| offsets[at as usize] + sizes.bytes(at));
        self.height = ends.max().unwrap_or(0);
        self.order = order;
        self.gap = Gap::First;
        self.offsets = offsets;
    }
}

/// Lowers `best` until it is no higher than `enough` or the steps are used up.
pub(crate) fn improve(
    fit: &Fit<'_>,
    best: &mut Arranged,
    enough: u64,
    meter: &mut Meter,
    rng: &mut Rng,
) {
    let mut walk = Walk::new(fit, best);
    // Short walks stay near the best order; every eighth goes far.
    let short = 24 + best.order.len() as u64 / 64;
    let mut walks = 0_u64;
    while best.height > enough && !meter.is_spent() {
        walks += 1;
        let moves = if walks.is_multiple_of(8) {
            short * 8
        } else {
            short
        };
        if walk.descend(best.height, moves, meter, rng) {
            walk.save(best);
        } else {
            walk.restore(best);
        }
    }
}

struct Walk<'a> {
    fit: Fit<'a>,
    gap: Gap,
    order: Vec<u32>,
    /// The place of each buffer in the order.
    place: Vec<u32>,
    /// Places whose buffers have to be placed anew.
    dirty: BinaryHeap<Reverse<u32>>,
    is_dirty: Vec<bool>,
    /// Buffers that may reach the height.
    over: Vec<u32>,
}

impl<'a> Walk<'a> {
    fn new(fit: &Fit<'a>, best: &Arranged) -> Self {
        let count = best.order.len();
        let mut walk = Self {
            fit: fit.clone(),
            gap: best.gap,
            order: Vec::new(),
            place: vec![0; count],
            dirty: BinaryHeap::new(),
            is_dirty: vec![false; count],
            over: Vec::new(),
        };
        walk.restore(best);
        walk
    }

    fn restore(&mut self, best: &Arranged) {
        self.order.clone_from(&best.order);
        self.fit.offsets.clone_from(&best.offsets);
        self.gap = best.gap;
        self.number(0, best.order.len());
        self.dirty.clear();
        self.is_dirty.fill(false);
    }

    fn save(&self, best: &mut Arranged) {
        best.order.clone_from(&self.order);
        best.offsets.clone_from(&self.fit.offsets);
        best.height = (0..self.order.len() as u32)
            .map(|at| self.end(at))
            .max()
            .unwrap_or(0);
    }

    fn number(&mut self, from: usize, to: usize) {
        for (place, &at) in self.order.iter().enumerate().take(to).skip(from) {
            self.place[at as usize] = place as u32;
        }
    }

    fn end(&self, at: u32) -> u64 {
        self.fit.offsets[at as usize] + self.fit.sizes.bytes(at)
    }

    /// Whether so many moves brought all buffers below `height`.
    fn descend(&mut self, height: u64, moves: u64, meter: &mut Meter, rng: &mut Rng) -> bool {
        self.over.clear();
        let all = 0..self.order.len() as u32;
        let over = all.filter(|&at| self.end(at) >= height);
        self.over = over.collect();
        for _ in 0..moves {
            self.over
                .retain(|&at| self.fit.offsets[at as usize] + self.fit.sizes.bytes(at) >= height);
            if self.over.is_empty() {
                return true;
            }
            if !meter.take(16 + self.over.len() as u64) {
                return false;
            }
            let culprit = self.over[rng.below(self.over.len() as u64) as usize];
            let Some(ahead) = self.ahead_of(culprit, rng) else {
                // Nothing is in its way, so it alone is as high.
                return false;
            };
            self.move_to(culprit, ahead);
            if !self.mend(height, meter) {
                return false;
            }
        }
        false
    }

    /// The place in the order of one that stands in the way of `culprit`.
    fn ahead_of(&self, culprit: u32, rng: &mut Rng) -> Option<u32> {
        let own = self.place[culprit as usize];
        let others = self.fit.conflicts.of_item(culprit);
        if others.is_empty() {
            return None;
        }
        // A few tries at random, then the first that will do.
        let random = (0..8).map(|_| others[rng.below(others.len() as u64) as usize]);
        let random = random.map(|other| self.place[other as usize]);
        random
            .chain(others.iter().map(|&other| self.place[other as usize]))
            .find(|&place| place < own)
    }

    fn move_to(&mut self, at: u32, place: u32) {
        let (from, to) = (self.place[at as usize] as usize, place as usize);
        self.order[to..=from].rotate_right(1);
        self.number(to, from + 1);
        // Those it has overtaken do not make room for themselves yet.
        self.mark(place);
        for &other in self.fit.conflicts.of_item(at) {
            let other = self.place[other as usize];
            if other > place && other as usize <= from {
                self.mark(other);
            }
        }
    }

    fn mark(&mut self, place: u32) {
        if !std::mem::replace(&mut self.is_dirty[place as usize], true) {
            self.dirty.push(Reverse(place));
        }
    }

    /// Places anew what is marked, and what that changes. False when the steps
    /// are used up, with the layout unfinished.
    fn mend(&mut self, height: u64, meter: &mut Meter) -> bool {
        while let Some(Reverse(place)) = self.dirty.pop() {
            self.is_dirty[place as usize] = false;
            let at = self.order[place as usize];
            let others = self.fit.conflicts.of_item(at);
            if !meter.take(8 + others.len() as u64) {
                return false;
            }
            let old = self.fit.offsets[at as usize];
            let rank = &self.place;
            let end = self
                .fit
                .place_among(at, self.gap, |other| rank[other as usize] < place);
            if end >= height {
                self.over.push(at);
            }
            if self.fit.offsets[at as usize] == old && old != UNPLACED {
                continue;
            }
            for &other in others {
                let other = self.place[other as usize];
                if other > place {
                    self.mark(other);
                }
            }
        }
        true
    }
}
