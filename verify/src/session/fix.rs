//! Applying a fix to a session.

use streamweir_trace::session::{Session, Step};
use streamweir_trace::{ByteRange, NodeId, StepId};

use super::regions::addresses;
use crate::fix::Fix;

/// The session with the change of a hazard made: an event that one step is
/// followed by and the other waits for, or a reader moved in front of what
/// overwrites its input. `None` for a fix that no change of the session's own
/// calls can make, such as another place for an output.
///
/// A change renumbers the steps behind it, so it is followed by a new verdict
/// rather than by another fix of the same report. Fixes applied one after the
/// other in this way come to an end.
///
/// # Panics
/// When the fix is of another session.
#[must_use]
pub fn mend(session: &Session, fix: &Fix) -> Option<Session> {
    match *fix {
        Fix::Join { after, before } => Some(wait_for(session, StepId(after.0), StepId(before.0))),
        Fix::ReadEarlier { reader, before } => {
            let mut order: Vec<usize> = (0..session.steps.len()).collect();
            let moved = order.remove(reader.index());
            order.insert(before.index(), moved);
            Some(in_order(session, &order))
        }
        _ => None,
    }
}

/// Records an event behind `after` and waits for it in front of `before`.
fn wait_for(session: &Session, after: StepId, before: StepId) -> Session {
    let mut order: Vec<usize> = (0..session.steps.len()).collect();
    let (record, wait) = (order.len(), order.len() + 1);
    let mut session = session.clone();
    let from = session.step(after).clone();
    let event = session.add_event(format!("{} done", from.name));
    let wait_step = match session.step(before).stream() {
        Some(stream) => Step::wait(stream, event),
        None => Step::sync_event(event),
    };
    match from.stream() {
        Some(stream) => {
            session.steps.push(Step::record(stream, event));
            session.steps.push(wait_step);
            order.insert(before.index(), wait);
            order.insert(after.index() + 1, record);
        }
        // What the host has done is over when it makes its next call.
        None => return session,
    }
    in_order(&session, &order)
}

/// The session with its steps in this order, and what they read from
/// renumbered.
fn in_order(session: &Session, order: &[usize]) -> Session {
    let mut place = vec![StepId::default(); order.len()];
    for (at, &old) in order.iter().enumerate() {
        place[old] = StepId::at(at);
    }
    let mut changed = session.clone();
    changed.steps = order
        .iter()
        .map(|&old| session.steps[old].clone())
        .collect();
    for step in &mut changed.steps {
        for from in &mut step.reads_from {
            *from = place[from.index()];
        }
    }
    changed
}

/// The move of `reader` in front of `by`, which overwrites what it is to read;
/// `None` when something in between would notice the move.
pub(super) fn read_earlier(session: &Session, reader: StepId, by: StepId) -> Option<Fix> {
    let moved = session.step(reader);
    if moved.reads_from.iter().any(|&source| source >= by) {
        return None;
    }
    let ranges = |id: StepId, writes: bool| -> Vec<ByteRange> {
        let uses = session.uses(session.step(id)).into_iter();
        let wanted = uses.filter(|used| {
            if writes {
                used.mode.writes()
            } else {
                used.mode.reads()
            }
        });
        wanted
            .filter_map(|used| addresses(session, &used))
            .collect()
    };
    let sources: Vec<ByteRange> = moved
        .reads_from
        .iter()
        .flat_map(|&source| ranges(source, true))
        .collect();
    let (reads, writes) = (ranges(reader, false), ranges(reader, true));
    let pinned = reads
        .iter()
        .filter(|read| !sources.iter().any(|source| source.contains(read)));
    let pinned: Vec<ByteRange> = pinned.copied().collect();
    let later = (by.0..reader.0).map(StepId);
    let noticed = later.into_iter().any(|id| {
        // A later step that reads what the reader writes, or that writes what
        // it reads from elsewhere, would see another order.
        meet(&ranges(id, true), &pinned)
            || meet(&ranges(id, true), &writes)
            || meet(&ranges(id, false), &writes)
            || session.step(id).reads_from.contains(&reader)
    });
    (!noticed).then_some(Fix::ReadEarlier {
        reader: NodeId(reader.0),
        before: NodeId(by.0),
    })
}

fn meet(a: &[ByteRange], b: &[ByteRange]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.overlaps(b)))
}
