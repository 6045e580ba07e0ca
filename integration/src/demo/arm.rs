//! The arms, and the repairs of the first.

use std::fmt;

use streamweir_sched::{CaptureOptions, Device, Graph, Policy, Verify};

use super::error::Error;
use super::model::Model;

/// A way to capture the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Two streams on one pool, freed in host order, as engines capture today.
    SharedOverlap,
    /// Two streams, each with its own pool.
    TaggedOverlap,
    /// As [`TaggedOverlap`](Self::TaggedOverlap), placed and emitted when all
    /// layers have been recorded.
    PlannedOverlap,
    /// One stream: the overlap is off.
    Serial,
    /// As [`SharedOverlap`](Self::SharedOverlap), repaired by hand.
    SharedRepaired(Repair),
}

/// What an engine can do that stays with one pool in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    /// Keep what the side stream uses until it has been joined.
    HoldToJoin,
    /// Join the side stream before memory is taken again, which gives the
    /// overlap up.
    JoinFirst,
}

/// What the layer code depends on besides the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) overlap: bool,
    pub(super) repair: Option<Repair>,
}

impl Arm {
    /// The arms of the story.
    pub const ALL: [Self; 3] = [Self::SharedOverlap, Self::TaggedOverlap, Self::Serial];

    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedOverlap => "shared-overlap",
            Self::TaggedOverlap => "tagged-overlap",
            Self::PlannedOverlap => "planned-overlap",
            Self::Serial => "serial",
            Self::SharedRepaired(Repair::HoldToJoin) => "shared-held-to-join",
            Self::SharedRepaired(Repair::JoinFirst) => "shared-joined-first",
        }
    }

    pub(super) fn plan(self) -> Plan {
        let repair = match self {
            Self::SharedRepaired(repair) => Some(repair),
            Self::SharedOverlap | Self::TaggedOverlap | Self::PlannedOverlap | Self::Serial => None,
        };
        Plan {
            overlap: self != Self::Serial,
            repair,
        }
    }

    /// Captures the layers.
    pub(super) fn capture(self, device: &Device, model: &Model) -> Result<Graph, Error> {
        let options = CaptureOptions::new(self.name());
        let options = match self {
            Self::SharedOverlap | Self::SharedRepaired(_) => {
                // SAFETY: nothing but the comparison relies on the results, and
                // the kernels stay in bounds whatever they read: an index or a
                // page that a pool does not have is masked or replaced.
                let policy = unsafe { Policy::host_order() };
                options.policy(policy).verify(Verify::Report)
            }
            Self::TaggedOverlap | Self::Serial => {
                options.policy(Policy::ISOLATED).verify(Verify::Refuse)
            }
            Self::PlannedOverlap => options
                .policy(Policy::ISOLATED)
                .verify(Verify::Refuse)
                .planned(),
        };
        let record = |capture: &_| model.record(capture, self.plan());
        let (graph, ()) = device.capture(options, record)?;
        Ok(graph)
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
