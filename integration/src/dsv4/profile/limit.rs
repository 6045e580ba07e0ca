//! What bounds a step from below, up to what kernels save that start early: their
//! times are those of chains in order.

use half::bf16;
use streamweir::Device;
use streamweir::kernels::dsv4::count_differences;
use streamweir::trace::{NodeId, Trace};

use super::roles::Roles;
use crate::dsv4::engine::Engine;
use crate::dsv4::error::Error;
use crate::dsv4::timer::Timer;

/// Words of each of the two buffers that are moved to measure the bandwidth: far
/// more than a cache holds.
const WORDS: u32 = 1 << 28;
/// Times that they are moved, and that the weights of all layers are read.
const LAPS: u32 = 4;

/// Bytes in a second that the memory is seen to move, the largest of three: what a
/// comparison of two large buffers reads, which writes nothing while they are equal;
/// what a copy of one to the other reads and writes; and what the queries' products of
/// all layers, one after the other, read of their weights. None of them is the most
/// that some kernel may reach.
pub(super) fn bandwidth(device: &Device, engine: &Engine, timer: &Timer) -> Result<f64, Error> {
    let model = engine.model();
    let [left, right] = [
        device.persistent::<u32>("moved to measure, left", WORDS as usize)?,
        device.persistent::<u32>("moved to measure, right", WORDS as usize)?,
    ];
    let (comparison, ()) = device.capture::<_, Error>("bandwidth of reads", |capture| {
        let main = capture.origin();
        let found = main.scratch::<u32>("found", 1)?;
        main.fill(&found, 0)?;
        for _ in 0..LAPS {
            main.launch(
                &model.kernels.differences,
                count_differences {
                    left: &left,
                    right: &right,
                    found: &found,
                    len: WORDS,
                },
            )?;
        }
        Ok(())
    })?;
    let (copy, ()) = device.capture::<_, Error>("bandwidth of copies", |capture| {
        let main = capture.origin();
        for _ in 0..LAPS {
            main.copy(&right, &left)?;
        }
        Ok(())
    })?;
    let product = &engine.smallest_products().q_b;
    let (products, ()) = device.capture::<_, Error>("bandwidth of products", |capture| {
        let main = capture.origin();
        let x = main.scratch::<bf16>("x", product.shape().x_len())?;
        let y = main.scratch::<bf16>("y", product.shape().y_len())?;
        main.fill(&x, 0)?;
        for _ in 0..LAPS {
            for layer in &model.weights.layers {
                product.launch(&main, &x, &layer.q_b, &y)?;
            }
        }
        Ok(())
    })?;
    // Both buffers go by once a lap, and the weights of all layers.
    let buffers = 2 * size_of::<u32>() as u64 * u64::from(WORDS);
    let weights = (model.weights.layers.iter()).map(|layer| layer.q_b.range().len());
    let laps = u64::from(LAPS);
    let moved = [buffers, buffers, weights.sum()].map(|bytes| (bytes * laps) as f64);
    let us = timer.in_turn(&[&comparison, &copy, &products], 5)?;
    let each = moved.iter().zip(us).map(|(bytes, us)| bytes / us * 1e6);
    Ok(each.fold(0.0, f64::max))
}

/// The longest path through a graph.
#[derive(Debug, PartialEq)]
pub(super) struct Path {
    /// Microseconds that it takes.
    pub(super) us: f64,
    /// Its nodes, in order.
    pub(super) nodes: Vec<NodeId>,
}

/// The longest path through a graph whose nodes take as long as their roles do by
/// themselves, and whose edges take `edge`.
pub(super) fn critical_path(trace: &Trace, roles: &Roles, edge: f64) -> Path {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
    for edge in &trace.edges {
        before[edge.to.index()].push(edge.from.index());
        after[edge.from.index()].push(edge.to.index());
    }
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..left.len()).filter(|&node| left[node] == 0).collect();
    let mut ends = vec![0.0_f64; left.len()];
    let mut latest: Vec<Option<usize>> = vec![None; left.len()];
    while let Some(node) = ready.pop() {
        latest[node] = last_of(before[node].iter().copied(), &ends);
        let start = latest[node].map_or(0.0, |before| ends[before]);
        ends[node] = start + edge + roles.us(NodeId::at(node));
        for &next in &after[node] {
            left[next] -= 1;
            if left[next] == 0 {
                ready.push(next);
            }
        }
    }
    let end = last_of(0..ends.len(), &ends);
    let mut nodes: Vec<_> = std::iter::successors(end, |&node| latest[node])
        .map(NodeId::at)
        .collect();
    nodes.reverse();
    Path {
        us: end.map_or(0.0, |end| ends[end]),
        nodes,
    }
}

/// Which of these ends last.
fn last_of(nodes: impl Iterator<Item = usize>, ends: &[f64]) -> Option<usize> {
    nodes.max_by(|&a, &b| ends[a].total_cmp(&ends[b]))
}

#[cfg(test)]
mod tests {
    use streamweir::trace::{Edge, Node, NodeKind};

    use super::*;

    #[test]
    fn the_longest_path_counts_nodes_and_edges_and_not_what_runs_beside() {
        // 0 to 3 by way of 1, which is slow, or of 2 and 4, which are two.
        let mut trace = Trace::new("test");
        for _ in 0..5 {
            trace.add_node(Node::new(NodeKind::kernel(), "kernel"));
        }
        for (from, to) in [(0, 1), (0, 2), (2, 4), (1, 3), (4, 3)] {
            trace.add_edge(Edge::full(NodeId(from), NodeId(to)));
        }
        let roles = Roles::of_times(&[1.0, 10.0, 4.0, 2.0, 5.0]);
        let path = |us, nodes: [u32; 3]| Path {
            us,
            nodes: nodes.map(NodeId).to_vec(),
        };
        assert_eq!(critical_path(&trace, &roles, 0.0), path(13.0, [0, 1, 3]));
        // The way of more nodes is the longer one where edges are dear.
        let dear = critical_path(&trace, &roles, 2.0);
        assert_eq!(dear.us, 4.0 * 2.0 + 12.0);
        assert_eq!(dear.nodes, [0, 2, 4, 3].map(NodeId));
        // What the serial run takes beyond all nodes is shared out among them.
        assert_eq!(roles.edge(22.0 + 5.0), 1.0);
        assert_eq!(roles.edge(20.0), 0.0);
    }
}
