//! R4 and R8 of bytes that the graph allocates itself, whatever buffer names them:
//! they are there between an allocation node and its free node.
//!
//! ```text
//! breaks:  main --- alloc 4096 bytes at x --- free x --- R p (which lies at x) ---
//! safe:    main --- alloc 4096 bytes at x --- R p (which lies at x) --- free x ---
//! ```
//!
//! A buffer that names its allocation node says it better, and is judged by that.

use streamweir_trace::{BufferKind, NodeId, Phase, RangeSet};

use crate::accesses::Touch;
use crate::context::Context;
use crate::graph_memory::GraphLife;

/// Why bytes are not there for an access.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// It does not happen after the allocation.
    NotYet { alloc: NodeId },
    /// It does not end before the free.
    Freed { alloc: NodeId, free: NodeId },
}

/// The accesses of bytes that the graph allocates and that are not there, in the
/// order of the graph.
pub(super) fn gone(context: &Context<'_>) -> Vec<(Touch, Gone)> {
    let lives = context.graph_memory.lives();
    if lives.is_empty() {
        return Vec::new();
    }
    let all: RangeSet = lives.iter().map(|life| life.bytes).collect();
    let judged = context.accesses.all().filter_map(|touch| {
        let buffer = context.trace.buffer(touch.buffer);
        if matches!(buffer.kind, BufferKind::Graph { .. }) || !all.overlaps(&touch.bytes) {
            return None;
        }
        let near = || {
            let near = |life: &&GraphLife| life.bytes.overlaps(&touch.bytes);
            lives.iter().filter(near)
        };
        let made = |life: &GraphLife| {
            let reach = &context.reach;
            reach.ends_before(life.alloc, touch.node, touch.phase)
        };
        let freed = |life: &GraphLife| {
            let reach = &context.reach;
            life.free
                .filter(|&free| !reach.ends_before(touch.node, free, Phase::BeforeWait))
        };
        let there = near().filter(|life| made(life) && freed(life).is_none());
        let there: RangeSet = there.map(|life| life.bytes).collect();
        if all.shared(touch.bytes).all(|part| there.covers(&part)) {
            return None;
        }
        let late = near().filter(|life| made(life)).find_map(|life| {
            let (alloc, free) = (life.alloc, freed(life)?);
            Some(Gone::Freed { alloc, free })
        });
        let early = || near().find(|life| !made(life));
        let gone = late.or_else(|| early().map(|life| Gone::NotYet { alloc: life.alloc }));
        Some((touch, gone?))
    });
    judged.collect()
}
