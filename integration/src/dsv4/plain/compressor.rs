//! Compressors: one entry for each group of tokens (report, 2.3.1 and 2.3.2).
//!
//! Of each token there are values and scores, `kv = W_kv x` and `gate = W_gate x`, and
//! each place in a group has a bias of its own. When a group is complete, every channel
//! of its entry is the mean of its tokens' values, weighted by the softmax of that
//! channel's `gate + bias` over the tokens; then RMSNorm, and rope at the position of
//! the group's first token.
//!
//! In C4 groups overlap: a token has two values a channel, of which the second (Cb)
//! goes into its own group's entry and the first (Ca) into the next one's. So an entry
//! is a mean over eight tokens; the very first is one over four.

use super::formulas::Formulas;
use super::linear::{linear, rms_norm, softmax};
use super::rope::Rope;
use super::rows::Rows;
use crate::dsv4::checkpoint::CompressorWeights;
use crate::dsv4::config::Group;

/// What a sequence has of a compressor.
#[derive(Clone, Debug, Default)]
pub(super) struct Compressed {
    /// Values, and scores with their bias, of each token.
    tokens: Vec<[Vec<f32>; 2]>,
    /// The entries of all complete groups.
    pub(super) entries: Vec<Vec<f32>>,
}

/// A compressor at work.
pub(super) struct Compressor<'a> {
    pub(super) weights: &'a CompressorWeights,
    pub(super) group: Group,
    pub(super) rope: &'a Rope,
    pub(super) formulas: &'a Formulas,
    pub(super) norm_eps: f32,
}

/// Values and scores of each row.
pub(super) struct Projected {
    kv: Rows,
    gate: Rows,
}

impl Compressor<'_> {
    pub(super) fn project(&self, x: &Rows) -> Projected {
        Projected {
            kv: linear(&self.weights.kv, x),
            gate: linear(&self.weights.gate, x),
        }
    }

    /// Takes in the next token, and makes an entry when it completes a group.
    pub(super) fn push(&self, state: &mut Compressed, projected: &Projected, row: usize) {
        let Group { tokens, .. } = self.group;
        let outputs = self.weights.kv.rows();
        let place = state.tokens.len() % tokens;
        let bias = &self.weights.position_bias[place * outputs..][..outputs];
        let gate = projected.gate.row(row).iter().zip(bias);
        let scores = gate.map(|(gate, bias)| gate + bias).collect();
        let values = projected.kv.row(row).to_vec();
        state.tokens.push([values, scores]);
        if state.tokens.len().is_multiple_of(tokens) {
            let entry = self.entry(&state.tokens);
            state.entries.push(entry);
        }
    }

    /// The entry of the last group.
    fn entry(&self, seen: &[[Vec<f32>; 2]]) -> Vec<f32> {
        let Group { tokens, overlaps } = self.group;
        let first = seen.len() - tokens;
        let dim = self.weights.norm.len();
        let previous = if overlaps {
            first.saturating_sub(tokens)
        } else {
            first
        };
        // A token's channels for this entry: Ca of the group before, Cb of its own.
        let channels = |token: usize| if overlaps && token >= first { dim } else { 0 };
        let mut entry: Vec<f32> = (0..dim)
            .map(|channel| {
                let of = |part: usize| {
                    let value = move |token: usize| seen[token][part][channels(token) + channel];
                    (previous..seen.len()).map(value)
                };
                let mut weights: Vec<f32> = of(1).collect();
                softmax(&mut weights);
                of(0)
                    .zip(weights)
                    .map(|(value, weight)| value * weight)
                    .sum()
            })
            .collect();
        rms_norm(&mut entry, &self.weights.norm, self.norm_eps);
        (self.formulas.rotate)(&mut entry, &self.rope.angles(first));
        entry
    }
}
