//! The least bytes that a set of scratch buffers needs.

use streamweir_trace::{BufferId, Flow, NodeId, Phase};

use super::{EXACT_ACCESSES, EXACT_BUFFERS, Pools, heaviest};
use crate::accesses::Touch;
use crate::context::Context;

/// When the buffers of a trace are in use, in one order of the graph.
pub(super) struct Uses {
    /// See [`declared_spans`].
    declared: Option<Vec<Option<(u32, u32)>>>,
    /// For each pool, and last for all together, the most bytes in use at one
    /// place.
    bounds: Vec<u64>,
}

impl Uses {
    pub(super) fn new(context: &Context<'_>, pools: &Pools<'_>) -> Self {
        let mut this = Self {
            declared: declared_spans(context),
            bounds: Vec::new(),
        };
        let lives = pools.members.iter().map(|member| {
            let span = this.span(context, member.buffer);
            span.map_or((0, 0), |(first, last)| (first, last + 1))
        });
        this.bounds = heaviest(pools, context.trace.nodes.len(), lives);
        this
    }

    /// The places of the first and the last use of a buffer; `None` when nothing
    /// uses it.
    fn span(&self, context: &Context<'_>, buffer: BufferId) -> Option<(u32, u32)> {
        let life = context.accesses.life(buffer);
        match &self.declared {
            Some(spans) => spans[buffer.index()],
            None => (life.count > 0).then_some((life.first, life.last)),
        }
    }

    /// The floor of pool number `pool`, whose buffers these are, and whether it
    /// is exact.
    pub(super) fn floor(
        &self,
        context: &Context<'_>,
        pool: usize,
        buffers: &[BufferId],
    ) -> (u64, bool) {
        let span = |id: BufferId| self.span(context, id);
        let bound = (self.bounds[pool], false);
        let of_use = |id: &BufferId| span(*id).is_some();
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
            let (first, last) = (span(used[b]), span(used[a]));
            first.zip(last).is_some_and(|(b, a)| a.1 < b.0) && ends[a].before(context, &ends[b])
        };
        (heaviest_unordered(&weights, before), true)
    }
}

/// For each buffer the places of its first and its last use, where the accesses
/// that are only possible make it another than its life says: they may not
/// happen, and the floor must hold.
fn declared_spans(context: &Context<'_>) -> Option<Vec<Option<(u32, u32)>>> {
    if context.trace.possible.is_empty() {
        return None;
    }
    let mut spans: Vec<Option<(u32, u32)>> = vec![None; context.trace.buffers.len()];
    for touch in context.accesses.all().filter(|touch| touch.declared) {
        let at = context.graph.position(touch.node);
        let span = spans[touch.buffer.index()].get_or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    Some(spans)
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

/// The greatest weight of a set of items of which no two are ordered; `before`
/// is a strict partial order.
///
/// By the weighted form of Dilworth's theorem it is the sum of all weights less
/// the greatest flow from the items, as they end, to the items, as they begin,
/// over the pairs of the order. A sum that is beyond 64 bits is 2^64 - 1.
fn heaviest_unordered(weights: &[u64], before: impl Fn(usize, usize) -> bool) -> u64 {
    let total = weights
        .iter()
        .try_fold(0_u64, |sum, &weight| sum.checked_add(weight));
    let Some(total) = total else {
        return u64::MAX;
    };
    let count = weights.len();
    let (source, sink, ends, begins) = (0, 1, 2, 2 + count);
    let mut flow = Flow::new(2 + 2 * count);
    for (a, &weight) in weights.iter().enumerate() {
        flow.arc(source, ends + a, weight);
        flow.arc(begins + a, sink, weight);
        for b in (0..count).filter(|&b| a != b && before(a, b)) {
            flow.arc(ends + a, begins + b, weight);
        }
    }
    total - flow.greatest(source, sink)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All subsets.
    fn slow(weights: &[u64], before: impl Fn(usize, usize) -> bool) -> u64 {
        let count = weights.len();
        let has = |set: u32, i: usize| set >> i & 1 == 1;
        (0_u32..1 << count)
            .filter(|&set| {
                let together = |a, b| has(set, a) && has(set, b);
                (0..count).all(|a| (0..count).all(|b| !(together(a, b) && before(a, b))))
            })
            .map(|set| {
                (0..count)
                    .filter(|&i| has(set, i))
                    .map(|i| weights[i])
                    .sum()
            })
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn agrees_with_all_subsets(
            weights in prop::collection::vec(0_u64..12, 1..10),
            pairs in prop::collection::vec(prop::bool::weighted(0.4), 100),
        ) {
            let count = weights.len();
            let mut order: Vec<Vec<bool>> = (0..count)
                .map(|a| (0..count).map(|b| a < b && pairs[a * 10 + b]).collect())
                .collect();
            for via in 0..count {
                let onward = order[via].clone();
                for from in order.iter_mut().filter(|from| from[via]) {
                    from.iter_mut().zip(&onward).for_each(|(to, on)| *to |= on);
                }
            }
            let before = |a: usize, b: usize| order[a][b];
            prop_assert_eq!(heaviest_unordered(&weights, before), slow(&weights, before));
        }
    }
}
