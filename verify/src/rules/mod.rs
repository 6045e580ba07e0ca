//! The rules, one file each. Each file says what its rule demands, and draws
//! the smallest capture that breaks it and the nearest one that is safe.
//!
//! In the drawings time runs to the right, a line is a stream, `W a` writes and
//! `R a` reads buffer `a`, and `\` and `/` are fork and join points.

pub(crate) mod r01_unordered_conflict;
pub(crate) mod r02_shared_bytes;
mod r03_unknown_memory;
mod r04_owner_gone;
pub(crate) mod r05_in_flight;
mod r06_protocol;
mod r07_not_relaunchable;
mod r08_free_too_early;
mod r09_growth;
mod r11_library_state;
pub(crate) mod r12_external;
mod r13_read_before_write;
mod r14_co_residency;
mod stray_words;

pub(crate) use r03_unknown_memory::pointer;
pub use r07_not_relaunchable::FREED_BY_LAUNCHER;
pub use r09_growth::Growth;
pub(crate) use r09_growth::growth;

use std::fmt;

use serde::{Deserialize, Serialize};
use streamweir_trace::Trace;

use crate::VerifyError;
use crate::accesses::{Accesses, Touch};
use crate::facts::Facts;
use crate::findings::Findings;
use crate::graph::Graph;
use crate::graph_memory::GraphMemory;
use crate::reach::Reach;
use crate::sweep::{self, AddressMap};

/// The rules that a trace is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rule {
    /// Two concurrent accesses of one buffer overlap in bytes and one writes.
    #[serde(rename = "R1")]
    UnorderedConflict,
    /// Two buffers share bytes, and not every access of one happens before
    /// every access of the other.
    #[serde(rename = "R2")]
    SharedBytes,
    /// A declared access or pointer is in no known memory.
    #[serde(rename = "R3")]
    UnknownMemory,
    /// Scratch is used before its alloc point or after its free.
    #[serde(rename = "R4")]
    OwnerGone,
    /// Two launches of graphs, or a launch and eager work, whose bytes conflict
    /// may be in flight together, or a replay overwrites a live output.
    #[serde(rename = "R5")]
    InFlight,
    /// A forked stream is not joined, or a call broke the rules of capture.
    #[serde(rename = "R6")]
    Protocol,
    /// The graph allocates memory that none of its nodes frees.
    #[serde(rename = "R7")]
    NotRelaunchable,
    /// Memory of the graph is freed before all its uses have ended, or is not
    /// there to be freed.
    #[serde(rename = "R8")]
    FreeTooEarly,
    /// The workspace of one captured stream is used by another.
    #[serde(rename = "R11")]
    LibraryState,
    /// Bytes that go between a graph and a copy, the host or another producer or
    /// consumer outside it are not handed over.
    #[serde(rename = "R12")]
    External,
    /// Scratch is read where nothing has written it in this replay.
    #[serde(rename = "R13")]
    ReadBeforeWrite,
    /// A kernel whose blocks spin on each other may run beside another kernel.
    #[serde(rename = "R14")]
    CoResidency,
    /// The driver's graph is not what was recorded.
    #[serde(rename = "reconciliation")]
    Reconciliation,
}

impl Rule {
    /// The rule's number, as reports and files print it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::UnorderedConflict => "R1",
            Self::SharedBytes => "R2",
            Self::UnknownMemory => "R3",
            Self::OwnerGone => "R4",
            Self::InFlight => "R5",
            Self::Protocol => "R6",
            Self::NotRelaunchable => "R7",
            Self::FreeTooEarly => "R8",
            Self::LibraryState => "R11",
            Self::External => "R12",
            Self::ReadBeforeWrite => "R13",
            Self::CoResidency => "R14",
            Self::Reconciliation => "reconciliation",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What every rule reads.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) facts: Facts,
    pub(crate) graph: Graph,
    pub(crate) reach: Reach,
    pub(crate) accesses: Accesses<'a>,
    pub(crate) map: AddressMap,
    pub(crate) graph_memory: GraphMemory,
}

impl<'a> Context<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Result<Self, VerifyError> {
        trace.check()?;
        let graph =
            Graph::new(trace.nodes.len(), &trace.edges).map_err(|nodes| VerifyError::Cycle {
                nodes: nodes
                    .into_iter()
                    .map(|node| (node, trace.node(node).name.clone()))
                    .collect(),
            })?;
        let facts = Facts::new(trace);
        let reach = Reach::new(trace, &graph, &facts)?;
        let mut accesses = Accesses::new(trace, &graph, &reach);
        let map = AddressMap::new(trace, &mut accesses);
        Ok(Self {
            trace,
            reach,
            accesses,
            map,
            graph_memory: GraphMemory::new(trace, &graph, &facts),
            facts,
            graph,
        })
    }

    /// The two accesses in the order of the graph, and whether that order is
    /// forced.
    fn ordered<'t>(&self, a: &'t Touch, b: &'t Touch) -> (&'t Touch, &'t Touch, bool) {
        let (first, then) = if self.graph.position(a.node) <= self.graph.position(b.node) {
            (a, b)
        } else {
            (b, a)
        };
        let forced = self.reach.ends_before(first.node, then.node, then.phase);
        (first, then, forced)
    }
}

/// Runs every rule, and keeps at most `limit` hazards.
pub(crate) fn run(context: &Context<'_>, limit: usize) -> Findings {
    let findings = Findings::new(limit);
    let suspects = sweep::suspects(context, &findings);
    sweep::pairs(context, &suspects, &findings);
    r13_read_before_write::check(context, &suspects.unwritten, &findings);
    r04_owner_gone::check(context, &suspects.unowned, &findings);
    drop(suspects);
    for check in [
        r02_shared_bytes::untouched::check,
        r03_unknown_memory::check,
        r06_protocol::check,
        r07_not_relaunchable::check,
        r08_free_too_early::check,
        r11_library_state::check,
        r14_co_residency::check,
    ] {
        check(context, &findings);
        findings.close();
    }
    findings
}
