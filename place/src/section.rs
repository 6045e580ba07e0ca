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
    /// The buffers of each section.
    pub(crate) members: Vec<Vec<u32>>,
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
            members: Vec::new(),
        };
        let mut open: Vec<u32> = Vec::new();
        let mut place = vec![0_usize; lives.len()];
        let mut grew = false;
        for (_, ends, at) in events {
            if !ends {
                sections.of[at as usize].0 = sections.members.len() as u32;
                place[at as usize] = open.len();
                open.push(at);
                grew = true;
                continue;
            }
            if grew {
                sections.members.push(open.clone());
                grew = false;
            }
            sections.of[at as usize].1 = sections.members.len() as u32;
            let gap = place[at as usize];
            open.swap_remove(gap);
            if let Some(&moved) = open.get(gap) {
                place[moved as usize] = gap;
            }
        }
        sections
    }

    /// The bytes of each section.
    pub(crate) fn totals(&self, bytes: &[u64]) -> Vec<u64> {
        let total = |members: &Vec<u32>| members.iter().map(|&at| bytes[at as usize]).sum();
        self.members.iter().map(total).collect()
    }

    /// For each buffer the most bytes of a section it is in.
    pub(crate) fn contention(&self, bytes: &[u64]) -> Vec<u64> {
        let totals = self.totals(bytes);
        let of = |&(from, to): &(u32, u32)| {
            let totals = &totals[from as usize..to as usize];
            totals.iter().copied().max().unwrap_or(0)
        };
        self.of.iter().map(of).collect()
    }
}
