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
//! carried buffer reads, or write them after it.

use streamweir_trace::{BufferId, BufferKind};

use crate::Fix;
use crate::accesses::{Touch, Usage};
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};
use crate::sweep::overlapping;

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    let mut usage = context.accesses.usage(&context.reach);
    usage.sort_unstable_by_key(|usage| (usage.hull.start, usage.buffer));
    overlapping(
        &usage,
        |usage| usage.hull,
        |a, b| {
            if (a.writes || b.writes) && !handed_over(context, a, b, findings) {
                check_pair(context, a.buffer, b.buffer, findings);
            }
        },
    );
}

/// Whether one buffer is wholly done before the other begins: the common case,
/// decided from the ends of their chains alone.
fn handed_over(context: &Context<'_>, a: &Usage, b: &Usage, findings: &Findings) -> bool {
    // With PDL an access may stand before the wait of its node, and what has
    // ended before the first wait of a chain has not always ended before the
    // second start.
    if carried(context, a.buffer) || carried(context, b.buffer) || context.reach.has_pdl() {
        return false;
    }
    let wholly_before = |a: &Usage, b: &Usage| {
        a.ends.iter().all(|&(_, last)| {
            b.ends.iter().all(|&(first, _)| {
                findings.compared();
                context
                    .reach
                    .ends_before(last, first, streamweir_trace::Phase::AfterWait)
            })
        })
    };
    wholly_before(a, b) || wholly_before(b, a)
}

fn check_pair(context: &Context<'_>, a: BufferId, b: BufferId, findings: &Findings) {
    let mut touches: Vec<Touch> = Vec::new();
    touches.extend_from_slice(context.accesses.of(a));
    touches.extend_from_slice(context.accesses.of(b));
    touches.sort_by_key(|touch| touch.bytes.start);
    let move_away = move_away(context, a, b);
    let separate = Fix::Separate { buffer: move_away };
    let mut pairs: Vec<(Touch, Touch, bool)> = Vec::new();
    overlapping(
        &touches,
        |touch| touch.bytes,
        |x, y| {
            if x.buffer == y.buffer || !(x.mode.writes() || y.mode.writes()) {
                return;
            }
            let (first, then, forced) = context.ordered(x, y, findings);
            let cause = if x.node == y.node {
                Cause::SameNode
            } else if overwrites_carried(context, first, then) {
                Cause::Carried
            } else {
                pairs.push((*first, *then, forced));
                return;
            };
            let fix = separate.clone();
            findings.push(Finding::of_pair(Rule::SharedBytes, cause, first, then, fix));
        },
    );
    // The earliest hand-over says which buffer comes first; whatever points the
    // other way comes between two accesses of it. Where order can still be
    // added, it must point that way too, or moving a buffer is the only remedy.
    let position = |touch: &Touch| context.graph.position(touch.node);
    let leader = pairs
        .iter()
        .min_by_key(|(first, then, forced)| {
            (!forced, position(first), position(then), first.buffer)
        })
        .map(|(first, ..)| first.buffer);
    for (first, then, forced) in &pairs {
        let follows = Some(first.buffer) == leader;
        let (cause, fix) = match (forced, follows) {
            (true, true) => continue,
            (true, false) => (Cause::Between, separate.clone()),
            (false, false) => (Cause::Unordered, separate.clone()),
            (false, true) => {
                let fix = Fix::Join {
                    after: first.node,
                    before: then.node,
                };
                (Cause::Unordered, fix)
            }
        };
        findings.push(Finding::of_pair(Rule::SharedBytes, cause, first, then, fix));
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
