//! The indexer of a C4 layer: which entries a query sees (report, 2.3.1, equations 13
//! to 17).
//!
//! It has a compressor of its own, whose entries `k_j` are keys; queries
//! `q_h = rope(W_qb c)` from the same rank as the attention's; and a weight for each
//! head, `w_h = (W_w x)_h heads^-0.5`. The score of an entry is
//! `sum_h w_h relu(q_h . k_j) dim^-0.5`, and the `top_k` highest are seen: all where
//! there are no more. (Published kernels also turn queries and keys by a Hadamard
//! matrix before they round them; it cancels in the product.)

use super::compressor::{Compressed, Compressor, Projected};
use super::formulas::Formulas;
use super::linear::{dot, linear};
use super::rope::Rope;
use super::rows::Rows;
use super::top::highest;
use crate::dsv4::checkpoint::{IndexerWeights, ModelConfig};
use crate::dsv4::config::Group;

/// An indexer at work.
pub(super) struct Indexer<'a> {
    weights: &'a IndexerWeights,
    compressor: Compressor<'a>,
    config: &'a ModelConfig,
    rope: &'a Rope,
    formulas: &'a Formulas,
}

/// What each row brings.
pub(super) struct IndexRows {
    keys: Projected,
    queries: Rows,
    head_weights: Rows,
}

impl<'a> Indexer<'a> {
    pub(super) fn new(
        weights: &'a IndexerWeights,
        config: &'a ModelConfig,
        rope: &'a Rope,
        formulas: &'a Formulas,
    ) -> Self {
        Self {
            weights,
            compressor: Compressor {
                weights: &weights.compressor,
                group: Group::C4,
                rope,
                formulas,
                norm_eps: config.norm_eps,
            },
            config,
            rope,
            formulas,
        }
    }

    pub(super) fn project(&self, x: &Rows, q_rank: &Rows) -> IndexRows {
        IndexRows {
            keys: self.compressor.project(x),
            queries: linear(&self.weights.q_b, q_rank),
            head_weights: linear(&self.weights.head_weights, x),
        }
    }

    /// Takes in the next token, and says which entries it sees, in order.
    pub(super) fn select(
        &self,
        state: &mut Compressed,
        rows: &IndexRows,
        row: usize,
        position: usize,
    ) -> Vec<usize> {
        self.compressor.push(state, &rows.keys, row);
        let keys = &state.entries;
        if keys.len() <= self.config.index_top_k {
            return (0..keys.len()).collect();
        }
        let dim = self.config.index_dim;
        let mut queries = rows.queries.row(row).to_vec();
        let angles = self.rope.angles(position);
        for query in queries.chunks_exact_mut(dim) {
            (self.formulas.rotate)(query, &angles);
        }
        let scale = (self.config.index_heads as f32).sqrt().recip() * (dim as f32).sqrt().recip();
        let score = |key: &Vec<f32>| -> f32 {
            let heads = queries.chunks_exact(dim).zip(rows.head_weights.row(row));
            heads
                .map(|(query, weight)| weight * scale * dot(query, key).max(0.0))
                .sum()
        };
        let scores: Vec<f32> = keys.iter().map(score).collect();
        highest(&scores, self.config.index_top_k)
    }
}
