//! The turns in which buffers come to the bytes that they share.
//!
//! A safe graph settles for each two buffers which one hands its bytes to the
//! other. The turns put all of them into one sequence. Nearly always that is the
//! order of their first accesses: each buffer is done before the next one in its
//! bytes begins. Only where the lives of two that share bytes overlap must the
//! accesses be looked at.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use streamweir_trace::{BufferId, ByteRange};

use crate::context::Context;

/// The touched buffers in their turns. False when they hand bytes to each other
/// in a circle, or there and back: then no sequence holds.
pub(super) fn turns(context: &Context<'_>) -> (Vec<BufferId>, bool) {
    // Memory that only operands show comes last of itself.
    let buffers = (0..context.named).map(BufferId::at);
    let life = |id: BufferId| context.accesses.life(id);
    let mut touched: Vec<BufferId> = buffers.filter(|&id| life(id).count > 0).collect();
    touched.sort_by_key(|&id| life(id).first);
    if apart(context, &touched) {
        return (touched, true);
    }
    sorted(touched, &hand_overs(context))
}

/// Whether no two of the buffers, given in the order of their first accesses,
/// share bytes while both are in use.
fn apart(context: &Context<'_>, touched: &[BufferId]) -> bool {
    // By first byte: where the buffers end that had bytes last, and when they are
    // done.
    let mut open: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    for &id in touched {
        let ByteRange { start, end } = context.trace.buffer(id).range;
        let life = context.accesses.life(id);
        while let Some((&at, &(until, last))) = open.range(..end).next_back()
            && until > start
        {
            if last >= life.first {
                return false;
            }
            open.remove(&at);
        }
        open.insert(start, (end, life.last));
    }
    true
}

/// Who has touched a run of bytes since it was last written, and who wrote it.
#[derive(Clone, Default)]
struct Run {
    writer: Option<BufferId>,
    readers: Vec<BufferId>,
}

/// The pairs of buffers of which the first has bytes that the second one takes
/// over, in the order of the graph.
fn hand_overs(context: &Context<'_>) -> HashSet<(BufferId, BufferId)> {
    let mut pairs = HashSet::new();
    let mut runs: BTreeMap<u64, Run> = BTreeMap::new();
    for touch in context.accesses.all() {
        for at in [touch.bytes.start, touch.bytes.end] {
            if !runs.contains_key(&at) {
                let run = runs.range(..at).next_back().map(|(_, run)| run.clone());
                runs.insert(at, run.unwrap_or_default());
            }
        }
        for (_, run) in runs.range_mut(touch.bytes.start..touch.bytes.end) {
            pairs.extend(run.writer.map(|writer| (writer, touch.buffer)));
            if touch.mode.writes() {
                pairs.extend(run.readers.drain(..).map(|reader| (reader, touch.buffer)));
                run.writer = Some(touch.buffer);
            } else if !run.readers.contains(&touch.buffer) {
                run.readers.push(touch.buffer);
            }
        }
    }
    let named = |id: &BufferId| id.index() < context.named;
    pairs.retain(|(first, then)| first != then && named(first) && named(then));
    pairs
}

/// The buffers so that each pair points forward, as near to the order given as
/// may be, and whether there is such a sequence.
fn sorted(touched: Vec<BufferId>, pairs: &HashSet<(BufferId, BufferId)>) -> (Vec<BufferId>, bool) {
    let place: BTreeMap<BufferId, usize> = touched.iter().copied().zip(0..).collect();
    let (mut after, mut waits) = (vec![Vec::new(); touched.len()], vec![0; touched.len()]);
    for (first, then) in pairs {
        after[place[first]].push(place[then]);
        waits[place[then]] += 1;
    }
    let ready = (0..touched.len()).filter(|&at| waits[at] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut turns = Vec::with_capacity(touched.len());
    while let Some(Reverse(at)) = ready.pop() {
        turns.push(touched[at]);
        for &then in &after[at] {
            waits[then] -= 1;
            if waits[then] == 0 {
                ready.push(Reverse(then));
            }
        }
    }
    let whole = turns.len() == touched.len();
    if !whole {
        turns.extend(
            touched
                .iter()
                .zip(&waits)
                .filter(|at| *at.1 > 0)
                .map(|at| at.0),
        );
    }
    (turns, whole)
}
