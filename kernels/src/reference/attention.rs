//! Attention of one head over selected latents, and of all heads.

use half::bf16;

use crate::layout::LatentPages;

/// One head's output: softmax over `rows` of `scale · query · row`, where the
/// sink takes part in the sum with logit `sink` and value zero. Key and value
/// are the same latent, bf16 or f64. Zero when there is no row.
pub fn attend<V: Copy + Into<f64>>(
    query: &[bf16],
    rows: &[&[V]],
    sink: f32,
    scale: f32,
) -> Vec<f64> {
    let sink = f64::from(sink);
    let scores: Vec<f64> = rows
        .iter()
        .map(|row| f64::from(scale) * product(query, row))
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
        for (out, &value) in out.iter_mut().zip(*row) {
            *out += weight * value.into();
        }
    }
    for out in &mut out {
        *out /= sum;
    }
    out
}

fn product<V: Copy + Into<f64>>(query: &[bf16], row: &[V]) -> f64 {
    query
        .iter()
        .zip(row)
        .map(|(q, &value)| q.to_f64() * value.into())
        .sum()
}

/// What some of a head's rows contribute to its attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionPart {
    /// The largest score by `log2 e`; minus infinity when there is no row.
    pub largest: f64,
    /// The sum of the weights, powers of two relative to the largest score.
    pub sum: f64,
    /// The sum of the weighted rows.
    pub rows: Vec<f64>,
}

/// The part of one head's attention that `rows` contribute.
pub fn attend_part<V: Copy + Into<f64>>(
    query: &[bf16],
    rows: &[&[V]],
    scale: f32,
) -> AttentionPart {
    let scale = f64::from(scale) * std::f64::consts::LOG2_E;
    let scores: Vec<f64> = rows.iter().map(|row| scale * product(query, row)).collect();
    let mut part = AttentionPart {
        largest: scores.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        sum: 0.0,
        rows: vec![0.0; query.len()],
    };
    for (score, row) in scores.iter().zip(rows) {
        let weight = (score - part.largest).exp2();
        part.sum += weight;
        for (sum, &value) in part.rows.iter_mut().zip(*row) {
            *sum += weight * value.into();
        }
    }
    part
}

/// One head's output from the parts that its rows were split into, and its sink.
pub fn combine_parts(parts: &[AttentionPart], sink: f32) -> Vec<f64> {
    let sink = f64::from(sink) * std::f64::consts::LOG2_E;
    let largest = parts
        .iter()
        .map(|part| part.largest)
        .fold(f64::NEG_INFINITY, f64::max);
    let mut out = vec![0.0; parts.first().map_or(0, |part| part.rows.len())];
    if largest == f64::NEG_INFINITY {
        return out;
    }
    let shift = largest.max(sink);
    let mut sum = (sink - shift).exp2();
    for part in parts {
        if part.largest == f64::NEG_INFINITY {
            continue;
        }
        let weight = (part.largest - shift).exp2();
        sum += weight * part.sum;
        for (out, value) in out.iter_mut().zip(&part.rows) {
            *out += weight * value;
        }
    }
    for out in &mut out {
        *out /= sum;
    }
    out
}

/// The attention of all tokens and heads, `[tokens, heads, dim]`, each token
/// over its own `entries`.
pub fn latent_attention(
    query: &[bf16],
    entries: &[Vec<Vec<f64>>],
    sinks: &[f32],
    scale: f32,
) -> Vec<f64> {
    let width = query.len() / entries.len().max(1);
    let mut out = Vec::with_capacity(query.len());
    for (query, entries) in query.chunks_exact(width).zip(entries) {
        let rows: Vec<&[f64]> = entries.iter().map(Vec::as_slice).collect();
        for (query, &sink) in query.chunks_exact(width / sinks.len()).zip(sinks) {
            out.extend(attend(query, &rows, sink, scale));
        }
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
