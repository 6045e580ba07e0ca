//! Attention over the selected entries.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::LatentPages;
use crate::reference;

kernel! {
    /// `out[t, h, ..] = Σ_i p_i · latent(indices[t, i])`, where `p` is the
    /// softmax of `scale · q[t, h, ..] · latent(indices[t, i])` with `sink[h]` as
    /// one more logit of value zero.
    ///
    /// Key and value are the same latent. `q` and `out` are
    /// `[tokens, heads, dim]` with the dimension of `layout`, `indices` is
    /// `[tokens, selected]`, `sink` `[heads]` (minus infinity: no sink). `latent`
    /// is the whole pool: the indices come from device memory. An index that is
    /// no slot of the pool, such as -1, is masked; a token with no entry at all
    /// gets zeros.
    ///
    /// # Safety
    /// An index is looked up only when the pool has the slot; a thread writes its own
    /// dimensions of the heads of its block.
    pub unsafe fn gather_attention(
        q: In<bf16>,
        latent: In<bf16>,
        indices: In<i32>,
        sink: In<f32>,
        out: Out<bf16>,
        layout: LatentPages,
        tokens: u32,
        heads: u32,
        selected: u32,
        scale: f32,
    ) {
        q.holds([tokens, heads, layout.dim()])?.aligned(WORD)?;
        extents::pool(latent, &layout)?;
        indices.holds([tokens, selected])?;
        sink.holds([heads])?;
        out.holds([tokens, heads, layout.dim()])?;
        Ok(gather_attention::shape(tokens, heads, selected, &layout)?)
    }
}

shared! {
    pub(super) GATHER = attention_tile {
        /// Heads that one block owns.
        HEADS_PER_BLOCK: u32 = 8;
        /// Threads of a block: a warp for each head.
        THREADS: u32 = 256;
        /// The largest latent.
        pub MAX_LATENT_DIM: u32 = 512;
    }
}

impl gather_attention {
    /// The model's scale: `dim^-0.5`.
    pub fn scale(dim: u32) -> f32 {
        (1.0 / f64::from(dim).sqrt()) as f32
    }

    /// The launch for these sizes: a block for 8 heads of a token.
    ///
    /// # Errors
    /// When a size is zero, or the latent's dimension is no multiple of 8 or
    /// above [`MAX_LATENT_DIM`].
    pub fn shape(
        tokens: u32,
        heads: u32,
        selected: u32,
        layout: &LatentPages,
    ) -> Result<LaunchShape, DimensionError> {
        let dim = layout.dim();
        Dims::of("gather_attention")
            .at_least_1("heads", heads)?
            .at_least_1("selected", selected)?
            .row("dim", dim)?
            .check("dim", dim, dim <= MAX_LATENT_DIM, "at most 512")?
            .grid(heads.div_ceil(HEADS_PER_BLOCK), ("tokens", tokens), THREADS)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<gather_attention>(
        |block, (q, latent, indices, sink, out, layout, tokens, heads, selected, scale)| {
            let [head_block, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let (token, dim) = (token as usize, layout.dim() as usize);
            let selected = selected as usize;
            let mut rows: Vec<&[bf16]> = Vec::with_capacity(selected);
            for &slot in block.read(indices.at(token * selected), selected)? {
                if let Some(offset) = layout.layout().value_offset(slot) {
                    rows.push(block.read(latent.address + offset, dim)?);
                }
            }
            let here = blocks::span(head_block, HEADS_PER_BLOCK, heads);
            let first = (token * heads as usize + here.start) * dim;
            let mut values = Vec::with_capacity(here.len() * dim);
            for head in here {
                let query = block.read(q.at((token * heads as usize + head) * dim), dim)?;
                let sink = block.read(sink.at(head), 1)?[0];
                let attended = reference::attend(query, &rows, sink, scale);
                values.extend(attended.into_iter().map(bf16::from_f64));
            }
            block.write(out.at(first), &values)
        },
    )
}
