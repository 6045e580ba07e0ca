//! Attention over the sliding window and the selected entries, fp8.

use half::{bf16, f16};
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, Out, twin};

use super::splits::{AttentionSplits, Left, Listed, count_faults};
use crate::dims::{DimensionError, Dims};
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;

kernel! {
    /// The unfinished attention of each head over a window and over selected
    /// entries: one softmax of `scale · q · latent` over both.
    /// [`combine_attention`](super::combine_attention) finishes it.
    ///
    /// `q` is `[tokens, heads, 512]`, `window_slots` `[tokens, window_entries]`
    /// and `indices` `[tokens, selected_entries]`: slots of the pools `window`
    /// and `selected`, whole pools both. A negative slot is no entry. One that
    /// the pool does not have is no entry either and adds one to `faults[0]`. A
    /// layer without selected entries passes zero of them. `partial` and `stats`
    /// have the lengths that [`AttentionSplits`] says; only the two kernels know the order
    /// of what is in them.
    ///
    /// The latents become bf16, exactly unless a scale leaves its range; products
    /// are summed in f32, and the weights of a step are rounded to bf16.
    ///
    /// # Safety
    /// A slot is read only when its pool has it. A block writes its own part of `partial`
    /// and `stats`, which the number of splits, the blocks along x, divides.
    #[waits]
    pub unsafe fn sparse_attention(
        q: In<bf16>,
        window: In<u8>,
        window_slots: In<i32>,
        selected: In<u8>,
        indices: In<i32>,
        partial: Out<f16>,
        stats: Out<f32>,
        faults: Atomic<u32>,
        window_layout: LatentFp8Pages,
        selected_layout: LatentFp8Pages,
        tokens: u32,
        heads: u32,
        window_entries: u32,
        selected_entries: u32,
        scale: f32;
        splits: u32,
    ) on device {
        let of = AttentionSplits::new(tokens, heads, splits);
        q.holds([tokens, heads, LatentFp8Pages::DIM])?.aligned(WORD)?;
        extents::pool(window, &window_layout)?.aligned(WORD)?;
        window_slots.holds([tokens, window_entries])?;
        if selected_entries > 0 {
            extents::pool(selected, &selected_layout)?.aligned(WORD)?;
        }
        indices.holds([tokens, selected_entries])?;
        of.held(partial, stats)?;
        faults.holds([1_u32])?;
        of.covers(Dims::of("sparse_attention"), window_entries, selected_entries)?;
        Ok(sparse_attention::shape(&of, device.capability)?)
    }
}

impl sparse_attention {
    /// The model's scale: `512^-0.5`.
    pub fn scale() -> f32 {
        (1.0 / f64::from(LatentFp8Pages::DIM).sqrt()) as f32
    }

    /// The launch for these splits on a device of compute capability
    /// `capability`: a block for 64 heads of a token and a split. The kernel must be allowed the shape's shared memory
    /// ([`LoadedKernel::allow_shared`](streamweir_sched::LoadedKernel::allow_shared)).
    ///
    /// # Errors
    /// When a size is zero, or there are more splits than
    /// [`AttentionSplits::MAX`].
    pub fn shape(
        splits: &AttentionSplits,
        capability: (u32, u32),
    ) -> Result<LaunchShape, DimensionError> {
        splits.shape(Dims::of("sparse_attention"), capability)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<sparse_attention>(
        |block,
         (
            q,
            window,
            window_slots,
            selected,
            indices,
            partial,
            stats,
            faults,
            window_layout,
            selected_layout,
            tokens,
            heads,
            window_entries,
            selected_entries,
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
            let selected = Listed {
                pool: selected,
                slots: indices,
                layout: selected_layout,
            };
            let (in_window, in_selection) = (window_entries as usize, selected_entries as usize);
            let mut bad = 0;
            let entries = window_entries.saturating_add(selected_entries);
            left.attend(block, q, scale, entries, |block, at| {
                match (at as usize).checked_sub(in_window) {
                    None => window.read(block, token * in_window + at as usize, &mut bad),
                    Some(at) => selected.read(block, token * in_selection + at, &mut bad),
                }
            })?;
            count_faults(block, faults, bad)
        },
    )
}
