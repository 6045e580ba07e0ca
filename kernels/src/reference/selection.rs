//! The selection of the best entries.

use std::cmp::Reverse;

use crate::layout::PageLayout;

/// An integer that orders logits: larger is better. Zeros of both signs are
/// equal, and what is not a number comes after minus infinity.
pub fn order_key(logit: f32) -> u32 {
    if logit.is_nan() {
        return 0;
    }
    // Adding positive zero turns negative zero into it.
    let bits = (logit + 0.0).to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The entries of one token that top-`k` selects, in ascending order: all when
/// there are at most `k`; otherwise the `k` best, of equals the lower ones.
pub fn select(logits: &[f32], k: usize) -> Vec<u32> {
    let mut entries: Vec<u32> = (0..logits.len() as u32).collect();
    if entries.len() > k {
        // Best first, equals by entry: no two are equal.
        entries.select_nth_unstable_by_key(k, |&entry| {
            (Reverse(order_key(logits[entry as usize])), entry)
        });
        entries.truncate(k);
        entries.sort_unstable();
    }
    entries
}

/// The selections of all tokens as slots of the latent pool,
/// `[lens.len(), k]`, padded with -1. A page that the pool does not have is
/// replaced by page 0.
pub fn top_k(
    logits: &[f32],
    page_table: &[i32],
    lens: &[i32],
    pages: &PageLayout,
    k: usize,
) -> Vec<i32> {
    let tokens = lens.len();
    let max_entries = logits.len() / tokens.max(1);
    let table_stride = page_table.len() / tokens.max(1);
    let mut indices = vec![-1; tokens * k];
    for token in 0..tokens {
        let len = (lens[token].max(0) as usize).min(max_entries);
        let table = &page_table[token * table_stride..][..table_stride];
        let selected = select(&logits[token * max_entries..][..len], k);
        for (index, entry) in indices[token * k..].iter_mut().zip(selected) {
            *index = pages.slot_or_dummy(table, entry);
        }
    }
    indices
}
