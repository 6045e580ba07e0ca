//! Manifold-constrained hyper-connections (mHC; report, section 2.2).
//!
//! Instead of one residual there are `n` streams `X_i` of the hidden width. Around each
//! block, from all streams at once, come three kinds of weights:
//!
//! ```text
//! m    = fn . rms(X_1 .. X_n)                        all streams side by side
//! pre  = sigmoid(m[0..n] scale_0 + base) + eps
//! post = 2 sigmoid(m[n..2n] scale_1 + base)
//! comb = sinkhorn(softmax over rows of (m[2n..] scale_2 + base) + eps)
//!
//! block input   x    = sum_i pre_i X_i
//! after it      X'_k = post_k block(x) + sum_j comb[j, k] X_j
//! ```
//!
//! `comb` is used transposed: its first index is the stream that is read.

use super::linear::{add_scaled, linear, rms, sigmoid, softmax};
use super::rows::Rows;
use crate::dsv4::checkpoint::{Hyper, HyperWeights, ModelConfig};

/// The weights of a token's streams around a block.
pub(super) struct Mixing {
    /// Of each stream in the block's input.
    pub(super) pre: Vec<f32>,
    /// Of the block's output in each stream.
    pub(super) post: Vec<f32>,
    /// `[from, to]`: of each stream in each.
    pub(super) comb: Vec<f32>,
}

/// The weights for each row of streams.
pub(super) fn mixings(config: &ModelConfig, weights: &HyperWeights, streams: &Rows) -> Vec<Mixing> {
    let Hyper { streams: n, .. } = config.hyper;
    outputs(config, weights, streams)
        .iter()
        .map(|m| {
            let part = |from: usize, to: usize, scale: f32| {
                let base = &weights.base[from..to];
                let scaled = m[from..to].iter().map(move |m| m * scale);
                scaled.zip(base).map(|(m, base)| m + base)
            };
            let scale = &weights.scale;
            let mut comb: Vec<f32> = part(2 * n, (2 + n) * n, scale[2]).collect();
            doubly_stochastic(&mut comb, &config.hyper);
            Mixing {
                pre: part(0, n, scale[0])
                    .map(|m| sigmoid(m) + config.hyper.eps)
                    .collect(),
                post: part(n, 2 * n, scale[1]).map(|m| 2.0 * sigmoid(m)).collect(),
                comb,
            }
        })
        .collect()
}

/// `fn . rms(X)`, with the streams of a row side by side.
pub(super) fn outputs(config: &ModelConfig, weights: &HyperWeights, streams: &Rows) -> Rows {
    let mut flat = streams.clone();
    for row in flat.iter_mut() {
        rms(row, config.norm_eps);
    }
    linear(&weights.function, &flat)
}

/// Sinkhorn-Knopp: rows and columns of a positive matrix are made to add up to one, in
/// turn. It begins with the columns of the rows' softmax, so that of all rounds but
/// the first both halves are done.
fn doubly_stochastic(comb: &mut [f32], hyper: &Hyper) {
    let Hyper {
        streams: n,
        rounds,
        eps,
    } = *hyper;
    for row in comb.chunks_exact_mut(n) {
        softmax(row);
        row.iter_mut().for_each(|value| *value += eps);
    }
    let columns = |comb: &mut [f32]| {
        for column in 0..n {
            let sum: f32 = (0..n).map(|row| comb[row * n + column]).sum();
            (0..n).for_each(|row| comb[row * n + column] /= sum + eps);
        }
    };
    columns(comb);
    for _ in 1..rounds {
        for row in comb.chunks_exact_mut(n) {
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|value| *value /= sum + eps);
        }
        columns(comb);
    }
}

/// `sum_i pre_i X_i`.
pub(super) fn collapse(pre: &[f32], streams: &[f32]) -> Vec<f32> {
    let width = streams.len() / pre.len();
    let mut sum = vec![0.0; width];
    for (pre, stream) in pre.iter().zip(streams.chunks_exact(width)) {
        add_scaled(&mut sum, *pre, stream);
    }
    sum
}

/// `post_k output + sum_j comb[j, k] X_j`.
pub(super) fn expand(post: &[f32], comb: &[f32], streams: &[f32], output: &[f32]) -> Vec<f32> {
    let (n, width) = (post.len(), output.len());
    let mut after = vec![0.0; streams.len()];
    for (k, after) in after.chunks_exact_mut(width).enumerate() {
        add_scaled(after, post[k], output);
        for (j, stream) in streams.chunks_exact(width).enumerate() {
            add_scaled(after, comb[j * n + k], stream);
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_come_to_one() {
        let mut comb: Vec<f32> = (0..16_u8).map(|i| f32::from(i * i % 7)).collect();
        let hyper = Hyper {
            streams: 4,
            rounds: 20,
            eps: 1e-6,
        };
        doubly_stochastic(&mut comb, &hyper);
        for i in 0..4 {
            let row: f32 = comb[4 * i..][..4].iter().sum();
            let column: f32 = (0..4).map(|j| comb[4 * j + i]).sum();
            assert!((row - 1.0).abs() < 1e-4 && (column - 1.0).abs() < 1e-5);
        }
        assert!((comb[1] - comb[4]).abs() > 0.1, "it is not symmetric");
    }
}
