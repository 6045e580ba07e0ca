//! Reconciliation: the driver's graph is the one that was recorded.
//!
//! A rule about what became of a capture and not about the capture, so it has a
//! name for a number. [`verify_driver`](crate::verify_driver) looks for
//! differences and raises each one as a hazard.

use streamweir_trace::{NodeId, Trace};

use crate::findings::{Cause, Finding, Subject};
use crate::fix::Fix;
use crate::rule::Rule;

pub(super) const NUMBER: &str = "reconciliation";

/// A difference, in words.
#[derive(Debug)]
struct Differs(String);

impl Cause for Differs {
    fn what(&self, _: &Trace, _: &Finding) -> String {
        self.0.clone()
    }
}

/// Difference number `number` as a hazard, which is about one node or two.
pub(crate) fn finding(number: u32, nodes: [Option<NodeId>; 2], differs: String) -> Finding {
    let [first, second] = nodes;
    Finding {
        second,
        subject: Subject::Difference(number),
        ..Finding::of_node(
            Rule::Reconciliation,
            Differs(differs),
            first,
            Fix::CaptureAgain,
        )
    }
}
