//! R1, unordered conflict: inside one buffer, two concurrent accesses overlap
//! in bytes and one of them writes. Atomic against atomic is fine, and so are
//! disjoint ranges of one buffer.
//!
//! ```text
//! breaks:  main ---+-- W a ------------------+---      safe:  main ---+-- W a --+------------
//!                   \                       /                          \         \
//!          side      +------------- R a ---+                  side      +---------+-- R a ---
//! ```
//!
//! Two accesses of the same node are the kernel's own affair, not a race of
//! streams.

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};
use crate::sweep::overlapping;

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    for touches in context.accesses.all().chunk_by(|a, b| a.buffer == b.buffer) {
        if touches.len() == 1 || !touches.iter().any(|touch| touch.mode.writes()) {
            continue;
        }
        overlapping(
            touches,
            |touch| touch.bytes,
            |a, b| {
                if a.node == b.node || !a.mode.conflicts(b.mode) {
                    return;
                }
                let (first, then, forced) = context.ordered(a, b, findings);
                if !forced {
                    let fix = Fix::Join {
                        after: first.node,
                        before: then.node,
                    };
                    findings.push(Finding::of_pair(
                        Rule::UnorderedConflict,
                        Cause::Unordered,
                        first,
                        then,
                        fix,
                    ));
                }
            },
        );
    }
}
