//! Moments at which buffers are in use together.
//!
//! The spans of the lives are their places in one order that agrees with all
//! axes. Of two lives that are ordered, one has ended before the other begins in
//! every such order; so the buffers whose spans hold one moment conflict with
//! each other pairwise, and must lie beside each other. Only moments at which no
//! more can be added are kept.

use crate::lives::Lives;

/// The sections of one order.
#[derive(Clone, Debug)]
pub(crate) struct Sections {
    /// For each buffer its sections, from the first up to and without the last.
    pub(crate) of: Vec<(u32, u32)>,
    count: usize,
}

impl Sections {
    pub(crate) fn new(lives: &Lives) -> Self {
        let mut events: Vec<(u32, bool, u32)> = Vec::with_capacity(lives.len() * 2);
        for at in 0..lives.len() {
            if let Some((begin, end)) = lives.span(at) {
                events.push((begin, false, at as u32));
                events.push((end, true, at as u32));
            }
        }
        // Beginnings come before ends at one place: both are inclusive.
        events.sort_unstable();
        let mut sections = Self {
            of: vec![(0, 0); lives.len()],
            count: 0,
        };
        let mut grew = false;
        for (_, ends, at) in events {
            if !ends {
                sections.of[at as usize].0 = sections.count as u32;
                grew = true;
                continue;
            }
            if std::mem::take(&mut grew) {
                sections.count += 1;
            }
            sections.of[at as usize].1 = sections.count as u32;
        }
        sections
    }

    /// The buffers of each section.
    pub(crate) fn members(&self) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.count];
        for (at, &(from, to)) in (0..).zip(&self.of) {
            for section in &mut members[from as usize..to as usize] {
                section.push(at);
            }
        }
        members
    }

    /// The bytes of each section. Their sum over all buffers has to fit 63 bits.
    pub(crate) fn totals(&self, bytes: &[u64]) -> Vec<u64> {
        let mut change = vec![0_i64; self.count + 1];
        for (&(from, to), &bytes) in self.of.iter().zip(bytes) {
            change[from as usize] += bytes as i64;
            change[to as usize] -= bytes as i64;
        }
        let mut total = 0;
        change.truncate(self.count);
        let totals = change.into_iter().map(|change| {
            total += change;
            total as u64
        });
        totals.collect()
    }

    /// For each buffer the most bytes of a section it is in.
    pub(crate) fn contention(&self, bytes: &[u64]) -> Vec<u64> {
        // By power of two: the most over so many sections from each one on.
        let mut most = vec![self.totals(bytes)];
        while let Some(below) = most.last()
            && below.len() > 1 << (most.len() - 1)
        {
            let half = 1 << (most.len() - 1);
            let pairs = below.iter().zip(&below[half..]);
            let above = pairs.map(|(&a, &b)| a.max(b)).collect();
            most.push(above);
        }
        let of = |&(from, to): &(u32, u32)| {
            let (from, to) = (from as usize, to as usize);
            // Two runs of a power of two that together are the range.
            let Some(power) = (to - from).checked_ilog2() else {
                return 0;
            };
            let run = &most[power as usize];
            run[from].max(run[to - (1 << power)])
        };
        self.of.iter().map(of).collect()
    }
}
