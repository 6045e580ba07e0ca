//! R11, shared library state: the workspace of one captured stream is used by
//! another. Libraries keep barriers, semaphores and split-K partials there and
//! assume one user at a time; an order that happens to hold in one graph says
//! nothing about the next call.
//!
//! ```text
//! breaks:  main ---+-- gemm(workspace w) --+---   safe:  main ---+-- gemm(workspace w) --+---
//!                   \                     /                       \                     /
//!          side      +- gemm(workspace w)+                side     +- gemm(workspace v)+
//! ```
//!
//! Nodes on no known stream are left to R1.

use streamweir_trace::{BufferKind, Trace};

use crate::findings::{Cause, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};

pub(super) const NUMBER: &str = "R11";

/// A stream uses the workspace of another.
#[derive(Debug)]
struct ForeignStream;

impl Cause for ForeignStream {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let buffer = finding.buffer(trace, 0);
        format!("workspace \"{buffer}\" is used by a stream that does not own it")
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    let is_workspace = |kind: &BufferKind| matches!(kind, BufferKind::Workspace { .. });
    let buffers = &context.trace.buffers;
    if !buffers.iter().any(|buffer| is_workspace(&buffer.kind)) {
        return Ok(());
    }
    for touch in context.accesses.all() {
        let BufferKind::Workspace { stream: owner } = context.trace.buffer(touch.buffer).kind
        else {
            continue;
        };
        let user = context.facts.stream(touch.node);
        if let Some(stream) = user.filter(|user| *user != owner) {
            let fix = Fix::OwnWorkspace {
                buffer: touch.buffer,
                stream,
            };
            let finding = Finding::of_touch(Rule::LibraryState, ForeignStream, &touch, fix);
            findings.push(finding);
        }
    }
    Ok(())
}
