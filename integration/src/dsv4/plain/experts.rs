//! Experts: SwiGLU whose inner products are cut off.
//!
//! ```text
//! expert(x) = w2 . (silu(min(w1 . x, limit)) * clamp(w3 . x, -limit, limit))
//! y         = sum over the token's experts of weight * expert(x) + shared expert(x)
//! ```

use super::linear::{add_scaled, linear, sigmoid};
use super::router::Routed;
use super::rows::Rows;
use crate::dsv4::checkpoint::{ExpertWeights, FeedForwardWeights};

/// The outputs of all rows. Each expert is gone through once for all rows that go to
/// it, and a row's experts are added in their order, whichever rows it comes with.
pub(super) fn run(
    weights: &FeedForwardWeights,
    limit: f32,
    x: &Rows,
    routed: &[Vec<Routed>],
) -> Rows {
    let mut y = Rows::zeros(x.len(), x.width());
    for (number, weights) in weights.experts.iter().enumerate() {
        let hit: Vec<(usize, f32)> = (routed.iter().enumerate())
            .flat_map(|(row, experts)| {
                let here = experts.iter().filter(|(expert, _)| *expert == number);
                here.map(move |&(_, weight)| (row, weight))
            })
            .collect();
        if hit.is_empty() {
            continue;
        }
        let inputs = Rows::of(hit.len(), x.width(), |i| x.row(hit[i].0).to_vec());
        let outputs = expert(weights, limit, &inputs);
        for ((row, weight), output) in hit.iter().zip(outputs.iter()) {
            add_scaled(y.row_mut(*row), *weight, output);
        }
    }
    let shared = expert(&weights.shared, limit, x);
    for (y, shared) in y.iter_mut().zip(shared.iter()) {
        add_scaled(y, 1.0, shared);
    }
    y
}

fn expert(weights: &ExpertWeights, limit: f32, x: &Rows) -> Rows {
    let mut inner = linear(&weights.gate, x);
    let up = linear(&weights.up, x);
    for (gate, up) in inner.iter_mut().zip(up.iter()) {
        for (gate, up) in gate.iter_mut().zip(up) {
            let cut = gate.min(limit);
            *gate = cut * sigmoid(cut) * up.clamp(-limit, limit);
        }
    }
    linear(&weights.down, &inner)
}
