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

use crate::Fix;
use crate::accesses::Touch;
use crate::findings::{Cause, Finding};
use crate::rules::Rule;

/// Whether two accesses of one buffer that nothing orders are a hazard.
pub(crate) fn conflict(first: &Touch, then: &Touch) -> bool {
    first.node != then.node && first.mode.conflicts(then.mode)
}

/// The hazard of two such accesses, `first` earlier in the order of the graph.
pub(crate) fn finding(first: &Touch, then: &Touch) -> Finding {
    let fix = Fix::Join {
        after: first.node,
        before: then.node,
    };
    Finding::of_pair(Rule::UnorderedConflict, Cause::Unordered, first, then, fix)
}
