//! The kernels of a step, loaded.

use streamweir::kernels::dsv4::{
    self, argmax, check_page_table, combine_attention, compress_c4, compress_c128,
    compress_index_key, compress_index_key_fp8, count_differences, decode_metadata, embed,
    index_query, index_query_fp8, indexer_logits, indexer_logits_fp8, mix, norm_rope_heads,
    paged_attention, rms_norm, rope_heads, sparse_attention, store_latent, top_k_fp8, window_slots,
};
use streamweir::{Device, LoadedKernel};

use super::error::Error;

/// Declares a struct of loaded kernels and how it is loaded.
macro_rules! kernels {
    ($($field:ident: $kernel:ident),* $(,)?) => {
        /// The kernels, by what they do.
        pub(super) struct Kernels {
            $(pub(super) $field: LoadedKernel<$kernel>,)*
        }

        impl Kernels {
            pub(super) fn load(device: &Device) -> Result<Self, Error> {
                let code = dsv4::load(device)?;
                Ok(Self {
                    $($field: code.kernel()?,)*
                })
            }
        }
    };
}

kernels! {
    embed: embed,
    argmax: argmax,
    metadata: decode_metadata,
    check_pages: check_page_table,
    window_slots: window_slots,
    rms_norm: rms_norm,
    norm_rope: norm_rope_heads,
    rope: rope_heads,
    store_latent: store_latent,
    compress_c4: compress_c4,
    compress_c128: compress_c128,
    compress_key: compress_index_key,
    compress_key_fp8: compress_index_key_fp8,
    index_query: index_query,
    index_query_fp8: index_query_fp8,
    logits: indexer_logits,
    logits_fp8: indexer_logits_fp8,
    top_k: top_k_fp8,
    sparse: sparse_attention,
    paged: paged_attention,
    combine: combine_attention,
    mix: mix,
    differences: count_differences,
}
