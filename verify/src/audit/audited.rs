//! A dump as a trace, and the verdict about it.

use std::collections::{HashMap, HashSet};

use streamweir_trace::{BufferId, ByteRange, NodeId, Trace};

use crate::audit::error::AuditError;
use crate::options::Options;
use crate::report::{Report, Verdict};
use crate::rule::Rule;
use crate::verdict::verify_with;

/// Where the accesses of a dump are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The operator log where there is one, else the pointers.
    #[default]
    Auto,
    /// The operator log, and pointers to what it does not name.
    Operators,
    /// The words of kernel parameters alone.
    Pointers,
}

/// A view that may have gaps, by the node that touches it.
pub(super) type Loose = (NodeId, BufferId, ByteRange);

/// A dump as a trace.
#[derive(Clone, Debug)]
pub struct Audited {
    /// The trace: reports, drawings and simulators read it like any other.
    pub trace: Trace,
    /// Where its accesses were taken from; never [`Mode::Auto`].
    pub mode: Mode,
    pub(super) loose: HashSet<Loose>,
}

impl Audited {
    /// Checks the trace against every rule, as [`verify`](crate::verify) does,
    /// and calls possible what rests on views that may have gaps.
    ///
    /// # Errors
    /// As [`verify`](crate::verify).
    pub fn verify(&self, options: &Options) -> Result<Report, AuditError> {
        let mut report = verify_with(&self.trace, options)?;
        self.soften(&mut report);
        Ok(report)
    }

    /// Takes the proof from hazards whose accesses may have no byte in common.
    fn soften(&self, report: &mut Report) {
        if self.loose.is_empty() || report.verdict != Verdict::Hazard {
            return;
        }
        let mut of_node: HashMap<NodeId, Vec<(BufferId, ByteRange, bool)>> = HashMap::new();
        for access in &self.trace.accesses {
            let entry = (access.buffer, access.bytes, access.mode.writes());
            of_node.entry(access.node).or_default().push(entry);
        }
        for hazard in &mut report.hazards {
            let conflict = matches!(hazard.rule, Rule::UnorderedConflict | Rule::SharedBytes);
            let (Some(first), Some(second)) = (
                hazard.first.node,
                hazard.second.as_ref().and_then(|site| site.node),
            ) else {
                continue;
            };
            if conflict && !self.surely_meet(&of_node, first, second) {
                hazard.proven = false;
            }
        }
        // What the list leaves out is not looked at, and stays a hazard.
        let all = report.hazards.len() as u64 == report.hazards_total;
        if all && report.hazards.iter().all(|hazard| !hazard.proven) {
            report.verdict = Verdict::Possible;
        }
    }

    /// Whether two conflicting accesses of the two nodes have a byte in common
    /// whatever gaps there are.
    fn surely_meet(
        &self,
        of_node: &HashMap<NodeId, Vec<(BufferId, ByteRange, bool)>>,
        first: NodeId,
        second: NodeId,
    ) -> bool {
        let accesses = |node| of_node.get(&node).into_iter().flatten();
        let dense = |node, (buffer, bytes, _): (BufferId, ByteRange, bool)| {
            !self.loose.contains(&(node, buffer, bytes))
        };
        let at = |(buffer, bytes, _): (BufferId, ByteRange, bool)| {
            bytes.shifted(self.trace.buffer(buffer).range.start)
        };
        accesses(first).any(|&a| {
            accesses(second).any(|&b| {
                let (Some(x), Some(y)) = (at(a), at(b)) else {
                    return false;
                };
                let ends = [x.start, x.end.saturating_sub(1)];
                let other = [y.start, y.end.saturating_sub(1)];
                (a.2 || b.2)
                    && x.overlaps(&y)
                    && match (dense(first, a), dense(second, b)) {
                        (true, true) => true,
                        (true, false) => other.iter().any(|&byte| x.contains_byte(byte)),
                        (false, true) => ends.iter().any(|&byte| y.contains_byte(byte)),
                        (false, false) => x.start == y.start || x.end == y.end,
                    }
            })
        })
    }
}
