//! R8, free node too early: memory that the graph allocates is touched by a
//! node that does not end before the free node starts, on whatever stream; or a
//! free node frees what is not there to be freed.
//!
//! ```text
//! breaks:  main --- alloc a --+-- free a ------     safe:  main --- alloc a --+----------+-- free a ---
//!                              \                                              \        /
//!          side                 +--- R a ------             side               +- R a -+
//!
//! breaks:  main --- alloc a --- free a --- free a ---       (the second frees nothing)
//! ```
//!
//! A free node has no wait of programmatic dependent launch, so a node that
//! touches the memory in any phase must have ended before the free starts. The
//! allocation itself must have, too: a free node that may run before it frees what
//! is not there yet.
//!
//! The bytes count, not only the buffer that names the allocation: whatever lies in
//! memory that the graph allocates is there between an allocation node and its free
//! node, and what touches it before is R4.
//!
//! A free node of memory that no node of this graph allocates may be the end of
//! what another graph or a stream-ordered allocation began; the trace does not
//! say, and the hazard is a possible one. It is proven when the address is that
//! of a buffer with another owner.

use streamweir_trace::{BufferKind, NodeId, Phase, Trace};

use crate::accesses::Touch;
use crate::context::Context;
use crate::findings::{self, Finding, Findings};
use crate::fix::Fix;
use crate::graph_memory::StrayFree;
use crate::rule::Rule;
use crate::rules::graph_bytes::{self, Gone};
use crate::rules::input::{Checked, Input};

pub(super) const NUMBER: &str = "R8";

/// What is wrong about a free node.
#[derive(Debug)]
enum Cause {
    /// A node may still use the memory.
    WhileUsed,
    /// It may run before the allocation node.
    BeforeAlloc,
    /// The memory has a free node already.
    Twice,
    /// The graph does not allocate the memory.
    Foreign,
}

impl findings::Cause for Cause {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let buffer = finding.buffer(trace, 0);
        match self {
            Self::WhileUsed => {
                format!("\"{buffer}\" is used by a node that does not end before its free node")
            }
            Self::BeforeAlloc => {
                "a free node does not come after the allocation of what it frees".to_owned()
            }
            Self::Twice => "memory of the graph is freed a second time".to_owned(),
            Self::Foreign if finding.buffers[0].is_none() => {
                "a free node of memory that no node of this graph allocates".to_owned()
            }
            Self::Foreign => {
                format!("a free node frees \"{buffer}\", which no node of this graph allocates")
            }
        }
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    let memory = &context.graph_memory;
    if memory.is_empty() {
        return Ok(());
    }
    for touch in context.accesses.all() {
        let BufferKind::Graph { alloc, .. } = context.trace.buffer(touch.buffer).kind else {
            continue;
        };
        let Some(free) = memory.free_of(alloc) else {
            continue;
        };
        findings.compared();
        let reach = &context.reach;
        if !reach.ends_before(touch.node, free, Phase::BeforeWait) {
            findings.push(while_used(context, &touch, alloc, free));
        }
    }
    for (touch, gone) in graph_bytes::gone(context) {
        if let Gone::Freed { alloc, free } = gone {
            findings.push(while_used(context, &touch, alloc, free));
        }
    }
    for (alloc, free) in memory.pairs() {
        findings.compared();
        if !context.reach.ends_before(alloc, free, Phase::BeforeWait) {
            let fix = Fix::FreeAtEnd {
                alloc,
                instead_of: Some(free),
            };
            findings.push(Finding {
                second: Some(free),
                ..Finding::of_node(Rule::FreeTooEarly, Cause::BeforeAlloc, alloc, fix)
            });
        }
    }
    for stray in memory.stray_frees() {
        findings.push(of_nothing(stray));
    }
    Ok(())
}

fn while_used(context: &Context<'_>, touch: &Touch, alloc: NodeId, free: NodeId) -> Finding {
    let fix = match context.stands_before(touch.node, free) {
        true => Fix::Join {
            after: touch.node,
            before: free,
        },
        false => Fix::FreeAtEnd {
            alloc,
            instead_of: Some(free),
        },
    };
    Finding {
        second: Some(free),
        ..Finding::of_touch(Rule::FreeTooEarly, Cause::WhileUsed, touch, fix)
    }
}

fn of_nothing(stray: &StrayFree) -> Finding {
    let (node, second, cause, buffer, proven) = match *stray {
        StrayFree::Twice {
            node,
            first,
            buffer,
        } => (node, Some(first), Cause::Twice, buffer, true),
        StrayFree::Foreign { node, buffer } => {
            (node, None, Cause::Foreign, buffer, buffer.is_some())
        }
    };
    Finding {
        second,
        buffers: [buffer, None],
        proven,
        ..Finding::of_node(Rule::FreeTooEarly, cause, node, Fix::DropFree { node })
    }
}
