//! Kernels of DeepSeek-V4 decode: the core of one C4 attention layer.
//!
//! | stream | kernel | from → to |
//! | --- | --- | --- |
//! | main | [`query_projection`] | x → q |
//! | indexer | [`index_key_store`] | x → index-key pool |
//! | indexer | [`query_projection`], [`index_weights`] | x → index queries, head weights |
//! | indexer | [`indexer_logits`], [`indexer_logits_fp8`] | queries, weights, pool → logits |
//! | indexer | [`top_k`], [`top_k_fp8`] | logits → slots |
//! | main, joined | [`gather_attention`] | q, slots, latent pool → attention |
//! | main | [`mix`] | x, attention → next x |
//!
//! Each kernel has one file here, with its signature, its launch shape and its
//! CPU twin, and one in `cuda/`. A twin runs the same grid as the CUDA kernel:
//! one call computes what one thread block computes, so the simulator
//! interleaves concurrent kernels at the same places. Sizes are parameters;
//! lengths, page tables and slots are read from device memory.
//!
//! Every kernel is deterministic bit by bit: sums have a fixed order, and no
//! result depends on the order in which threads arrive.

mod attention;
mod cache;
mod compressor;
mod glue;
mod image;
mod indexer;
mod metadata;
mod quantise;
mod query;

pub use attention::{
    AttentionSplits, MAX_LATENT_DIM, PageFaults, check_page_table, combine_attention,
    gather_attention, paged_attention, sparse_attention,
};
pub use cache::{
    INDEX_DIM, MAX_KEY_DIM, index_key_store, store_index_key, store_index_key_fp8, store_latent,
};
pub use compressor::{
    StateRing, compress_c4, compress_c128, compress_index_key, compress_index_key_fp8,
};
pub use glue::{
    MAX_NORM_WIDTH, add_one, argmax, copy_late, count_differences, embed, fill_words, mix,
    query_projection, rms_norm,
};
pub use image::{ImageError, image, program, twins};
pub use indexer::{MAX_K, index_weights, indexer_logits, indexer_logits_fp8, top_k, top_k_fp8};
pub use metadata::{decode_metadata, window_slots};
pub use quantise::{hadamard_rows, quantise_e4m3, quantise_latent};
pub use query::{HEAD_DIM, index_query, index_query_fp8, norm_rope_heads, rope_heads};

use std::ops::Range;

use streamweir_sched::driver::sim::{SimBlock, SimFault};
use streamweir_sched::kernel::Ptr;

/// The elements of `0..total` that block `block` owns at `each` per block.
fn span(block: u32, each: u32, total: u32) -> Range<usize> {
    let start = block.saturating_mul(each).min(total);
    start as usize..start.saturating_add(each).min(total) as usize
}

/// The length of a token's sequence, clamped to `0..=max_entries`.
fn length(
    block: &SimBlock<'_>,
    lens: Ptr<i32>,
    token: usize,
    max_entries: u32,
) -> Result<usize, SimFault> {
    let len = block.read::<i32>(lens.at(token), 1)?[0];
    Ok(u32::try_from(len).unwrap_or(0).min(max_entries) as usize)
}
