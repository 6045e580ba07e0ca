//! The part of the checker about pairs of accesses (R1, R2).
//!
//! A sweep over the addresses keeps the accesses of the byte at hand in the
//! order of the graph, and each new one is compared with its neighbours there:
//! up to the next plain write on either side, which conflicts with everything.
//! What lies beyond that write is ordered by it. So at every byte all conflicts
//! are ordered, or the sweep finds one that is not.
//!
//! Two buffers go both ways only if neither is done before the other begins.
//! Where such two follow each other at some byte, all pairs are compared.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use streamweir_trace::{Access, AccessMode, BufferId, ByteRange, Phase, Trace};

use super::{CertificateError, Order, broken};

type Place = (usize, Phase, usize);

/// The accesses of one byte: reads, atomic updates, and plain writes.
#[derive(Default)]
struct Open([BTreeSet<Place>; 3]);

const WRITES: usize = 2;

fn class(mode: AccessMode) -> usize {
    match mode {
        AccessMode::Read => 0,
        AccessMode::Atomic => 1,
        AccessMode::Write | AccessMode::ReadWrite => WRITES,
    }
}

impl Open {
    fn below(&self, here: Place) -> Option<Place> {
        let last = |set: &BTreeSet<Place>| set.range(..here).next_back().copied();
        self.0.iter().filter_map(last).max()
    }

    fn above(&self, here: Place) -> Option<Place> {
        let next = |set: &BTreeSet<Place>| set.range(here..).find(|&&p| p != here).copied();
        self.0.iter().filter_map(next).min()
    }
}

/// `all` is sorted by first byte.
pub(super) fn check_pairs(
    trace: &Trace,
    order: &Order,
    all: &[Access],
) -> Result<(), CertificateError> {
    let rank = |access: &Access| order.rank[access.node.index()];
    let mut lives: HashMap<BufferId, (usize, usize)> = HashMap::new();
    for access in all {
        let here = rank(access);
        let life = lives.entry(access.buffer).or_insert((here, here));
        *life = (life.0.min(here), life.1.max(here));
    }
    let apart = |a: &Access, b: &Access| {
        let (x, y) = (lives[&a.buffer], lives[&b.buffer]);
        let carried = [a, b].map(|access| trace.buffer(access.buffer).carried);
        a.buffer == b.buffer || carried == [false; 2] && (x.1 < y.0 || y.1 < x.0)
    };
    let mut tangled: Vec<ByteRange> = Vec::new();
    let mut neighbours = |from: u64, a: Option<Place>, b: Option<Place>| {
        if let Some((a, b)) = a.zip(b) {
            let (a, b) = (&all[a.2], &all[b.2]);
            if !apart(a, b) {
                tangled.push(ByteRange::new(from, a.bytes.end.min(b.bytes.end).max(from)));
            }
        }
    };
    let mut open = Open::default();
    let mut ends: BinaryHeap<Reverse<(u64, Place)>> = BinaryHeap::new();
    for (id, access) in all.iter().enumerate() {
        while let Some(&Reverse((end, place))) = ends.peek()
            && end <= access.bytes.start
        {
            ends.pop();
            open.0[class(all[place.2].mode)].remove(&place);
            neighbours(end, open.below(place), open.above(place));
        }
        let here = (rank(access), access.phase, id);
        let start = access.bytes.start;
        neighbours(start, open.below(here), Some(here));
        neighbours(start, Some(here), open.above(here));
        let before = open.0[WRITES].range(..here).next_back().copied();
        let after = open.0[WRITES].range(here..).next().copied();
        let low = before.unwrap_or((0, Phase::BeforeWait, 0));
        let high = after.unwrap_or((usize::MAX, Phase::AfterWait, usize::MAX));
        // Reads do not conflict with each other.
        let sets = &open.0[usize::from(access.mode == AccessMode::Read)..];
        let between = sets.iter().flat_map(|set| set.range(low..=high));
        for &(.., other) in between {
            let other = &all[other];
            let [first, then] = if rank(other) <= rank(access) {
                [other, access]
            } else {
                [access, other]
            };
            let conflict = match first.buffer == then.buffer {
                true => first.mode.conflicts(then.mode),
                false => first.mode.writes() || then.mode.writes(),
            };
            // Two buffers of one node are not apart, so they come up below.
            if conflict
                && first.node != then.node
                && !order.before(first.node, then.node, then.phase)
            {
                let rule = if first.buffer == then.buffer {
                    "R1"
                } else {
                    "R2"
                };
                return Err(broken(rule, then.node));
            }
        }
        open.0[class(access.mode)].insert(here);
        ends.push(Reverse((access.bytes.end, here)));
    }
    tangled.sort_unstable();
    tangled.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        last.end = last.end.max(if joined { next.end } else { 0 });
        joined
    });
    let concerned = |access: &&Access| {
        let at = tangled.partition_point(|range| range.end <= access.bytes.start);
        tangled
            .get(at)
            .is_some_and(|range| range.overlaps(&access.bytes))
    };
    let rest: Vec<&Access> = all.iter().filter(concerned).collect();
    check_each(trace, order, &rest)?;
    check_kept(trace, all)
}

/// Nothing writes bytes of a carried buffer that no access of it touches.
fn check_kept(trace: &Trace, all: &[Access]) -> Result<(), CertificateError> {
    let buffers = || trace.buffers.iter().map(|buffer| buffer.range).enumerate();
    let touched = all
        .iter()
        .map(|access| (access.buffer.index(), access.bytes));
    let mut reached: Vec<u64> = buffers().map(|(_, range)| range.start).collect();
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    let ends = buffers().map(|(at, range)| (at, ByteRange::new(range.end, range.end)));
    for (buffer, bytes) in touched.chain(ends) {
        if trace.buffers[buffer].carried && bytes.start > reached[buffer] {
            gaps.push((reached[buffer], bytes.start));
        }
        reached[buffer] = reached[buffer].max(bytes.end);
    }
    gaps.sort_unstable();
    // The furthest end up to each gap says whether one of them is met.
    let mut furthest = 0;
    for (_, end) in &mut gaps {
        furthest = furthest.max(*end);
        *end = furthest;
    }
    for write in all.iter().filter(|access| access.mode.writes()) {
        let until = gaps.partition_point(|gap| gap.0 < write.bytes.end);
        if gaps[..until]
            .last()
            .is_some_and(|gap| gap.1 > write.bytes.start)
        {
            return Err(broken("R2", write.node));
        }
    }
    Ok(())
}

/// All pairs of accesses that share a byte.
fn check_each(trace: &Trace, order: &Order, all: &[&Access]) -> Result<(), CertificateError> {
    let mut leader: HashMap<(BufferId, BufferId), BufferId> = HashMap::new();
    let mut open: Vec<&Access> = Vec::new();
    for &b in all {
        open.retain(|a| a.bytes.end > b.bytes.start);
        for &a in &open {
            if a.buffer == b.buffer || !a.mode.writes() && !b.mode.writes() {
                continue;
            }
            let mut pair = [a, b];
            pair.sort_by_key(|touched| order.rank[touched.node.index()]);
            let [first, then] = pair;
            let ordered = order.before(first.node, then.node, then.phase);
            let keeps = |owner: &Access| trace.buffer(owner.buffer).carried;
            let spoils = keeps(first) && then.mode.writes()
                || keeps(then) && first.mode.writes() && then.mode.reads();
            let pair = (a.buffer.min(b.buffer), a.buffer.max(b.buffer));
            let one_way = *leader.entry(pair).or_insert(first.buffer) == first.buffer;
            if !ordered || spoils || !one_way {
                return Err(broken("R2", then.node));
            }
        }
        open.push(b);
    }
    Ok(())
}
