//! The part of R2 that has one access only: bytes that a buffer keeps from one
//! replay to the next and that no node of this graph touches.
//!
//! ```text
//! breaks:  main --- W a (where the weights lie, which another graph reads) ---
//! ```
//!
//! Such a buffer has no access to be compared with, but each replay destroys
//! what it holds. What the buffer's own nodes are declared to touch is a matter of
//! pairs.
//!
//! # What it costs
//! With `b` buffers, `c` of them carried, and `a` accesses: O((b + c) log c) for
//! a trace in which no written buffer shares bytes with a carried one, which is
//! nearly every trace; O(a log a) more for the others.

use streamweir_trace::{BufferId, ByteRange, RangeSet};

use super::{Cause, move_away};
use crate::accesses::{Recent, Touch};
use crate::context::Context;
use crate::findings::{Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;

/// Bytes that nothing but their owner may write, and that the owner's nodes do
/// not touch.
#[derive(Clone, Copy, Debug)]
struct Kept {
    bytes: ByteRange,
    owner: BufferId,
}

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    let kept = kept(context);
    if kept.pieces.is_empty() {
        return;
    }
    let mut node = None;
    for touch in context.accesses.all().filter(|touch| touch.mode.writes()) {
        let Some((kept, bytes)) = kept.first_of_others(&touch) else {
            continue;
        };
        // The findings of one node are one hazard.
        if node.replace(touch.node) != Some(touch.node) {
            findings.close();
        }
        let fix = Fix::Separate {
            buffer: move_away(context, kept.owner, touch.buffer),
        };
        findings.push(Finding {
            buffers: [Some(touch.buffer), Some(kept.owner)],
            bytes,
            ..Finding::of_touch(Rule::SharedBytes, Cause::Untouched, &touch, fix)
        });
    }
}

/// Pieces of kept bytes by first byte.
struct AllKept {
    pieces: Vec<Kept>,
    /// For each piece, the furthest end among it and all before it.
    reach: Vec<u64>,
}

impl AllKept {
    /// The lowest bytes of an access that are kept for another buffer. What the
    /// buffer itself may do to its bytes, by a word, is its own affair.
    fn first_of_others(&self, touch: &Touch) -> Option<(Kept, ByteRange)> {
        let bytes = touch.bytes;
        let until = self
            .pieces
            .partition_point(|kept| kept.bytes.start < bytes.end);
        let near = (0..until)
            .rev()
            .take_while(|&at| self.reach[at] > bytes.start)
            .map(|at| self.pieces[at]);
        let others = near.filter(|kept| kept.owner != touch.buffer);
        let met = others.filter_map(|kept| Some((kept, kept.bytes.intersect(&bytes)?)));
        met.min_by_key(|(kept, bytes)| (bytes.start, kept.owner))
    }
}

/// The bytes that are kept and not touched. Those of buffers that share nothing
/// with a written one may be left out.
fn kept(context: &Context<'_>) -> AllKept {
    let range = |id: BufferId| context.trace.buffer(id).range;
    let mut carried: Vec<BufferId> = (0..context.trace.buffers.len())
        .map(BufferId::at)
        .filter(|&id| context.accesses.life(id).carried && !range(id).is_empty())
        .collect();
    carried.sort_by_key(|&id| range(id));
    let runs = shared_runs(context, &carried);
    let mut kept: Vec<Kept> = carried
        .into_iter()
        .filter(|&id| {
            let at = runs.partition_point(|run| run.end <= range(id).start);
            runs.get(at).is_some_and(|run| run.overlaps(&range(id)))
        })
        .flat_map(|owner| {
            // A word may touch nothing, so it hides no byte.
            let touched = context.accesses.of(owner).filter(|touch| touch.declared);
            let touched: RangeSet = touched.map(|touch| touch.bytes).collect();
            let gaps: Vec<ByteRange> = touched.gaps(range(owner)).collect();
            gaps.into_iter().map(move |bytes| Kept { bytes, owner })
        })
        .collect();
    kept.sort_by_key(|kept| (kept.bytes, kept.owner));
    let mut furthest = 0;
    let ends = kept.iter().map(|kept| {
        furthest = kept.bytes.end.max(furthest);
        furthest
    });
    AllKept {
        reach: ends.collect(),
        pieces: kept,
    }
}

/// The runs of bytes of carried buffers, given in order of address, in which
/// some byte is also that of another buffer which is written or carried.
fn shared_runs(context: &Context<'_>, carried: &[BufferId]) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::new();
    // How many buffers begin to share bytes at each run, less those that have
    // ceased to.
    let mut change: Vec<i64> = Vec::new();
    for &id in carried {
        let range = context.trace.buffer(id).range;
        match runs.last_mut() {
            Some(last) if range.start < last.end => {
                last.end = last.end.max(range.end);
                let at = runs.len() - 1;
                change[at] += 1;
                change[at + 1] -= 1;
            }
            _ => {
                runs.push(range);
                change.resize(runs.len() + 1, 0);
            }
        }
    }
    let (Some(low), Some(high)) = (runs.first(), runs.last()) else {
        return runs;
    };
    let all = ByteRange::new(low.start, high.end);
    let mut seen = Recent::new();
    for (at, buffer) in context.trace.buffers.iter().enumerate() {
        let life = context.accesses.life(BufferId::at(at));
        let range = buffer.range;
        let matters = life.written && !life.carried && range.overlaps(&all);
        if matters && seen.is_new((range.start, range.end)) {
            change[runs.partition_point(|run| run.end <= range.start)] += 1;
            change[runs.partition_point(|run| run.start < range.end)] -= 1;
        }
    }
    let mut sharing = 0;
    let mut change = change.into_iter();
    runs.retain(|_| {
        sharing += change.next().unwrap_or_default();
        sharing > 0
    });
    runs
}
