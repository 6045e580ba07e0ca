//! R14, co-residency: a kernel whose blocks spin on each other's progress may
//! run beside another kernel, and nothing guarantees that the device has room
//! for all of its blocks at once. The resident blocks then wait for blocks that
//! wait for their place.
//!
//! ```text
//! breaks:  main ---+-- grid barrier ---+---     safe:  main --- grid barrier ---+-------------
//!                   \                 /                                         \
//!          side      +---- gemm -----+                  side                     +---- gemm ----
//! ```
//!
//! A cooperative launch is the guarantee: the driver refuses a grid of more
//! blocks than the device can hold at once (`cuLaunchCooperativeKernel`), and
//! starts the blocks of an accepted one together or not at all; that is what
//! the grid barrier of cooperative groups is specified to rest on. Such a
//! launch waits for room without holding any, so it is safe beside other work,
//! and two of them are safe beside each other: one runs after the other when
//! both do not fit. Whether a spinning kernel fits when it runs alone depends
//! on the device and is not in a trace.
//!
//! Nodes that may hold kernels of which nothing is known, such as child graphs
//! and conditional bodies, make the hazard a possible one.

use streamweir_trace::{BlockSync, NodeId, NodeKind, Phase, Trace};

use crate::context::Context;
use crate::findings::{Cause, Finding, Findings, Subject};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};

pub(super) const NUMBER: &str = "R14";

/// Blocks that spin, beside a kernel that may take their place.
#[derive(Debug)]
struct NotResident;

impl Cause for NotResident {
    fn what(&self, _: &Trace, _: &Finding) -> String {
        "kernels may run together, and the blocks of one spin on each other with nothing to \
         guarantee that all of them are resident"
            .to_owned()
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    for &spin in &context.facts.spinning {
        check_node(context, spin, findings);
    }
    Ok(())
}

/// Raises at most two hazards per chain: the last kernel before `spin` in the
/// order of the graph and the first one after it. Joining these two leaves no
/// other kernel of the chain beside it.
fn check_node(context: &Context<'_>, spin: NodeId, findings: &Findings) {
    for chain in context.reach.chains() {
        // In a chain starts and ends follow each other, so what has ended
        // before `spin` starts is its front, and what starts after its end is
        // its back.
        let ended = |&node: &NodeId| {
            findings.compared();
            context.reach.ends_before(node, spin, Phase::BeforeWait)
        };
        let pending = |&node: &NodeId| {
            findings.compared();
            !context.reach.ends_before(spin, node, Phase::BeforeWait)
        };
        let front = chain.partition_point(ended);
        let back = front + chain[front..].partition_point(pending);
        let beside = chain[front..back].iter().filter(|&&other| other != spin);
        let mut earlier = None;
        for &other in beside {
            let Some(proven) = runs_blocks(&context.trace.node(other).kind) else {
                continue;
            };
            if context.stands_before(other, spin) {
                earlier = Some((other, proven));
            } else {
                raise(findings, spin, other, proven);
                break;
            }
        }
        if let Some((other, proven)) = earlier
            && !raises(context, other, spin)
        {
            raise(findings, other, spin, proven);
        }
    }
}

/// Whether `first` spins too and has raised the hazard of the two itself: then
/// `then` is the first kernel of its chain that is beside it and behind it.
fn raises(context: &Context<'_>, first: NodeId, then: NodeId) -> bool {
    if !spins(&context.trace.node(first).kind) {
        return false;
    }
    let (chain, index) = context.reach.place(then);
    let before = &context.reach.chains()[chain as usize][..index as usize];
    let behind = before.iter().rev().take_while(|&&other| {
        let ended = context.reach.ends_before(other, first, Phase::BeforeWait);
        context.stands_before(first, other) && !ended
    });
    let mut kernels = behind.filter(|&&other| runs_blocks(&context.trace.node(other).kind).is_some());
    kernels.next().is_none()
}

fn spins(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Kernel(kernel) if kernel.sync == BlockSync::Spin)
}

/// Whether a node occupies multiprocessors: certainly, possibly (false), or not
/// at all as far as the programming model says.
fn runs_blocks(kind: &NodeKind) -> Option<bool> {
    match kind {
        NodeKind::Kernel(_) => Some(true),
        NodeKind::ChildGraph | NodeKind::Conditional | NodeKind::Unknown(_) => Some(false),
        _ => None,
    }
}

/// Counts a hazard, of which there may be more than fit, and makes it if it will
/// be listed.
fn raise(findings: &Findings, first: NodeId, then: NodeId, proven: bool) {
    let key = (Rule::CoResidency, Some(first), Some(then), Subject::Nodes);
    if !findings.lists(&key) {
        findings.count(proven);
        return;
    }
    let fix = Fix::Join {
        after: first,
        before: then,
    };
    let finding = Finding {
        second: Some(then),
        proven,
        ..Finding::of_node(Rule::CoResidency, NotResident, first, fix)
    };
    findings.add(finding, Vec::new());
}
