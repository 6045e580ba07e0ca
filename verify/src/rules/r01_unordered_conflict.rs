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
//! streams. An access that is only possible may be of any kind, and conflicts
//! with all.
//!
//! Which pairs to look at is the business of [`crate::sweep`]; here each is
//! judged.

use streamweir_trace::Trace;

use crate::accesses::Touch;
use crate::findings::{Cause, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};
use crate::rules::pairs::{Pair, Pairs};
use crate::sweep::{self, Met};

pub(super) const NUMBER: &str = "R1";

/// Nothing orders the two accesses.
#[derive(Debug)]
struct Unordered;

impl Cause for Unordered {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let buffer = finding.buffer(trace, 0);
        format!("nothing orders two accesses of the same bytes of \"{buffer}\"")
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, suspects } = input;
    let mut pairs = Pairs::new(Rule::UnorderedConflict);
    let compared = sweep::within_buffers(context, suspects, |met| match met {
        Met::Pair(first, then) if conflict(first, then) => pairs.add(
            findings,
            Pair {
                first: *first,
                then: *then,
                proven: first.declared && then.declared,
                way: (),
            },
        ),
        Met::Pair(..) => {}
        Met::NodeDone => pairs.close(findings, |pair| finding(&pair.first, &pair.then)),
    })?;
    findings.compared_times(compared);
    Ok(())
}

/// Whether two accesses of one buffer that nothing orders are a hazard.
fn conflict(first: &Touch, then: &Touch) -> bool {
    first.node != then.node && first.mode.conflicts(then.mode)
}

fn finding(first: &Touch, then: &Touch) -> Finding {
    let fix = Fix::Join {
        after: first.node,
        before: then.node,
    };
    Finding::of_pair(Rule::UnorderedConflict, Unordered, first, then, fix)
}
