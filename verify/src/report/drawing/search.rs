//! Where forks and joins are: look-ups in the clocks.

use streamweir_trace::{NodeId, Phase};

use super::pen::Pen;

/// With more chains than these, forks and joins are looked for on the two
/// chains of a hazard alone.
const MANY_CHAINS: usize = 64;

impl Pen<'_, '_> {
    pub(super) fn before(&self, first: NodeId, then: NodeId) -> bool {
        let reach = &self.context.reach;
        reach.ends_before(first, then, Phase::AfterWait)
    }

    /// How many nodes of `chain` have ended before `node` starts.
    pub(super) fn past(&self, node: NodeId, chain: u32) -> u32 {
        let clock = self.context.reach.clock(node, Phase::BeforeWait);
        clock.get(chain as usize).copied().unwrap_or(0)
    }

    /// The chains on which forks and joins of these two are looked for.
    pub(super) fn chains(&self, a: NodeId, b: NodeId) -> Vec<u32> {
        let reach = &self.context.reach;
        let all = reach.chains().len();
        if all <= MANY_CHAINS {
            (0..all as u32).collect()
        } else {
            vec![reach.place(a).0, reach.place(b).0]
        }
    }

    /// The latest node before both.
    pub(super) fn fork(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let common = self.chains(a, b).into_iter().filter_map(|chain| {
            let ended = self.past(a, chain).min(self.past(b, chain));
            let last = ended.checked_sub(1)?;
            Some(self.context.reach.chains()[chain as usize][last as usize])
        });
        common.max_by_key(|&node| self.context.graph.position(node))
    }

    /// The earliest node after both.
    pub(super) fn join(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let found = self.chains(a, b).into_iter().filter_map(|chain| {
            let nodes = &self.context.reach.chains()[chain as usize];
            let from = self.past(a, chain).max(self.past(b, chain)) as usize;
            first_from(nodes, from, |node| {
                self.before(a, node) && self.before(b, node)
            })
        });
        found.min_by_key(|&node| self.context.graph.position(node))
    }
}

/// The first of `nodes` at or behind `from` for which `after` holds, given that
/// it holds for all behind that one. Looks near first: forks and joins are near.
pub(super) fn first_from(
    nodes: &[NodeId],
    from: usize,
    after: impl Fn(NodeId) -> bool,
) -> Option<NodeId> {
    let (mut low, mut step) = (from, 1);
    while low + step <= nodes.len() && !after(nodes[low + step - 1]) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(nodes.len());
    let rest = nodes.get(low..high)?;
    let at = low + rest.partition_point(|&node| !after(node));
    nodes.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_from_everywhere_before_it() {
        let nodes: Vec<NodeId> = (0..40).map(NodeId).collect();
        for wanted in 0..=40 {
            for from in 0..=wanted {
                let found = first_from(&nodes, from as usize, |node| node.0 >= wanted);
                assert_eq!(
                    found,
                    (wanted < 40).then_some(NodeId(wanted)),
                    "from {from}"
                );
            }
        }
    }
}
