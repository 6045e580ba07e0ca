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
//! A free node of memory that no node of this graph allocates may be the end of
//! what another graph or a stream-ordered allocation began; the trace does not
//! say, and the hazard is a possible one. It is proven when the address is that
//! of a buffer with another owner.

use streamweir_trace::{BufferKind, Phase};

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::graph_memory::StrayFree;
use crate::rules::{Context, Rule};

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    let memory = &context.graph_memory;
    if memory.is_empty() {
        return;
    }
    for touch in context.accesses.all() {
        let BufferKind::Graph { alloc, .. } = context.trace.buffer(touch.buffer).kind else {
            continue;
        };
        let Some(free) = memory.free_of(alloc) else {
            continue;
        };
        findings.compared();
        if context
            .reach
            .ends_before(touch.node, free, Phase::BeforeWait)
        {
            continue;
        }
        let position = |node| context.graph.position(node);
        let fix = if position(touch.node) < position(free) {
            Fix::Join {
                after: touch.node,
                before: free,
            }
        } else {
            Fix::FreeAtEnd {
                alloc,
                instead_of: Some(free),
            }
        };
        findings.push(Finding {
            second: Some(free),
            ..Finding::of_touch(Rule::FreeTooEarly, Cause::FreedWhileUsed, &touch, fix)
        });
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
                cause: Cause::FreedBeforeAlloc,
                ..Finding::of_node(Rule::FreeTooEarly, alloc, fix)
            });
        }
    }
    for stray in memory.stray_frees() {
        let (node, second, cause, buffer, proven) = match *stray {
            StrayFree::Twice {
                node,
                first,
                buffer,
            } => (node, Some(first), Cause::FreedTwice, buffer, true),
            StrayFree::Foreign { node, buffer } => {
                (node, None, Cause::FreesForeign, buffer, buffer.is_some())
            }
        };
        findings.push(Finding {
            second,
            cause,
            buffers: [buffer, None],
            proven,
            ..Finding::of_node(Rule::FreeTooEarly, node, Fix::DropFree { node })
        });
    }
}
