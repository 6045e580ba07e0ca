//! R2, shared bytes of two buffers: two buffers share bytes although not every
//! access of one happens before every access of the other.
//!
//! ```text
//! breaks:  main ---+-- W a ---- (a dropped, b takes its bytes) -- W b ---+---
//!                   \      \                                            /
//!          side      +------+------------- R a ------------------------+
//!
//! breaks:  main ------ W a ----- W b ----- R a ---     (nothing is concurrent: b clobbers a)
//!
//! safe:    main ---+-- W a --+--------------+-- W b ---
//!                   \         \            /
//!          side      +---------+-- R a ---+
//! ```
//!
//! Decided byte by byte: only accesses that overlap and of which one writes
//! count, and for a pair of buffers they must all be ordered and all point the
//! same way. Two reads of shared bytes alter nothing; a read of bytes that only
//! the other buffer wrote is R13.
//!
//! What a buffer carries from one replay to the next must also survive the end
//! of the replay, where no order inside the graph helps: the next replay's
//! first access comes after everything. So nothing else may write bytes that a
//! carried buffer reads, or write them after it. Nor may anything else write
//! bytes of it that no node touches here: that is one access without another,
//! see [`untouched`].
//!
//! Which pairs to look at is the business of [`crate::sweep`]; here each is
//! judged.

pub(super) mod untouched;

use streamweir_trace::{BufferId, BufferKind};

use crate::Fix;
use crate::accesses::Touch;
use crate::findings::{Cause, Finding};
use crate::rules::{Context, Rule};
use crate::sweep::Direction;

/// The two accesses in the order of the graph, and whether that order is
/// forced, when they may hand bytes over from one buffer to the other. `None`
/// when they conflict whatever their order, or not at all.
pub(crate) fn hand_over<'t>(
    context: &Context<'_>,
    x: &'t Touch,
    y: &'t Touch,
) -> Option<(&'t Touch, &'t Touch, bool)> {
    let (first, then, forced) = context.ordered(x, y);
    let conflict = x.mode.writes() || y.mode.writes();
    let in_order = x.node != y.node && !overwrites_carried(context, first, then);
    (conflict && in_order).then_some((first, then, forced))
}

/// The hazard of two overlapping accesses of two buffers, if they are one.
/// `first` comes first in the order of the graph, and `direction` says which
/// buffer ought to. With respect to declared accesses alone the hazard is
/// proven.
pub(crate) fn judge(
    context: &Context<'_>,
    first: &Touch,
    then: &Touch,
    direction: Direction,
) -> Option<Cause> {
    if !(first.mode.writes() || then.mode.writes()) {
        return None;
    }
    if first.node == then.node {
        return Some(Cause::SameNode);
    }
    if overwrites_carried(context, first, then) {
        return Some(Cause::Carried);
    }
    if !context.reach.ends_before(first.node, then.node, then.phase) {
        return Some(Cause::Unordered);
    }
    let against = |leader: Option<BufferId>| leader.is_some_and(|leader| leader != first.buffer);
    let declared = first.declared && then.declared;
    ((declared && against(direction.declared)) || against(direction.all)).then_some(Cause::Between)
}

/// Whether a hazard of these two is proven.
pub(crate) fn proven(cause: &Cause, first: &Touch, then: &Touch, direction: Direction) -> bool {
    let declared = first.declared && then.declared;
    match cause {
        // Which buffer comes first must not rest on a possible access either.
        Cause::Between => declared && direction.declared.is_some_and(|d| d != first.buffer),
        _ => declared,
    }
}

/// The hazard in full.
pub(crate) fn finding(
    context: &Context<'_>,
    cause: Cause,
    first: &Touch,
    then: &Touch,
    direction: Direction,
) -> Finding {
    let proven = proven(&cause, first, then, direction);
    let leader = if proven {
        direction.declared
    } else {
        direction.all
    };
    // Where order can still be added it must point the way of the other
    // accesses, or moving a buffer is the only remedy.
    let fix = if cause == Cause::Unordered && leader == Some(first.buffer) {
        Fix::Join {
            after: first.node,
            before: then.node,
        }
    } else {
        Fix::Separate {
            buffer: move_away(context, first.buffer, then.buffer),
        }
    };
    Finding {
        proven,
        ..Finding::of_pair(Rule::SharedBytes, cause, first, then, fix)
    }
}

/// Whether one of two ordered accesses destroys what the other's buffer carries
/// into the next replay.
fn overwrites_carried(context: &Context<'_>, first: &Touch, then: &Touch) -> bool {
    let clobbers = |writer: &Touch, owner: &Touch, after: bool| {
        carried(context, owner.buffer) && writer.mode.writes() && (owner.mode.reads() || after)
    };
    clobbers(first, then, false) || clobbers(then, first, true)
}

fn carried(context: &Context<'_>, buffer: BufferId) -> bool {
    context.trace.buffer(buffer).carried
}

/// Which of two buffers to give bytes of its own: scratch rather than memory
/// that others know the address of, else the one recorded later.
fn move_away(context: &Context<'_>, a: BufferId, b: BufferId) -> BufferId {
    let rank = |id: BufferId| {
        let kind = &context.trace.buffer(id).kind;
        (matches!(kind, BufferKind::Scratch { .. }), id)
    };
    if rank(a) > rank(b) { a } else { b }
}
