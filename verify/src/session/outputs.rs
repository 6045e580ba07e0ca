//! Outputs that are gone before they are read: everything is ordered, and yet a
//! step finds something else than what it is to read from.
//!
//! Only what is ordered is raised here. A write that is not ordered with the
//! reader, or with the step it reads from, is a conflict of its own.

use streamweir_trace::session::Session;
use streamweir_trace::{Access, BufferId, ByteRange, NodeId, Phase, StepId, Trace};

use crate::context::Context;

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

/// Every output that is overwritten, one entry for each place. `context` is
/// that of the lowered session.
pub(super) fn overwritten(session: &Session, context: &Context<'_>) -> Vec<Overwritten> {
    if session.steps.iter().all(|step| step.reads_from.is_empty()) {
        return Vec::new();
    }
    let trace = context.trace;
    let before =
        |first: NodeId, then: NodeId| context.reach.ends_before(first, then, Phase::AfterWait);
    let touches = Touches::new(trace);
    let mut found: Vec<Overwritten> = Vec::new();
    for (at, step) in session.steps.iter().enumerate() {
        let reader = NodeId::at(at);
        for &source in &step.reads_from {
            let from = NodeId(source.0);
            for (region, wanted) in touches.handed_over(from, reader) {
                // What comes between the two in order comes between them in
                // the list of steps.
                for write in touches.writes_between(region, from, reader) {
                    let Some(lost) = write.bytes.intersect(&wanted) else {
                        continue;
                    };
                    let by = StepId(write.node.0);
                    let meant = step.reads_from.contains(&by);
                    if meant || !before(from, write.node) || !before(write.node, reader) {
                        continue;
                    }
                    let start = trace.buffer(region).range.start;
                    found.push(Overwritten {
                        source,
                        by,
                        reader: StepId(reader.0),
                        bytes: ByteRange::new(lost.start + start, lost.end + start),
                    });
                }
            }
        }
    }
    found
}

/// The accesses of a lowered session by step, and its writes by region.
struct Touches<'a> {
    accesses: &'a [Access],
    writes: Vec<Vec<Access>>,
}

impl<'a> Touches<'a> {
    fn new(trace: &'a Trace) -> Self {
        let mut writes = vec![Vec::new(); trace.buffers.len()];
        for access in trace.accesses.iter().filter(|access| access.mode.writes()) {
            writes[access.buffer.index()].push(*access);
        }
        Self {
            accesses: &trace.accesses,
            writes,
        }
    }

    /// The accesses of a step. A lowered session has them in the order of its
    /// steps.
    fn of(&self, step: NodeId) -> &'a [Access] {
        let from = self.accesses.partition_point(|access| access.node < step);
        let len = self.accesses[from..].partition_point(|access| access.node == step);
        &self.accesses[from..from + len]
    }

    /// The bytes that `source` writes and `reader` reads.
    fn handed_over(&self, source: NodeId, reader: NodeId) -> Vec<(BufferId, ByteRange)> {
        let mut shared = Vec::new();
        for read in self.of(reader).iter().filter(|read| read.mode.reads()) {
            for write in self.of(source).iter().filter(|write| write.mode.writes()) {
                if write.buffer == read.buffer {
                    let bytes = write.bytes.intersect(&read.bytes);
                    shared.extend(bytes.map(|bytes| (read.buffer, bytes)));
                }
            }
        }
        shared.sort_unstable();
        shared.dedup();
        shared
    }

    /// The writes of a region by the steps between two.
    fn writes_between(&self, region: BufferId, after: NodeId, before: NodeId) -> &[Access] {
        let writes = &self.writes[region.index()];
        let from = writes.partition_point(|write| write.node <= after);
        let to = writes.partition_point(|write| write.node < before);
        &writes[from..to]
    }
}
