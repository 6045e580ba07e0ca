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

use streamweir_trace::{AllocPoint, BufferKind, NodeId, StrayMemory, Trace};

use crate::accesses::Touch;
use crate::context::Context;
use crate::findings::{self, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};
use crate::rules::graph_bytes::{self, Gone};
use crate::rules::stray_words;

pub(super) const NUMBER: &str = "R4";

/// On which side of its buffer's life an access is.
#[derive(Debug)]
enum Cause {
    /// Not after the alloc point.
    BeforeAlloc,
    /// Recorded after the free.
    AfterFree,
}

impl findings::Cause for Cause {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let buffer = finding.buffer(trace, 0);
        match self {
            Self::BeforeAlloc => {
                format!("\"{buffer}\" is used by a node that is not after its alloc point")
            }
            Self::AfterFree => format!("\"{buffer}\" is used by a node recorded after its free"),
        }
    }
}

/// Checks the accesses that the sweep has doubts about, which come in the order
/// of the graph.
pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, suspects } = input;
    let early = in_graph_memory(context, findings);
    let mut node = None;
    for &id in &suspects.unowned {
        let touch = context.accesses.touch(id);
        // All findings of a hazard are about one node.
        if node.replace(touch.node) != Some(touch.node) && !early {
            findings.close();
        }
        match &context.trace.buffer(touch.buffer).kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => of_scratch(context, &touch, alloc, *freed_before, findings),
            BufferKind::Graph { alloc, .. } => {
                findings.compared();
                if !context.reach.ends_before(*alloc, touch.node, touch.phase) {
                    findings.push(before_alloc(context, &touch, *alloc));
                }
            }
            BufferKind::Workspace { .. }
            | BufferKind::Persistent
            | BufferKind::Foreign { .. } => {}
        }
    }
    findings.close();
    stray_words::check(context, Rule::OwnerGone, StrayMemory::Freed, findings);
    Ok(())
}

/// Accesses of bytes that the graph allocates only later, whatever buffer names
/// them. True if there are any.
fn in_graph_memory(context: &Context<'_>, findings: &Findings) -> bool {
    let mut any = false;
    for (touch, gone) in graph_bytes::gone(context) {
        if let Gone::NotYet { alloc } = gone {
            any = true;
            findings.push(before_alloc(context, &touch, alloc));
        }
    }
    any
}

fn of_scratch(
    context: &Context<'_>,
    touch: &Touch,
    alloc: &AllocPoint,
    freed_before: Option<NodeId>,
    findings: &Findings,
) {
    let of_touch = |cause, fix| Finding::of_touch(Rule::OwnerGone, cause, touch, fix);
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
        findings.push(of_touch(Cause::BeforeAlloc, fix));
    }
    if freed_before.is_some_and(|freed| touch.node >= freed) {
        let fix = Fix::KeepUntil {
            buffer: touch.buffer,
            node: touch.node,
        };
        findings.push(of_touch(Cause::AfterFree, fix));
    }
}

/// `touch` does not happen after `node`, where its buffer was taken.
fn before_alloc(context: &Context<'_>, touch: &Touch, node: NodeId) -> Finding {
    // Only an edge along the order of the graph can never close a cycle.
    let fix = match context.stands_before(node, touch.node) {
        true => Fix::Join {
            after: node,
            before: touch.node,
        },
        false => Fix::AllocateEarlier {
            buffer: touch.buffer,
            before: touch.node,
        },
    };
    Finding {
        second: Some(node),
        ..Finding::of_touch(Rule::OwnerGone, Cause::BeforeAlloc, touch, fix)
    }
}
