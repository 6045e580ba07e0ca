//! Outputs that are gone before they are read: everything is ordered, and yet a
//! step finds something else than what it is to read from.
//!
//! Only what is ordered is raised here. A write that is not ordered with the
//! reader, or with the step it reads from, is a conflict of its own.

use streamweir_trace::session::{Session, Use};
use streamweir_trace::{AccessMode, ByteRange, NodeId, Phase, StepId, Trace};

use super::regions::addresses;
use crate::VerifyError;
use crate::rules::Context;

/// A step that overwrites what a later one is to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwritten {
    /// The step that wrote it.
    pub(super) source: StepId,
    /// The step that overwrites it.
    pub(super) by: StepId,
    /// The step that is to read it.
    pub(super) reader: StepId,
    /// The lowest addresses concerned.
    pub(super) bytes: ByteRange,
}

/// Every output that is overwritten, by overwriting step and reader.
pub(super) fn overwritten(
    session: &Session,
    trace: &Trace,
) -> Result<Vec<Overwritten>, VerifyError> {
    if session.steps.iter().all(|step| step.reads_from.is_empty()) {
        return Ok(Vec::new());
    }
    let context = Context::new(trace)?;
    let before = |first: StepId, then: StepId| {
        let then = NodeId(then.0);
        context
            .reach
            .ends_before(NodeId(first.0), then, Phase::AfterWait)
    };
    let touched = |step: StepId, wanted: fn(AccessMode) -> bool| -> Vec<ByteRange> {
        let uses = session.uses(session.step(step));
        let uses = uses.iter().filter(|used: &&Use| wanted(used.mode));
        uses.filter_map(|used| addresses(session, used)).collect()
    };
    let mut found: Vec<Overwritten> = Vec::new();
    for (at, step) in session.steps.iter().enumerate() {
        let reader = StepId::at(at);
        for &source in &step.reads_from {
            let wanted = overlaps(
                &touched(source, AccessMode::writes),
                &touched(reader, AccessMode::reads),
            );
            for by in (source.0 + 1..reader.0).map(StepId) {
                if step.reads_from.contains(&by) || !before(source, by) || !before(by, reader) {
                    continue;
                }
                let lost = overlaps(&touched(by, AccessMode::writes), &wanted);
                if let Some(&bytes) = lost.first() {
                    found.push(Overwritten {
                        source,
                        by,
                        reader,
                        bytes,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The bytes that both lists hold, sorted.
pub(super) fn overlaps(a: &[ByteRange], b: &[ByteRange]) -> Vec<ByteRange> {
    let mut shared: Vec<ByteRange> = a
        .iter()
        .flat_map(|a| b.iter().filter_map(|b| a.intersect(b)))
        .collect();
    shared.sort_unstable();
    shared
}
