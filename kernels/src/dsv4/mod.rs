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
//! CPU twin, one in `cuda/`, and a line in the list of its part. A number that
//! both files need is written here alone. A twin runs the same grid as the CUDA kernel:
//! one call computes what one thread block computes, so the simulator
//! interleaves concurrent kernels at the same places. Sizes are parameters;
//! lengths, page tables and slots are read from device memory.
//!
//! Every kernel is deterministic bit by bit: sums have a fixed order, and no
//! result depends on the order in which threads arrive.

mod attention;
mod blocks;
mod cache;
mod compressor;
mod extents;
mod glue;
mod image;
mod indexer;
mod metadata;
mod part;
mod query;
#[cfg(feature = "testing")]
pub mod testing;

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
pub use glue::{MAX_NORM_WIDTH, argmax, count_differences, embed, mix, query_projection, rms_norm};
pub use image::{Code, Image, ImageError, LEAST_CAPABILITY, Shipped, image, load, program, twins};
pub use indexer::{MAX_K, index_weights, indexer_logits, indexer_logits_fp8, top_k, top_k_fp8};
pub use metadata::{decode_metadata, window_slots};
pub use query::{HEAD_DIM, index_query, index_query_fp8, norm_rope_heads, rope_heads};
