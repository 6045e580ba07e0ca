//! Which accesses conflict, in two passes.
//!
//! # What is guaranteed
//! Pass 1 ([`suspects`]) goes through the accesses once, in the order of the
//! graph, over a map of the bytes. It finds
//! - every byte at which some access is not ordered after an earlier one that it
//!   conflicts with, in the same buffer (R1) or in another (R2);
//! - every byte that passes from one buffer to another while the first is not
//!   done, or that a carried buffer shares: only there can accesses that are
//!   ordered destroy each other (R2);
//! - every read of scratch that no write is known to precede (R13);
//! - every access that its buffer may not be there for (R4), because it looks at
//!   each access and its clock anyway.
//!
//! A byte that it leaves out has no such hazard. Pass 2 ([`pairs`]) goes back
//! over what is left and lists the pairs of nodes, exactly. A safe graph has no
//! pass 2.
//!
//! # Why not byte by byte, in the order of addresses
//! Sorting by address needs a copy of all accesses. The order of the graph is
//! there already, and what a graph touches at one time lies in few places.
//!
//! # What it costs
//! With `w` chains, `a` accesses, `k` the number of runs of bytes that they meet
//! and `h` conflicting pairs: O((a + k) * w) for pass 1 in memory O(a + k), and
//! O(h) more for pass 2, which keeps none of the pairs but those that the report
//! lists. A write that is ordered after all that was there before makes one run
//! of what it covers, so `k` stays near `a` however often bytes are reused.
//!
//! # Why successive owners of the same bytes need not be compared all with all
//! Say each buffer takes the bytes over when its predecessor there is done: its
//! first node stands behind the last node of the predecessor, in the order of
//! the graph. Then that holds for all earlier owners too, so no two of them go
//! both ways, and whether accesses are ordered is decided by those that the
//! history of the bytes keeps.

mod bits;
mod history;
mod map;
mod pairs;
mod tangle;

use streamweir_trace::{AccessMode, BufferId, ByteRange, NodeId, Phase};

use crate::accesses::Owner;
use crate::findings::Findings;
use crate::rules::Context;

use bits::Bits;
use history::{Class, Entry, History};
pub(crate) use map::{AddressMap, Recent};
pub(crate) use pairs::list as pairs;
pub(crate) use tangle::Direction;

/// What pass 1 leaves to be looked at.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// The cells at which something is not ordered.
    racing: Bits,
    /// The cells that change hands before their owner is done.
    tangled: Bits,
    /// The reads of scratch that no write is known to precede, in the order of
    /// the graph.
    pub(crate) unwritten: Vec<u32>,
    /// The accesses of buffers that may not be there, in the order of the graph.
    pub(crate) unowned: Vec<u32>,
}

/// Pass 1.
pub(crate) fn suspects(context: &Context<'_>, findings: &Findings) -> Suspects {
    let accesses = &context.accesses;
    let map = &context.map;
    let mut history = History::new(map.len());
    let mut racing = Bits::new(map.len());
    let mut tangled = Bits::new(map.len());
    let mut unwritten = Vec::new();
    let mut unowned = Vec::new();
    let mut compared = 0_u64;
    // A node has several accesses in a row.
    let mut here: Option<(NodeId, Phase)> = None;
    let mut clock: &[u32] = &[];
    let mut place = (0, 0);
    for id in accesses.ids() {
        let (buffer, bytes) = accesses.place(id);
        let life = accesses.life(buffer);
        let cells = map.covered(life.cells, bytes);
        let always = matches!(life.owner, Owner::Always);
        if cells.0 == cells.1 && (always || bytes.is_empty()) {
            continue;
        }
        let touch = accesses.kind(id);
        if here != Some((touch.node, touch.phase)) {
            here = Some((touch.node, touch.phase));
            clock = context.reach.clock(touch.node, touch.phase);
            place = context.reach.place(touch.node);
        }
        if !always {
            match accesses.surely_owned(life.owner, touch.node, clock) {
                Some(behind) => compared += behind,
                None => unowned.push(id),
            }
        }
        let entry = entry(place, touch.mode, buffer);
        let mut without_write = false;
        history.add(entry, touch.declared, clock, cells, |from, to, outcome| {
            compared += u64::from(outcome.compared);
            without_write |= outcome.unwritten;
            if outcome.races {
                racing.insert_all(from, to);
            }
            if let Some(tenant) = outcome.tenant {
                let before = accesses.life(BufferId(tenant));
                if before.carried || life.carried || before.last >= life.first {
                    tangled.insert_all(from, to);
                }
            }
        });
        if without_write && life.needs_write() && touch.declared && touch.mode.reads() {
            unwritten.push(id);
        }
    }
    findings.compared_times(compared);
    Suspects {
        racing,
        tangled,
        unwritten,
        unowned,
    }
}

fn class(mode: AccessMode) -> Class {
    match mode {
        AccessMode::Read => Class::Read,
        AccessMode::Write | AccessMode::ReadWrite => Class::Write,
        AccessMode::Atomic => Class::Atomic,
    }
}

/// What the history keeps of an access of a node at this place of its chain.
fn entry((chain, index): (u32, u32), mode: AccessMode, buffer: BufferId) -> Entry {
    Entry {
        buffer: buffer.0,
        index,
        // The order refuses graphs of more chains than 16 bits can number.
        chain: chain as u16,
        class: class(mode),
    }
}

/// The lowest bytes of `want` that no range of `have` covers. `have` is
/// reordered.
pub(crate) fn first_gap(want: ByteRange, have: &mut [ByteRange]) -> Option<ByteRange> {
    have.sort_unstable();
    let mut from = want.start;
    for range in have.iter().filter(|range| range.overlaps(&want)) {
        if range.start > from {
            return Some(ByteRange::new(from, range.start));
        }
        from = from.max(range.end);
    }
    (from < want.end).then(|| ByteRange::new(from, want.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps() {
        let range = ByteRange::new;
        let gap = |have: &[(u64, u64)]| {
            let mut have: Vec<_> = have.iter().map(|&(s, e)| range(s, e)).collect();
            first_gap(range(10, 20), &mut have)
        };
        assert_eq!(gap(&[]), Some(range(10, 20)));
        assert_eq!(gap(&[(15, 30), (0, 15)]), None);
        assert_eq!(gap(&[(12, 30)]), Some(range(10, 12)));
        assert_eq!(gap(&[(0, 12), (14, 20)]), Some(range(12, 14)));
        assert_eq!(gap(&[(0, 18), (10, 11)]), Some(range(18, 20)));
    }
}
