//! Attention over the sliding window and all entries of a sequence, fp8.

use half::{bf16, f16};
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, Out, twin};

use super::splits::{AttentionSplits, Left, Listed, count_faults, latent};
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;

kernel! {
    /// The unfinished attention of each head over a window and over the first
    /// `lens[t]` entries of the token's sequence, which `page_table` finds in
    /// the pool `latents`: [`sparse_attention`](super::sparse_attention) without
    /// a selection, for the layers that compress 128 tokens to one.
    ///
    /// `page_table` is `[tokens, table_stride]`; a length outside
    /// `0..=max_entries` is clamped. A page that the pool does not have is
    /// replaced by page 0, and each of its entries adds one to `faults[0]`. All
    /// else is as there.
    ///
    /// # Safety
    /// A slot of the window is read only when its pool has it; a page that the other pool
    /// does not have is replaced by page 0, and the length is clamped. A block writes its
    /// own part of `partial` and `stats`, which the number of splits, the blocks along x,
    /// divides.
    #[waits]
    pub unsafe fn paged_attention(
        q: In<bf16>,
        window: In<u8>,
        window_slots: In<i32>,
        latents: In<u8>,
        page_table: In<i32>,
        lens: In<i32>,
        partial: Out<f16>,
        stats: Out<f32>,
        faults: Atomic<u32>,
        window_layout: LatentFp8Pages,
        layout: LatentFp8Pages,
        tokens: u32,
        heads: u32,
        window_entries: u32,
        max_entries: u32,
        table_stride: u32,
        scale: f32;
        splits: u32,
    ) on device {
        let of = AttentionSplits::new(tokens, heads, splits);
        q.holds([tokens, heads, LatentFp8Pages::DIM])?.aligned(WORD)?;
        extents::pool(window, &window_layout)?.aligned(WORD)?;
        window_slots.holds([tokens, window_entries])?;
        extents::pool(latents, &layout)?.aligned(WORD)?;
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        of.held(partial, stats)?;
        faults.holds([1_u32])?;
        of.covers(Dims::of("paged_attention"), window_entries, max_entries)?;
        Ok(paged_attention::shape(&of, device.capability, max_entries, table_stride, &layout)?)
    }
}

impl paged_attention {
    /// The launch for these splits, as for
    /// [`sparse_attention::shape`](super::sparse_attention::shape).
    ///
    /// # Errors
    /// When a size is zero, there are more splits than
    /// [`AttentionSplits::MAX`], or a row of the page table does not reach
    /// `max_entries`.
    pub fn shape(
        splits: &AttentionSplits,
        capability: (u32, u32),
        max_entries: u32,
        table_stride: u32,
        layout: &LatentFp8Pages,
    ) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("paged_attention");
        splits.shape(
            dims.table(layout.layout(), table_stride, max_entries)?,
            capability,
        )
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<paged_attention>(
        |block,
         (
            q,
            window,
            window_slots,
            latents,
            page_table,
            lens,
            partial,
            stats,
            faults,
            window_layout,
            layout,
            tokens,
            heads,
            window_entries,
            max_entries,
            table_stride,
            scale,
        )| {
            let [splits, ..] = block.shape().grid;
            let token = block.index()[2] as usize;
            let left = Left {
                splits: AttentionSplits::new(tokens, heads, splits),
                partial,
                stats,
            };
            let window = Listed {
                pool: window,
                slots: window_slots,
                layout: window_layout,
            };
            let len = blocks::length(block, lens, token, max_entries)? as u32;
            let table = block
                .read(
                    page_table.at(token * table_stride as usize),
                    table_stride as usize,
                )?
                .to_vec();
            let in_window = window_entries as usize;
            let mut bad = 0;
            left.attend(block, q, scale, window_entries + len, |block, at| match at
                .checked_sub(window_entries)
            {
                None => window.read(block, token * in_window + at as usize, &mut bad),
                Some(at) => {
                    bad += u32::from(layout.layout().slot(&table, at).is_none());
                    latent(block, latents, &layout, layout.slot(&table, at))
                }
            })?;
            count_faults(block, faults, bad)
        },
    )
}
