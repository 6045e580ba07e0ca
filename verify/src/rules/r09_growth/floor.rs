//! The least bytes that a set of scratch buffers needs.

use streamweir_trace::{BufferId, NodeId, Phase};

use super::{EXACT_ACCESSES, EXACT_BUFFERS, Live, antichain, heaviest};
use crate::accesses::Touch;
use crate::rules::Context;

/// When the buffers of a trace are in use, in one order of the graph.
pub(super) struct Uses {
    /// By buffer, the places of its first and its last use; `None` for a buffer
    /// that nothing uses.
    spans: Vec<Option<(u32, u32)>>,
    /// For each pool, and last for all together, the most bytes in use at one
    /// place.
    bounds: Vec<u64>,
}

impl Uses {
    pub(super) fn new(context: &Context<'_>, pools: usize, pool_of: &[Option<u32>]) -> Self {
        let spans = spans(context);
        let lives = (spans.iter().zip(pool_of)).zip(&context.trace.buffers);
        let lives = lives.filter_map(|((span, pool), buffer)| {
            let (first, last) = (*span)?;
            Some(Live {
                pool: (*pool)?,
                from: first as usize,
                to: last as usize + 1,
                bytes: buffer.range.len(),
            })
        });
        let bounds = heaviest(pools, context.trace.nodes.len(), lives);
        Self { spans, bounds }
    }

    /// The floor of pool number `pool`, whose buffers these are, and whether it
    /// is exact.
    pub(super) fn floor(
        &self,
        context: &Context<'_>,
        pool: usize,
        buffers: &[BufferId],
    ) -> (u64, bool) {
        let spans = &self.spans;
        let bound = (self.bounds[pool], false);
        let of_use = |id: &BufferId| spans[id.index()].is_some();
        if buffers.iter().filter(|id| of_use(id)).count() > EXACT_BUFFERS {
            return bound;
        }
        let used: Vec<BufferId> = buffers.iter().copied().filter(of_use).collect();
        let accesses = used
            .iter()
            .map(|&id| context.accesses.life(id).count as usize);
        if accesses.sum::<usize>() > EXACT_ACCESSES {
            return bound;
        }
        let weights: Vec<u64> = used
            .iter()
            .map(|&id| context.trace.buffer(id).range.len())
            .collect();
        let ends: Vec<Ends> = used.iter().map(|&id| Ends::of(context, id)).collect();
        let before = |a: usize, b: usize| {
            // What is before is before in every order of the graph, this one
            // included.
            let (first, last) = (spans[used[b].index()], spans[used[a].index()]);
            first.zip(last).is_some_and(|(b, a)| a.1 < b.0) && ends[a].before(context, &ends[b])
        };
        (antichain::heaviest(&weights, before), true)
    }
}

/// For each buffer the places of its first and its last use.
fn spans(context: &Context<'_>) -> Vec<Option<(u32, u32)>> {
    let buffers = context.trace.buffers.len();
    if context.trace.possible.is_empty() {
        let life = |at| context.accesses.life(BufferId::at(at));
        return (0..buffers)
            .map(|at| (life(at).count > 0).then(|| (life(at).first, life(at).last)))
            .collect();
    }
    let mut spans: Vec<Option<(u32, u32)>> = vec![None; buffers];
    // An access that is only possible may not happen, and the floor must hold.
    for touch in context.accesses.all().filter(|touch| touch.declared) {
        let at = context.graph.position(touch.node);
        let span = spans[touch.buffer.index()].get_or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    spans
}

/// Where the uses of one buffer begin and end.
struct Ends {
    ends: Vec<NodeId>,
    starts: Vec<(NodeId, Phase)>,
}

impl Ends {
    fn of(context: &Context<'_>, buffer: BufferId) -> Self {
        let declared = |touch: &Touch| touch.declared;
        let touches: Vec<Touch> = context.accesses.of(buffer).filter(declared).collect();
        Self {
            ends: distinct(&touches, |touch| touch.node),
            starts: distinct(&touches, |touch| (touch.node, touch.phase)),
        }
    }

    /// Whether all of these have ended before any of `later` begins.
    fn before(&self, context: &Context<'_>, later: &Self) -> bool {
        self.ends.iter().all(|&last| {
            let ended = |&(node, phase)| context.reach.ends_before(last, node, phase);
            later.starts.iter().all(ended)
        })
    }
}

fn distinct<T: Ord>(touches: &[Touch], key: impl Fn(&Touch) -> T) -> Vec<T> {
    let mut keys: Vec<T> = touches.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
