//! What a certificate is about.

use serde::{Deserialize, Serialize};
use streamweir_trace::Trace;

use super::digest::digest;

/// What anyone can count in a trace, and the digest that nothing else has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The name of the capture.
    pub capture: String,
    /// SHA-256 of the trace, in hexadecimal.
    pub digest: String,
    /// How many nodes the graph has.
    pub nodes: u64,
    /// How many edges.
    pub edges: u64,
    /// How many captured streams.
    pub streams: u64,
    /// How many accesses are declared.
    pub accesses: u64,
    /// How many words of parameters stand in for what kernels do not declare:
    /// the verdict takes for granted that they touch no other known memory.
    pub possible: u64,
    /// What the trace takes for granted.
    pub assumptions: Vec<String>,
}

impl About {
    /// What there is to say about `trace`.
    pub fn of(trace: &Trace) -> Self {
        Self {
            capture: trace.name.clone(),
            digest: digest(trace),
            nodes: trace.nodes.len() as u64,
            edges: trace.edges.len() as u64,
            streams: trace.streams.len() as u64,
            accesses: trace.accesses.len() as u64,
            possible: trace.possible.len() as u64,
            assumptions: trace.taken_for_granted(),
        }
    }
}
