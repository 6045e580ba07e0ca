//! The indexer's score of a cache entry.

use half::bf16;

use super::projection::dot;
use crate::layout::IndexKeyPages;

/// The logit of one key: `Σ_h weights[h] · relu(query[h] · key)`. `query` is
/// `[heads, key.len()]`.
pub fn logit(query: &[bf16], weights: &[f32], key: &[bf16]) -> f64 {
    query
        .chunks_exact(key.len())
        .zip(weights)
        .map(|(head, &weight)| f64::from(weight) * dot(head, key).max(0.0))
        .sum()
}

/// The logits of all tokens, `[lens.len(), max_entries]`. Entry `j` of a token
/// is found through its row of `page_table`; from the token's length on the
/// logit is minus infinity. A page that the pool does not have reads page 0.
pub fn indexer_logits(
    query: &[bf16],
    weights: &[f32],
    keys: &[bf16],
    page_table: &[i32],
    lens: &[i32],
    pages: &IndexKeyPages,
    max_entries: usize,
) -> Vec<f64> {
    let tokens = lens.len();
    let dim = pages.dim() as usize;
    let heads = weights.len() / tokens.max(1);
    let table_stride = page_table.len() / tokens.max(1);
    let mut logits = vec![f64::NEG_INFINITY; tokens * max_entries];
    for token in 0..tokens {
        let query = &query[token * heads * dim..][..heads * dim];
        let weights = &weights[token * heads..][..heads];
        let table = &page_table[token * table_stride..][..table_stride];
        let len = (lens[token].max(0) as usize).min(max_entries);
        for entry in 0..len {
            let at = pages.element(table, entry as u32);
            logits[token * max_entries + entry] = logit(query, weights, &keys[at..at + dim]);
        }
    }
    logits
}
