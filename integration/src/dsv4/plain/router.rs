//! Which experts a token goes to, and with which weights (report, 2.1).
//!
//! The score of an expert is `sqrt(softplus(W_e . x))`. A token goes to the experts
//! whose score plus bias is highest: the bias is for the choice alone, and keeps the
//! load even. In the first layers a table has the experts of each token id instead. The
//! weights are the scores of the chosen, divided by `their sum + 1e-20`, times
//! `routed_scale`, whoever chose.

use super::formulas::Formulas;
use super::linear::{linear, softplus};
use super::rows::Rows;
use super::top::highest;
use crate::dsv4::checkpoint::{FeedForwardWeights, Gate, ModelConfig};

/// An expert of a token, and its weight.
pub(super) type Routed = (usize, f32);

/// The experts of each row, in order.
pub(super) fn route(
    config: &ModelConfig,
    weights: &FeedForwardWeights,
    formulas: &Formulas,
    x: &Rows,
    tokens: &[u32],
) -> Vec<Vec<Routed>> {
    let count = config.experts_per_token;
    let logits = linear(&weights.router, x);
    let rows = logits.iter().zip(tokens);
    rows.map(|(logits, &token)| {
        let scores: Vec<f32> = logits.iter().map(|&l| softplus(l).sqrt()).collect();
        let mut chosen = match &weights.gate {
            Gate::Scores(bias) => (formulas.choose)(&scores, bias, count),
            Gate::Hash(table) => {
                let of_token = &table[token as usize * count..][..count];
                let mut chosen: Vec<usize> = of_token.iter().map(|&e| e as usize).collect();
                chosen.sort_unstable();
                chosen.into_iter().map(|e| (e, scores[e])).collect()
            }
        };
        let sum: f32 = chosen.iter().map(|(_, weight)| weight).sum();
        for (_, weight) in &mut chosen {
            *weight *= config.routed_scale / (sum + 1e-20);
        }
        chosen
    })
    .collect()
}

/// The experts with the highest `score + bias`, and the scores of these.
pub(super) fn choose(scores: &[f32], bias: &[f32], count: usize) -> Vec<Routed> {
    let biased: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| s + b).collect();
    let chosen = highest(&biased, count);
    chosen.into_iter().map(|e| (e, scores[e])).collect()
}
