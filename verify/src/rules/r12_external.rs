//! R12, external producer or consumer: bytes go between a graph and something
//! outside it (a copy, the host, a loader), and one side does not wait for the
//! other.
//!
//! ```text
//! breaks:  loader --- W keys ---------       safe:  loader --- W keys --+ event
//!                                                                        \
//!          main ----- G: R keys ------              main -----------------+-- G: R keys ---
//!
//! breaks:  host --- W staged ------------ W staged (next batch)
//!          main -------- copy staged to in - G: R in ------
//! safe:    the host waits for the copy, or has a ring of staging buffers and waits for the one it takes
//! ```
//!
//! Waiting on another stream does not help: the wait must be on the stream of
//! the work. A rule of the session level: [`verify_session`](crate::verify_session)
//! raises it, from what the checker of graphs finds in the lowered session.

use streamweir_trace::{AccessMode, clipped};
use streamweir_trace::session::{Session, Step, StepKind};

pub(super) const NUMBER: &str = "R12";

/// Whether a step is a producer or consumer outside of graphs and of the
/// program's own kernels.
pub(crate) fn is_outside(session: &Session, step: &Step) -> bool {
    let external = |step: &Step| {
        let stream = step.stream();
        stream.is_some_and(|stream| session.streams[stream.index()].external)
    };
    matches!(step.kind, StepKind::Copy { .. } | StepKind::Host { .. }) || external(step)
}

/// What is wrong about two steps, in the order in which they were called.
pub(crate) fn headline(
    session: &Session,
    steps: [&Step; 2],
    modes: [Option<AccessMode>; 2],
    buffer: &str,
) -> String {
    let [first, then] = modes.map(|mode| mode.is_some_and(|mode| mode.writes()));
    let outside = steps.map(|step| is_outside(session, step));
    let [a, b] = steps.map(|step| clipped(&step.name));
    match (first, then, outside) {
        (true, false, [true, _]) => {
            format!("`{b}` reads \"{buffer}\" without waiting for `{a}`, which fills it")
        }
        (true, false, _) => {
            format!("`{b}` takes \"{buffer}\" away without waiting for `{a}`, which writes it")
        }
        (false, true, [_, true]) => {
            format!("`{b}` fills \"{buffer}\" again while `{a}` may still read it")
        }
        (false, true, _) => {
            format!("`{b}` overwrites \"{buffer}\" while `{a}` may still read it")
        }
        _ => format!("`{a}` and `{b}` both write \"{buffer}\", and nothing orders them"),
    }
}
