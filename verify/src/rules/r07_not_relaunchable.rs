//! R7, not relaunchable: the graph allocates memory that none of its free nodes
//! gives back. The memory of the first launch is then still held at the second
//! one, which the driver refuses with `CUDA_ERROR_INVALID_VALUE`.
//!
//! ```text
//! breaks:  main --- alloc a --- W a ---      safe:  main --- alloc a --- W a --- free a ---
//! ```
//!
//! An instantiation with `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`, or
//! a launcher that frees the memory itself between two launches, makes it well.
//! Neither is a property of the graph, so a trace says so as an assumption,
//! [`FREED_BY_LAUNCHER`], and every verdict that rests on it prints it.
//!
//! The drivers' documentation of `cuGraphLaunch` is where this comes from.

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};

/// The assumption under which a graph may leave memory to whoever launches it.
/// Push it to [`Trace::assumptions`](streamweir_trace::Trace::assumptions) of a
/// graph that is instantiated with auto-free, or whose memory is freed between
/// two launches; R7 then says nothing.
pub const FREED_BY_LAUNCHER: &str =
    "memory that the graph allocates and does not free is freed before each further launch";

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    let assumed = |line: &String| line == FREED_BY_LAUNCHER;
    if context.trace.assumptions.iter().any(assumed) {
        return;
    }
    for held in context.graph_memory.unfreed() {
        let fix = Fix::FreeAtEnd {
            alloc: held.node,
            instead_of: None,
        };
        findings.push(Finding {
            cause: Cause::NeverFreed,
            buffers: [held.buffer, None],
            bytes: held.bytes,
            ..Finding::of_node(Rule::NotRelaunchable, held.node, fix)
        });
    }
}
