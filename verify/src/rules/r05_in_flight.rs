//! R5, graphs in flight together: two launches, or a launch and eager work,
//! touch the same bytes, one of them writes, and nothing orders them; or a
//! replay overwrites an output that is still to be read.
//!
//! ```text
//! breaks:  one --- A: W x ---------         safe:  one --- A: W x --+ event
//!          two --- B: R x ---------                                  \
//!                                                  two ---------------+-- B: R x ---
//!
//! breaks:  one --- A: W out --- A: W out --- K: R out of the first A ---
//! safe:    one --- A: W out --- K: R out of the first A --- A: W out ---
//! ```
//!
//! A rule of the session level: [`verify_session`](crate::verify_session)
//! raises it, from what the checker of graphs finds in the lowered session.
//! Launches of one executable graph never overlap, which the driver sees to;
//! those of two instantiations of one capture may.

use streamweir_trace::session::{Step, StepKind};

pub(super) const NUMBER: &str = "R5";

/// What is wrong about two steps that may be in flight together.
pub(crate) fn headline(steps: [&Step; 2], buffer: &str) -> String {
    let launches = |step: &&Step| matches!(step.kind, StepKind::Launch { .. });
    match steps.iter().filter(|step| launches(step)).count() {
        2 => format!(
            "two graphs that touch the same bytes of \"{buffer}\" may be in flight together"
        ),
        1 => format!(
            "a graph and eager work that touch the same bytes of \"{buffer}\" may be in flight together"
        ),
        _ => format!(
            "eager work on two streams touches the same bytes of \"{buffer}\", and nothing orders it"
        ),
    }
}
