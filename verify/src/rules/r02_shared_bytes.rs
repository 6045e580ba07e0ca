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

mod untouched;

use streamweir_trace::{BufferId, BufferKind, Trace};

use crate::accesses::Touch;
use crate::context::Context;
use crate::findings::{self, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};
use crate::rules::pairs::{Pair, Pairs};
use crate::sweep::{self, Direction, Met, overwrites_carried};

pub(super) const NUMBER: &str = "R2";

/// In which way two buffers spoil each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// No path leads from one node to the other.
    Unordered,
    /// One node touches both buffers.
    SameNode,
    /// Ordered, but between two accesses of the other buffer.
    Between,
    /// Ordered, but the next replay relies on the bytes.
    Carried,
    /// Over bytes that the other buffer keeps and no node touches.
    Untouched,
}

impl findings::Cause for Cause {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let [a, b] = [0, 1].map(|which| finding.buffer(trace, which));
        match self {
            Self::Unordered => {
                format!("\"{a}\" and \"{b}\" share bytes, and nothing orders their accesses")
            }
            Self::SameNode => format!("one node uses \"{a}\" and \"{b}\", which share bytes"),
            Self::Between => {
                format!("\"{a}\" is used between two uses of \"{b}\", and they share bytes")
            }
            Self::Carried => format!(
                "\"{a}\" and \"{b}\" share bytes that one of them keeps from replay to replay"
            ),
            Self::Untouched => format!(
                "\"{a}\" is written over bytes that \"{b}\" keeps from replay to replay and that no node here touches"
            ),
        }
    }

    fn comes_between(&self) -> bool {
        *self == Self::Between
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, suspects } = input;
    let mut pairs = Pairs::new(Rule::SharedBytes);
    let compared = sweep::across_buffers(context, suspects, |met, direction| match met {
        Met::Pair(first, then) => {
            if let Some(cause) = judge(context, first, then, direction) {
                let pair = Pair {
                    first: *first,
                    then: *then,
                    proven: proven(cause, first, then, direction),
                    way: (cause, direction),
                };
                pairs.add(findings, pair);
            }
        }
        Met::NodeDone => pairs.close(findings, |pair| finding(context, &pair)),
    })?;
    findings.compared_times(compared);
    untouched::check(context, findings);
    Ok(())
}

/// The hazard of two overlapping accesses of two buffers, if they are one.
/// `first` comes first in the order of the graph, and `direction` says which
/// buffer ought to. With respect to declared accesses alone the hazard is
/// proven.
fn judge(
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
fn proven(cause: Cause, first: &Touch, then: &Touch, direction: Direction) -> bool {
    let declared = first.declared && then.declared;
    match cause {
        // Which buffer comes first must not rest on a possible access either.
        Cause::Between => declared && direction.declared.is_some_and(|d| d != first.buffer),
        _ => declared,
    }
}

fn finding(context: &Context<'_>, pair: &Pair<(Cause, Direction)>) -> Finding {
    let Pair {
        first,
        then,
        proven,
        way: (cause, direction),
    } = pair;
    let leader = match proven {
        true => direction.declared,
        false => direction.all,
    };
    // Where order can still be added it must point the way of the other
    // accesses, or moving a buffer is the only remedy.
    let fix = if *cause == Cause::Unordered && leader == Some(first.buffer) {
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
        proven: *proven,
        ..Finding::of_pair(Rule::SharedBytes, *cause, first, then, fix)
    }
}

/// Which of two buffers to give bytes of its own: scratch rather than memory
/// that others know the address of, else the one recorded later.
fn move_away(context: &Context<'_>, a: BufferId, b: BufferId) -> BufferId {
    let rank = |id: BufferId| {
        let kind = &context.trace.buffer(id).kind;
        // Memory without a name is nobody's to move.
        let named = id.index() < context.given.buffers.len();
        (named, matches!(kind, BufferKind::Scratch { .. }), id)
    };
    if rank(a) > rank(b) { a } else { b }
}
