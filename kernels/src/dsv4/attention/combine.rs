//! The splits of the attention put together.

use half::{bf16, f16};
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use super::splits::{AttentionSplits, Left};
use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;
use crate::reference;

kernel! {
    /// Finishes what [`sparse_attention`](super::sparse_attention) or
    /// [`paged_attention`](super::paged_attention) left for `splits` splits:
    /// `out` is `[tokens, heads, 512]`, the sum over all entries of a head by the
    /// sum of their weights, where `sink[head]` is one more logit of value zero
    /// (minus infinity: no sink). A token without entries gets zeros.
    ///
    /// With `lse` the logarithm of the sum over the entries that is the published
    /// form, attention without a sink by `1 / (1 + exp(sink - lse))`.
    ///
    /// # Safety
    /// A thread reads what all splits left of its head, and the head's sink, and writes
    /// its own eight dimensions of the head.
    #[waits]
    pub unsafe fn combine_attention(
        partial: In<f16>,
        stats: In<f32>,
        sink: In<f32>,
        out: Out<bf16>,
        tokens: u32,
        heads: u32,
        splits: u32,
    ) {
        let of = AttentionSplits::new(tokens, heads, splits);
        of.held(partial, stats)?;
        sink.holds([heads])?;
        out.holds([tokens, heads, LatentFp8Pages::DIM])?.aligned(WORD)?;
        Ok(combine_attention::shape(&of)?)
    }
}

shared! {
    pub(super) COMBINE = combine {
        /// Heads of a block.
        HEADS: u32 = 2;
        /// Threads of a head: one for eight dimensions.
        THREADS: u32 = LatentFp8Pages::DIM / 8;
        /// The most splits.
        MAX_SPLITS: u32 = AttentionSplits::MAX;
    }
}

impl combine_attention {
    /// The launch for these splits: a block for two heads of a token.
    ///
    /// # Errors
    /// As for [`sparse_attention::shape`](super::sparse_attention::shape).
    pub fn shape(splits: &AttentionSplits) -> Result<LaunchShape, DimensionError> {
        splits.checked(Dims::of("combine_attention"))?.grid(
            splits.heads().div_ceil(HEADS),
            ("tokens", splits.tokens()),
            HEADS * THREADS,
        )
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<combine_attention>(
        |block, (partial, stats, sink, out, tokens, heads, splits)| {
            let [pair, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let left = Left {
                splits: AttentionSplits::new(tokens, heads, splits),
                partial,
                stats,
            };
            for head in blocks::span(pair, HEADS, heads) {
                let sink = block.read::<f32>(sink.at(head), 1)?[0];
                let parts = left.parts(block, token, head as u32)?;
                let values: Vec<bf16> = reference::combine_parts(&parts, sink)
                    .into_iter()
                    .map(bf16::from_f64)
                    .collect();
                let row = token as usize * heads as usize + head;
                block.write(out.at(row * LatentFp8Pages::DIM as usize), &values)?;
            }
            Ok(())
        },
    )
}
