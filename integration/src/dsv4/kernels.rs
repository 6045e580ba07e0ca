//! The kernels of a step, loaded, and its matrix products.

use half::bf16;
use streamweir_kernels::dsv4::{
    self, argmax, check_page_table, combine_attention, compress_c4, compress_c128,
    compress_index_key, compress_index_key_fp8, count_differences, decode_metadata, embed,
    index_query, index_query_fp8, indexer_logits, indexer_logits_fp8, mix, norm_rope_heads,
    paged_attention, rms_norm, rope_heads, sparse_attention, store_latent, top_k_fp8, window_slots,
};
use streamweir_kernels::gemm::{Gemm, GemmLibrary, GemmShape};
use streamweir_sched::{Device, LoadedKernel};

use super::config::{Config, HEAD_DIM, INDEX_DIM};
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
                let module = device.load(&dsv4::image(device.info())?)?;
                Ok(Self {
                    $($field: module.kernel()?,)*
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

/// The products of a step of so many rows. Their algorithms are fixed here, so
/// that an eager run and a graph of the same rows give the same bits.
pub(super) struct Products {
    pub(super) qkv_a: Gemm<bf16>,
    pub(super) q_b: Gemm<bf16>,
    pub(super) o_a: Gemm<bf16>,
    pub(super) o_b: Gemm<bf16>,
    pub(super) c4_scores: Gemm<f32>,
    pub(super) c128_scores: Gemm<f32>,
    pub(super) key_scores: Gemm<f32>,
    pub(super) head_weights: Gemm<f32>,
    pub(super) index_q_b: Gemm<bf16>,
    pub(super) head: Gemm<f32>,
}

impl Products {
    pub(super) fn new(library: &GemmLibrary, config: &Config, rows: u32) -> Result<Self, Error> {
        let shape = |width, out| GemmShape::new(rows, width, out);
        let halves = |shape| library.gemm::<bf16>(shape, Gemm::<bf16>::WORKSPACE);
        let floats = |shape| library.gemm::<f32>(shape, Gemm::<f32>::WORKSPACE);
        let Config {
            hidden,
            q_lora,
            o_lora,
            o_groups,
            ..
        } = *config;
        Ok(Self {
            qkv_a: halves(shape(hidden, config.qkv()))?,
            q_b: halves(shape(q_lora, config.query()))?,
            o_a: halves(GemmShape::grouped(
                rows,
                o_groups,
                config.query() / o_groups,
                o_lora,
            ))?,
            o_b: halves(shape(o_groups * o_lora, hidden))?,
            c4_scores: floats(shape(hidden, 4 * HEAD_DIM))?,
            c128_scores: floats(shape(hidden, 2 * HEAD_DIM))?,
            key_scores: floats(shape(hidden, 4 * INDEX_DIM))?,
            head_weights: floats(shape(hidden, config.index_heads))?,
            index_q_b: halves(shape(q_lora, config.index_query()))?,
            head: floats(shape(hidden, config.vocabulary))?,
        })
    }
}
