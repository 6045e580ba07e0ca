//! The least bytes that a set of scratch buffers needs.

use streamweir_trace::{BufferId, NodeId, Phase};

use super::{EXACT_ACCESSES, EXACT_BUFFERS, antichain, heaviest};
use crate::accesses::Touch;
use crate::rules::Context;

/// For each buffer the places of its first and its last use in one order of the
/// graph; `None` for a buffer that nothing uses.
pub(super) fn spans(context: &Context<'_>) -> Vec<Option<(u32, u32)>> {
    let mut spans: Vec<Option<(u32, u32)>> = vec![None; context.trace.buffers.len()];
    // An access that is only possible may not happen, and the floor must hold.
    for touch in context.accesses.all().filter(|touch| touch.declared) {
        let at = context.graph.position(touch.node);
        let span = spans[touch.buffer.index()].get_or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    spans
}

/// The floor of `buffers`, and whether it is exact.
pub(super) fn floor(
    context: &Context<'_>,
    buffers: &[BufferId],
    spans: &[Option<(u32, u32)>],
) -> (u64, bool) {
    let used: Vec<BufferId> = buffers
        .iter()
        .copied()
        .filter(|id| spans[id.index()].is_some())
        .collect();
    let weight = |id: BufferId| context.trace.buffer(id).range.len();
    let accesses: usize = used
        .iter()
        .map(|&id| context.accesses.life(id).count as usize)
        .sum();
    if used.len() <= EXACT_BUFFERS && accesses <= EXACT_ACCESSES {
        let weights: Vec<u64> = used.iter().map(|&id| weight(id)).collect();
        let uses: Vec<Uses> = used.iter().map(|&id| Uses::of(context, id)).collect();
        let before = |a: usize, b: usize| {
            // What is before is before in every order of the graph, this one
            // included.
            let (first, last) = (spans[used[b].index()], spans[used[a].index()]);
            first.zip(last).is_some_and(|(b, a)| a.1 < b.0) && uses[a].before(context, &uses[b])
        };
        return (antichain::heaviest(&weights, before), true);
    }
    let bound = heaviest(
        context.trace.nodes.len(),
        used.iter().filter_map(|&id| {
            let (first, last) = spans[id.index()]?;
            Some((first as usize, last as usize + 1, weight(id)))
        }),
    );
    (bound, false)
}

/// The uses of one buffer.
struct Uses {
    ends: Vec<NodeId>,
    starts: Vec<(NodeId, Phase)>,
}

impl Uses {
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
