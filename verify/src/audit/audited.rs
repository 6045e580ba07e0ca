//! A dump as a trace, and the verdict about it.

use std::collections::HashMap;

use streamweir_trace::{ByteRange, NodeId, Trace};

use crate::accesses::Shown;
use crate::audit::error::AuditError;
use crate::audit::shapes::{Key, Meeting, Shapes};
use crate::options::Options;
use crate::report::{Hazard, Report, Verdict};
use crate::rule::Rule;
use crate::site::Site;
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

/// How many hazards are looked through for such as rest on bytes with gaps.
const LOOKED_THROUGH: usize = 1 << 13;

/// A dump as a trace.
#[derive(Clone, Debug)]
pub struct Audited {
    /// The trace: reports, drawings and simulators read it like any other. An
    /// access has all bytes from its first to its last, gaps included.
    pub trace: Trace,
    /// Where its accesses were taken from; never [`Mode::Auto`].
    pub mode: Mode,
    pub(super) shapes: Shapes,
}

impl Audited {
    /// Checks the trace against every rule, as [`verify`](crate::verify) does,
    /// leaves out what rests on bytes of gaps, and calls possible what rests on
    /// bytes of which the dump does not say whether they are such. A verdict that
    /// is safe for this reason carries no certificate.
    ///
    /// # Errors
    /// As [`verify`](crate::verify).
    pub fn verify(&self, options: &Options) -> Result<Report, AuditError> {
        if self.shapes.is_empty() {
            return Ok(verify_with(&self.trace, options)?);
        }
        let all = Options {
            limit: options.limit.max(LOOKED_THROUGH),
            ..*options
        };
        let mut report = verify_with(&self.trace, &all)?;
        self.look_closer(Shown::new(&self.trace)?.trace(), &mut report);
        report.hazards.truncate(options.limit);
        Ok(report)
    }

    /// Leaves out hazards whose accesses have no byte in common, and takes the
    /// proof from those whose accesses may have none. `trace` is the one that was
    /// judged, with all that its nodes show.
    fn look_closer(&self, trace: &Trace, report: &mut Report) {
        let mut of_node: HashMap<NodeId, Vec<Key>> = HashMap::new();
        for access in &trace.accesses {
            let key = (
                access.node,
                access.buffer,
                access.bytes,
                access.mode.writes(),
            );
            of_node.entry(access.node).or_default().push(key);
        }
        let mut words: HashMap<NodeId, Vec<Key>> = HashMap::new();
        for word in &trace.possible {
            let key = (word.node, word.buffer, word.bytes, true);
            words.entry(word.node).or_default().push(key);
        }
        // What the list leaves out is not looked at, and stays a hazard.
        let unlisted = report.hazards_total - report.hazards.len() as u64;
        report.hazards.retain_mut(|hazard| {
            // What rests on words alone is possible whatever gaps there are.
            if !hazard.proven {
                return true;
            }
            let one_buffer = match hazard.rule {
                Rule::UnorderedConflict => true,
                Rule::SharedBytes => false,
                _ => return true,
            };
            let met = |first: &Site, second: &Site| {
                let (Some(first), Some(second)) = (first.node, second.node) else {
                    return Meeting::Surely;
                };
                let meeting = |tables| self.meeting(trace, tables, [first, second], one_buffer);
                let met = meeting([&of_node, &of_node]);
                let by_word = || {
                    [[&words, &of_node], [&of_node, &words], [&words, &words]]
                        .into_iter()
                        .any(|tables| meeting(tables) != Meeting::Never)
                };
                // Bytes of a gap are not touched, which may be what another buffer
                // rests on.
                match met {
                    Meeting::Never if !one_buffer || by_word() => Meeting::Perhaps,
                    met => met,
                }
            };
            keep_what_meets(hazard, met)
        });
        report.hazards_total = unlisted + report.hazards.len() as u64;
        if unlisted == 0 && report.hazards.iter().all(|hazard| !hazard.proven) {
            report.verdict = match report.hazards.is_empty() {
                true => Verdict::Safe,
                false => Verdict::Possible,
            };
        }
    }

    /// Whether accesses of two nodes that break a rule have a byte in common: of
    /// one buffer, one of them writing, or of two buffers.
    fn meeting(
        &self,
        trace: &Trace,
        [of_first, of_second]: [&HashMap<NodeId, Vec<Key>>; 2],
        [first, second]: [NodeId; 2],
        one_buffer: bool,
    ) -> Meeting {
        let mut met = Meeting::Never;
        for &a in of_first.get(&first).into_iter().flatten() {
            for &b in of_second.get(&second).into_iter().flatten() {
                let concerned = match one_buffer {
                    true => a.1 == b.1 && (a.3 || b.3),
                    false => a.1 != b.1,
                };
                if concerned && met < Meeting::Surely {
                    met = met.max(self.shapes.meeting(trace, a, b));
                }
            }
        }
        met
    }
}

/// Leaves of a hazard the pairs of nodes that meet, those that surely do first, and
/// says whether there are any.
fn keep_what_meets(hazard: &mut Hazard, met: impl Fn(&Site, &Site) -> Meeting) -> bool {
    let Some(second) = &hazard.second else {
        return true;
    };
    let mut best = met(&hazard.first, second);
    let mut members = Vec::with_capacity(hazard.members.len());
    for mut member in std::mem::take(&mut hazard.members) {
        let here = met(&member.first, &member.second);
        if here > best {
            // The pair that the hazard was about is less than this one.
            let had = std::mem::replace(&mut best, here);
            std::mem::swap(&mut hazard.first, &mut member.first);
            if let Some(second) = &mut hazard.second {
                std::mem::swap(second, &mut member.second);
            }
            (hazard.bytes, hazard.drawing) = (ByteRange::default(), Vec::new());
            if had == Meeting::Never {
                continue;
            }
        } else if here == Meeting::Never {
            continue;
        }
        members.push(member);
    }
    hazard.members = members;
    hazard.proven = best == Meeting::Surely;
    best != Meeting::Never
}
