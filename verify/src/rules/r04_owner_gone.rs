//! R4, owner gone: scratch is used by a node that does not happen after its
//! alloc point, or that was recorded outside its life: before it was taken or
//! after it was freed.
//!
//! ```text
//! breaks:  main ------ n ---- alloc a ----+---      safe:  main --- n -- alloc a --+-------------
//!                                                                                   \
//!          side ------------------ W a ---+                 side ----------------- -+--- W a ---
//!
//! breaks:  main --- W a --- free a --- R a ---      safe:  main --- W a --- R a --- free a ---
//! ```
//!
//! A node of the alloc point's own frontier is not after it: what it touches is
//! still the previous tenant of the bytes. The other ways in which an owner can
//! be gone (a module, an event, a moved workspace) are not in a trace.

use streamweir_trace::{BufferKind, NodeId, StrayMemory};

use crate::Fix;
use crate::accesses::Touch;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule, stray_words};

/// Checks the accesses of these numbers, given in the order of the graph.
pub(super) fn check(context: &Context<'_>, accesses: &[u32], findings: &Findings) {
    let mut node = None;
    for &id in accesses {
        let touch = context.accesses.touch(id);
        // All findings of a hazard are about one node.
        if node.replace(touch.node) != Some(touch.node) {
            findings.close();
        }
        let touch = &touch;
        let (alloc, freed_before) = match &context.trace.buffer(touch.buffer).kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => (alloc, freed_before),
            BufferKind::Graph { alloc, .. } => {
                findings.compared();
                if !context.reach.ends_before(*alloc, touch.node, touch.phase) {
                    findings.push(before_alloc(context, touch, *alloc));
                }
                continue;
            }
            BufferKind::Workspace { .. } | BufferKind::Persistent => continue,
        };
        for &node in &alloc.frontier {
            findings.compared();
            if !context.reach.ends_before(node, touch.node, touch.phase) {
                findings.push(before_alloc(context, touch, node));
            }
        }
        if touch.node < alloc.before && alloc.frontier.is_empty() {
            let fix = Fix::AllocateEarlier {
                buffer: touch.buffer,
                before: touch.node,
            };
            findings.push(Finding::of_touch(
                Rule::OwnerGone,
                Cause::BeforeAlloc,
                touch,
                fix,
            ));
        }
        if freed_before.is_some_and(|freed| touch.node >= freed) {
            let fix = Fix::KeepUntil {
                buffer: touch.buffer,
                node: touch.node,
            };
            findings.push(Finding::of_touch(
                Rule::OwnerGone,
                Cause::AfterFree,
                touch,
                fix,
            ));
        }
    }
    findings.close();
    stray_words::check(context, StrayMemory::Freed, findings);
    findings.close();
}

/// `touch` does not happen after `node`, where its buffer was taken.
fn before_alloc(context: &Context<'_>, touch: &Touch, node: NodeId) -> Finding {
    // Only an edge along the order of the graph can never close a cycle.
    let order = &context.graph;
    let joinable = order.position(node) < order.position(touch.node);
    let fix = if joinable {
        Fix::Join {
            after: node,
            before: touch.node,
        }
    } else {
        Fix::AllocateEarlier {
            buffer: touch.buffer,
            before: touch.node,
        }
    };
    Finding {
        second: Some(node),
        ..Finding::of_touch(Rule::OwnerGone, Cause::BeforeAlloc, touch, fix)
    }
}
