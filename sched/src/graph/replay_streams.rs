//! How many streams a replay of a graph needs.
//!
//! A replay has no streams of the capture any more: the driver lays the graph
//! out anew, on streams of its own. What is known of its rule was found on running
//! engines (sgl-project/sglang, pull requests 32770 and 39420) and is the greedy
//! cover of the graph by paths, in the order in which nodes were recorded:
//!
//! - a node goes on with the stream of its first-recorded parent, or of the next
//!   one whose stream no other node goes on with;
//! - any other node opens a stream.
//!
//! So of two branches the one recorded first keeps the stream, and a join follows
//! the branch that was recorded first. Engines that record side work early lose
//! the main chain's stream once a layer, and were seen on 22 to 144 streams. The
//! count is computed from nodes and edges by this rule; no driver tells it.

/// The streams of a graph of `nodes` nodes, numbered as they were recorded, in
/// which `parents(node)` come before `node`.
pub(crate) fn replay_streams(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> usize {
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (from, to) in edges {
        parents[to].push(from);
    }
    let mut goes_on = vec![false; nodes];
    let mut streams = 0;
    for parents in &mut parents {
        parents.sort_unstable();
        match parents.iter().find(|&&parent| !goes_on[parent]) {
            Some(&parent) => goes_on[parent] = true,
            None => streams += 1,
        }
    }
    streams
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(nodes: usize, edges: &[(usize, usize)]) -> usize {
        replay_streams(nodes, edges.iter().copied())
    }

    #[test]
    fn a_chain_is_one_stream_and_what_nothing_orders_is_many() {
        assert_eq!(streams(0, &[]), 0);
        assert_eq!(streams(3, &[(0, 1), (1, 2)]), 1);
        assert_eq!(streams(3, &[]), 3);
    }

    /// ```text
    /// main   0 ── 2 ── 3 ── 5 ── 6       side recorded early: 1, 4
    ///         └ 1 ──────┘└ 4 ────┘
    /// ```
    #[test]
    fn side_work_recorded_early_costs_a_stream_a_layer() {
        let early = [
            (0, 1),
            (0, 2),
            (1, 3),
            (2, 3),
            (1, 4),
            (3, 4),
            (3, 5),
            (4, 6),
            (5, 6),
        ];
        assert_eq!(streams(7, &early), 3);
        // The same graph, with side work recorded just before its join.
        let late = [
            (0, 2),
            (0, 1),
            (2, 3),
            (1, 3),
            (2, 5),
            (3, 5),
            (3, 4),
            (5, 6),
            (4, 6),
        ];
        assert_eq!(streams(7, &late), 2);
    }
}
