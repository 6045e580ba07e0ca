//! One run of the search.

use std::ops::Range;

use super::Exact;
use crate::budget::Meter;
use crate::fit::UNPLACED;

/// How a part of a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Solved,
    Failed,
    Stopped,
}

/// A layout in the making, with what is to be undone on the way back.
pub(crate) struct Search<'a, 'm> {
    exact: &'a Exact<'a>,
    bound: u64,
    rank: Vec<u32>,
    /// For each buffer the one that is just like it and comes next before it.
    twin: Vec<Option<u32>>,
    pub(crate) offsets: Vec<u64>,
    /// Where each buffer can begin at the lowest, given those placed below it.
    lowest: Vec<u64>,
    /// For each section the bytes that are still to come.
    totals: Vec<u64>,
    /// For each section the lowest place of those still to come, and whose it
    /// is. True as long as that one is not placed and not raised.
    floors: Vec<(u64, u32)>,
    /// What `lowest` and `floors` were before.
    raised: Vec<(u32, u64)>,
    lifted: Vec<(u32, (u64, u32))>,
    /// The sections of the part that failed last.
    failed: Range<u32>,
    meter: &'m mut Meter,
}

/// A buffer that may be next, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    offset: u64,
    rank: u32,
    at: u32,
}

impl<'a, 'm> Search<'a, 'm> {
    pub(crate) fn new(
        exact: &'a Exact<'a>,
        bound: u64,
        rank: Vec<u32>,
        meter: &'m mut Meter,
    ) -> Self {
        let sections = &exact.sections;
        let floors = exact.members.iter();
        Self {
            twin: exact.twins(&rank),
            rank,
            bound,
            offsets: vec![UNPLACED; exact.lives.len()],
            lowest: vec![0; exact.lives.len()],
            totals: sections.totals(exact.sizes.bytes),
            floors: floors
                .map(|members| (0, members.first().copied().unwrap_or_default()))
                .collect(),
            raised: Vec::new(),
            lifted: Vec::new(),
            failed: 0..0,
            exact,
            meter,
        }
    }

    /// Solves each part of `left`, which is sorted by first section. What comes
    /// before `last` in the order of places is not tried any more.
    pub(crate) fn parts(&mut self, left: &[u32], last: (u64, u32)) -> Part {
        let mut from = 0;
        let mut reach = 0;
        let mut cuts = Vec::new();
        for (place, &at) in left.iter().enumerate() {
            if place > from && self.exact.sections.of[at as usize].0 > reach {
                cuts.push((from..place, reach));
                from = place;
                reach = 0;
            }
            reach = reach.max(self.exact.reach[at as usize]);
        }
        if from < left.len() {
            cuts.push((from..left.len(), reach));
        }
        // The smallest first: it fails soonest if it does.
        cuts.sort_by_key(|(cut, _)| cut.len());
        for (done, (cut, reach)) in cuts.iter().enumerate() {
            let outcome = self.part(&left[cut.clone()], last);
            if outcome != Part::Solved {
                for &at in cuts[..done].iter().flat_map(|(cut, _)| &left[cut.clone()]) {
                    self.withdraw(at);
                }
                let first = self.exact.sections.of[left[cut.start] as usize].0;
                self.failed = first..reach + 1;
                return outcome;
            }
        }
        Part::Solved
    }

    /// Solves one part. On success all of it is placed; else none is.
    fn part(&mut self, left: &[u32], last: (u64, u32)) -> Part {
        let candidates = self.candidates(left, last);
        let mut rest = Vec::with_capacity(left.len());
        let mut dead: Vec<Range<u32>> = Vec::new();
        for candidate in candidates {
            let at = candidate.at;
            // A part failed that this one has nothing to do with.
            let (first, reach) = (
                self.exact.sections.of[at as usize].0,
                self.exact.reach[at as usize],
            );
            let apart = |dead: &Range<u32>| reach < dead.start || dead.end <= first;
            if dead.iter().any(apart) {
                continue;
            }
            if !self.meter.take(4 + left.len() as u64 / 2) {
                return Part::Stopped;
            }
            let mark = (self.raised.len(), self.lifted.len());
            let fits = self.place(at, candidate.offset);
            let outcome = if fits {
                rest.clear();
                rest.extend(left.iter().copied().filter(|&other| other != at));
                self.parts(&rest, (candidate.offset, candidate.rank))
            } else {
                Part::Failed
            };
            if outcome == Part::Solved {
                return Part::Solved;
            }
            self.withdraw(at);
            self.go_back_to(mark);
            if outcome == Part::Stopped {
                return Part::Stopped;
            }
            if !fits {
                continue;
            }
            if apart(&self.failed) {
                dead.push(self.failed.clone());
            }
            // Nothing would have lain on it, so it was in nobody's way there:
            // there is no layout with it elsewhere either.
            let others = self.exact.conflicts.of_item(at).iter();
            let mut left_over = others.map(|&other| self.offsets[other as usize]);
            if left_over.all(|offset| offset != UNPLACED) {
                return Part::Failed;
            }
        }
        Part::Failed
    }

    /// Those of `left` that may be the next, in the order in which to try them.
    fn candidates(&self, left: &[u32], last: (u64, u32)) -> Vec<Candidate> {
        // None can begin at or above the place where another would end, nor so
        // high that some section, all of which comes later, no longer fits.
        let mut ceiling = u64::MAX;
        let (mut first, mut end) = (u32::MAX, 0);
        for &at in left {
            ceiling = ceiling.min(self.lowest[at as usize] + self.exact.sizes.bytes(at));
            let (from, to) = self.exact.sections.of[at as usize];
            first = first.min(from);
            end = end.max(to);
        }
        let totals = &self.totals[first as usize..end as usize];
        let crowded = totals.iter().copied().max().unwrap_or(0);
        ceiling = ceiling.min(self.bound.saturating_sub(crowded) + 1);
        let mut candidates = Vec::new();
        for &at in left {
            let offset = self.lowest[at as usize];
            let rank = self.rank[at as usize];
            if offset < ceiling && (offset, rank) >= last {
                let twin = self.twin[at as usize];
                if twin.is_none_or(|twin| self.offsets[twin as usize] != UNPLACED) {
                    candidates.push(Candidate { offset, rank, at });
                }
            }
        }
        candidates.sort_unstable();
        candidates
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
        self.meter.take(others.len() as u64);
        let mut fits = true;
        let (mut first, mut last) = (from, to);
        for &other in others {
            if self.offsets[other as usize] != UNPLACED {
                continue;
            }
            let lowest = exact.sizes.aligned(other, top);
            if lowest > self.lowest[other as usize] {
                self.raised.push((other, self.lowest[other as usize]));
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
    fn sections_fit(&mut self, range: Range<u32>, offset: u64) -> bool {
        for section in range {
            let total = self.totals[section as usize];
            if total == 0 {
                continue;
            }
            let (mut floor, whose) = self.floors[section as usize];
            let whose = whose as usize;
            if self.offsets[whose] != UNPLACED || self.lowest[whose] != floor {
                floor = self.lift(section);
            }
            if floor.max(offset) + total > self.bound {
                return false;
            }
        }
        true
    }

    /// Finds the floor of a section anew.
    fn lift(&mut self, section: u32) -> u64 {
        let members = &self.exact.members[section as usize];
        let mut found = (u64::MAX, 0);
        for &at in members {
            if self.offsets[at as usize] == UNPLACED {
                found = found.min((self.lowest[at as usize], at));
            }
        }
        let before = std::mem::replace(&mut self.floors[section as usize], found);
        self.lifted.push((section, before));
        // An estimate of what this costs beside a look at a neighbour.
        self.meter.take(members.len() as u64 / 4);
        found.0
    }

    fn go_back_to(&mut self, (raised, lifted): (usize, usize)) {
        for (other, lowest) in self.raised.drain(raised..).rev() {
            self.lowest[other as usize] = lowest;
        }
        for (section, floor) in self.lifted.drain(lifted..).rev() {
            self.floors[section as usize] = floor;
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
