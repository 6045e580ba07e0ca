//! The indexer's score of a cache entry.

use std::sync::LazyLock;

use half::bf16;

use super::fp8::from_e4m3;
use super::projection::dot;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages};

/// The logit of one key: `Σ_h weights[h] · relu(query[h] · key)`. `query` is
/// `[heads, key.len()]`.
pub fn logit(query: &[bf16], weights: &[f32], key: &[bf16]) -> f64 {
    query
        .chunks_exact(key.len())
        .zip(weights)
        .map(|(head, &weight)| f64::from(weight) * dot(head, key).max(0.0))
        .sum()
}

/// The logit of one e4m3 key: `scale · Σ_h weights[h] · relu(query[h] · key)`.
/// `query` is `[heads, key.len()]`, e4m3. A head whose product is not a number
/// adds nothing, as in [`logit`].
pub fn logit_fp8(query: &[u8], weights: &[f32], key: &[u8], scale: f32) -> f64 {
    let key: Vec<f64> = key.iter().map(|&k| NUMBERS[usize::from(k)]).collect();
    let sum: f64 = query
        .chunks_exact(key.len())
        .zip(weights)
        .map(|(head, &weight)| {
            let product: f64 = head
                .iter()
                .zip(&key)
                .map(|(&q, k)| NUMBERS[usize::from(q)] * k)
                .sum();
            f64::from(weight) * product.max(0.0)
        })
        .sum();
    f64::from(scale) * sum
}

/// All e4m3 numbers by their patterns: to make them anew for each product would
/// take most of the time.
static NUMBERS: LazyLock<[f64; 256]> =
    LazyLock::new(|| std::array::from_fn(|code| from_e4m3(code as u8).into()));

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
    let per_token = query.len() / lens.len().max(1);
    let heads = weights.len() / lens.len().max(1);
    masked(lens, max_entries, |token, entry| {
        let table = row(page_table, lens.len(), token);
        let at = pages.element(table, entry);
        logit(
            &query[token * per_token..][..per_token],
            &weights[token * heads..][..heads],
            &keys[at..at + pages.dim() as usize],
        )
    })
}

/// As [`indexer_logits`], over e4m3 keys with a scale each; `keys` is the pool's
/// bytes.
pub fn indexer_logits_fp8(
    query: &[u8],
    weights: &[f32],
    keys: &[u8],
    page_table: &[i32],
    lens: &[i32],
    pages: &IndexKeyFp8Pages,
    max_entries: usize,
) -> Vec<f64> {
    let per_token = query.len() / lens.len().max(1);
    let heads = weights.len() / lens.len().max(1);
    masked(lens, max_entries, |token, entry| {
        let slot = pages.slot(row(page_table, lens.len(), token), entry);
        let (values, scale) = fp8_key(keys, pages, slot);
        logit_fp8(
            &query[token * per_token..][..per_token],
            &weights[token * heads..][..heads],
            values,
            scale,
        )
    })
}

/// The values and the scale of the e4m3 key at `slot`; slot 0 stands in for one
/// that the pool does not have.
pub fn fp8_key<'a>(pool: &'a [u8], pages: &IndexKeyFp8Pages, slot: i32) -> (&'a [u8], f32) {
    let layout = pages.layout();
    let values = layout.value_offset(slot).unwrap_or(0) as usize;
    let scale = layout
        .scale_position(slot)
        .unwrap_or(layout.scale_offset().into()) as usize;
    (
        &pool[values..][..layout.value_bytes() as usize],
        bytemuck::pod_read_unaligned(&pool[scale..][..layout.scale_bytes() as usize]),
    )
}

/// A token's row of a page table.
fn row(page_table: &[i32], tokens: usize, token: usize) -> &[i32] {
    let stride = page_table.len() / tokens.max(1);
    &page_table[token * stride..][..stride]
}

/// `logit(token, entry)` inside the lengths, minus infinity outside.
fn masked(lens: &[i32], max_entries: usize, logit: impl Fn(usize, u32) -> f64) -> Vec<f64> {
    let mut logits = vec![f64::NEG_INFINITY; lens.len() * max_entries];
    for (token, &len) in lens.iter().enumerate() {
        for entry in 0..(len.max(0) as usize).min(max_entries) {
            logits[token * max_entries + entry] = logit(token, entry as u32);
        }
    }
    logits
}
