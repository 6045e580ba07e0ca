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
//! Neither is a property of the graph, so a trace says so ([`Unfreed`]), and
//! every verdict that rests on it prints it.
//!
//! The drivers' documentation of `cuGraphLaunch` is where this comes from.

use streamweir_trace::{Trace, Unfreed};

use crate::findings::{Cause, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};

pub(super) const NUMBER: &str = "R7";

/// No node of the graph frees what one of them allocates.
#[derive(Debug)]
struct NeverFreed;

impl Cause for NeverFreed {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        if finding.buffers[0].is_none() {
            return "the graph allocates memory that no node of it frees, so its second launch fails"
                .to_owned();
        }
        let buffer = finding.buffer(trace, 0);
        format!("no node of the graph frees \"{buffer}\", so the second launch fails")
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    if context.trace.unfreed == Unfreed::FreedByLauncher {
        return Ok(());
    }
    for held in context.graph_memory.unfreed() {
        let fix = Fix::FreeAtEnd {
            alloc: held.node,
            instead_of: None,
        };
        findings.push(Finding {
            buffers: [held.buffer, None],
            bytes: held.bytes,
            ..Finding::of_node(Rule::NotRelaunchable, NeverFreed, held.node, fix)
        });
    }
    Ok(())
}
