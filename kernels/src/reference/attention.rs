//! Attention of one head over selected latents, and of all heads.

use half::bf16;

use super::projection::dot;
use crate::layout::LatentPages;

/// One head's output: softmax over `rows` of `scale · query · row`, where the
/// sink takes part in the sum with logit `sink` and value zero. Key and value
/// are the same latent. Zero when there is no row.
pub fn attend(query: &[bf16], rows: &[&[bf16]], sink: f32, scale: f32) -> Vec<f64> {
    let sink = f64::from(sink);
    let scores: Vec<f64> = rows
        .iter()
        .map(|row| f64::from(scale) * dot(query, row))
        .collect();
    let mut out = vec![0.0; query.len()];
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return out;
    }
    // With the larger of both subtracted, neither a large sink nor a large
    // score overflows.
    let shift = largest.max(sink);
    let mut sum = (sink - shift).exp();
    for (score, row) in scores.iter().zip(rows) {
        let weight = (score - shift).exp();
        sum += weight;
        for (out, value) in out.iter_mut().zip(*row) {
            *out += weight * value.to_f64();
        }
    }
    for out in &mut out {
        *out /= sum;
    }
    out
}

/// The attention of all tokens and heads, `[tokens, heads, dim]`. `indices` is
/// `[tokens, selected]`; an index that is no slot of the pool is masked.
pub fn gather_attention(
    query: &[bf16],
    latent: &[bf16],
    indices: &[i32],
    sinks: &[f32],
    pages: &LatentPages,
    selected: usize,
    scale: f32,
) -> Vec<f64> {
    let dim = pages.dim() as usize;
    let mut out = Vec::with_capacity(query.len());
    for (query, indices) in query
        .chunks_exact(sinks.len() * dim)
        .zip(indices.chunks_exact(selected))
    {
        let rows: Vec<&[bf16]> = indices
            .iter()
            .filter_map(|&slot| pages.layout().value_offset(slot))
            .map(|bytes| &latent[bytes as usize / 2..][..dim])
            .collect();
        for (query, &sink) in query.chunks_exact(dim).zip(sinks) {
            out.extend(attend(query, &rows, sink, scale));
        }
    }
    out
}
