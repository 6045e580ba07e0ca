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

use streamweir_trace::BufferKind;

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    if !has_workspace(context) {
        return;
    }
    for touch in context.accesses.all() {
        let BufferKind::Workspace { stream: owner } = context.trace.buffer(touch.buffer).kind
        else {
            continue;
        };
        match context.facts.stream(touch.node) {
            Some(stream) if stream != owner => {
                let fix = Fix::OwnWorkspace {
                    buffer: touch.buffer,
                    stream,
                };
                findings.push(Finding::of_touch(
                    Rule::LibraryState,
                    Cause::ForeignStream,
                    &touch,
                    fix,
                ));
            }
            _ => {}
        }
    }
}

fn has_workspace(context: &Context<'_>) -> bool {
    let mut buffers = context.trace.buffers.iter();
    buffers.any(|buffer| matches!(buffer.kind, BufferKind::Workspace { .. }))
}
