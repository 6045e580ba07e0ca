//! Attention with one latent for all heads (report, 2.3).
//!
//! ```text
//! c   = rms_norm(W_qa x)             rank of the queries, also the indexer's
//! q_h = rope(rms((W_qb c)_h))        for each head; rms without factors
//! l   = rope(rms_norm(W_kv x))       the token's latent: key and value of all heads
//! ```
//!
//! A query sees the latents of the last `window` tokens, its own included, and entries
//! of groups that are complete: in C128 layers all, in C4 layers those that the indexer
//! selects. There is one softmax over both, with `q . l dim^-0.5`, and over a logit of
//! the head, the sink, that has no value. The output is turned back by the query's
//! position, for values were turned as keys; each group of heads has a projection
//! `W_oa` to a rank of its own, and `W_ob` mixes the groups.

use super::compressor::{Compressed, Compressor};
use super::formulas::{Angle, Formulas};
use super::indexer::Indexer;
use super::linear::{add_scaled, dot, grouped_linear, linear, norm_rows, rms, rms_norm};
use super::rope::Rope;
use super::rows::Rows;
use crate::dsv4::checkpoint::{AttentionWeights, ModelConfig};
use crate::dsv4::config::{Group, LayerKind};

/// What a sequence has in a layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    /// The latent of each token.
    latents: Vec<Vec<f32>>,
    entries: Compressed,
    index: Compressed,
}

/// The attention of one layer.
pub(super) struct Attention<'a> {
    pub(super) weights: &'a AttentionWeights,
    pub(super) config: &'a ModelConfig,
    pub(super) rope: &'a Rope,
    pub(super) formulas: &'a Formulas,
    pub(super) kind: LayerKind,
}

/// What comes of it.
pub(super) struct Attended {
    pub(super) output: Rows,
    /// The entries that each row sees, where an indexer selects them.
    pub(super) selected: Option<Vec<Vec<usize>>>,
}

impl Attention<'_> {
    /// Takes in the tokens of all rows, one after the other.
    pub(super) fn run(&self, cache: &mut Cache, x: &Rows) -> Attended {
        let (weights, config) = (self.weights, self.config);
        let eps = config.norm_eps;
        let rank = norm_rows(linear(&weights.q_a, x), &weights.q_norm, eps);
        let queries = linear(&weights.q_b, &rank);
        let latents = linear(&weights.kv, x);
        let compressor = weights.compressor.as_ref().map(|weights| Compressor {
            weights,
            group: self.kind.group().unwrap_or(Group::C128),
            rope: self.rope,
            formulas: self.formulas,
            norm_eps: eps,
        });
        let compressor = compressor.map(|of| (of.project(x), of));
        let indexer = weights.indexer.as_ref();
        let indexer = indexer.map(|of| Indexer::new(of, config, self.rope, self.formulas));
        let indexer = indexer.map(|of| (of.project(x, &rank), of));

        let mut mixed = Rows::zeros(x.len(), config.heads * config.head_dim);
        let mut selected = indexer.as_ref().map(|_| Vec::with_capacity(x.len()));
        for row in 0..x.len() {
            let position = cache.latents.len();
            let angles = self.rope.angles(position);
            let mut latent = latents.row(row).to_vec();
            rms_norm(&mut latent, &weights.kv_norm, eps);
            (self.formulas.rotate)(&mut latent, &angles);
            cache.latents.push(latent);
            if let Some((projected, compressor)) = &compressor {
                compressor.push(&mut cache.entries, projected, row);
            }
            let window = (position + 1).saturating_sub(config.window);
            let mut seen: Vec<&[f32]> = cache.latents[window..].iter().map(Vec::as_slice).collect();
            match (&indexer, &mut selected) {
                (Some((projected, indexer)), Some(selected)) => {
                    let of_row = indexer.select(&mut cache.index, projected, row, position);
                    seen.extend(of_row.iter().map(|&j| cache.entries.entries[j].as_slice()));
                    selected.push(of_row);
                }
                _ => seen.extend(cache.entries.entries.iter().map(Vec::as_slice)),
            }
            self.attend(queries.row(row), &seen, &angles, mixed.row_mut(row));
        }
        let ranks = grouped_linear(&weights.o_a, &mixed, config.o_groups);
        Attended {
            output: linear(&weights.o_b, &ranks),
            selected,
        }
    }

    /// All heads of one query over what it sees.
    fn attend(&self, query: &[f32], seen: &[&[f32]], angles: &[Angle], out: &mut [f32]) {
        let dim = self.config.head_dim;
        let scale = (dim as f32).sqrt().recip();
        let back: Vec<Angle> = angles.iter().map(|angle| angle.back()).collect();
        let heads = query.chunks_exact(dim).zip(out.chunks_exact_mut(dim));
        for ((query, out), &sink) in heads.zip(&self.weights.sink) {
            let mut query = query.to_vec();
            rms(&mut query, self.config.norm_eps);
            (self.formulas.rotate)(&mut query, angles);
            let scores: Vec<f32> = seen.iter().map(|key| dot(&query, key) * scale).collect();
            let largest = scores.iter().copied().fold(sink, f32::max);
            let mut sum = (sink - largest).exp();
            for (score, value) in scores.iter().zip(seen) {
                let weight = (score - largest).exp();
                sum += weight;
                add_scaled(out, weight, value);
            }
            out.iter_mut().for_each(|value| *value /= sum);
            (self.formulas.rotate)(out, &back);
        }
    }
}
