//! Selection of the best entries, as slots of a latent pool.
//!
//! A row is the work of a cluster of blocks: see `cuda/indexer/selection.cuh`.
//! The blocks of a cluster wait for each other, but the device starts them
//! together, so that they need no other kernel to end and the kernel is not one
//! whose blocks spin.

use std::ops::Range;

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, Ptr, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents;
use crate::layout::{LatentFp8Pages, LatentPages, PageLayout};
use crate::reference;

kernel! {
    /// The `k` best of each token's first `lens[t]` logits, as slots.
    ///
    /// `logits` is `[tokens, max_entries]`, `page_table`
    /// `[tokens, table_stride]`, `indices` `[tokens, k]`. The set is exact: of
    /// equal logits the lower entries are better, a logit that is not a number
    /// is worse than all others. Its entries stand in ascending order, which is
    /// that of their pages too; when `lens[t] <= k` these are all entries. The
    /// rest of the row is -1. Entry `j` becomes slot
    /// `page_table[t, j / P] * P + j % P`, `P` being the tokens of a page of
    /// `layout`, with page 0 for a page that the pool does not have, which
    /// [`check_page_table`](crate::dsv4::check_page_table) counts.
    ///
    /// # Safety
    /// Lengths are clamped to `max_entries`; an entry's page is read from the token's row,
    /// which reaches all entries, and becomes a number; the pool is not touched. The blocks
    /// of a token write its row of `indices`.
    #[waits]
    pub unsafe fn top_k(
        logits: In<f32>,
        page_table: In<i32>,
        lens: In<i32>,
        indices: Out<i32>,
        layout: LatentPages,
        tokens: u32,
        max_entries: u32,
        table_stride: u32,
        k: u32,
    ) {
        extents::sound(&layout)?;
        logits.holds([tokens, max_entries])?;
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        indices.holds([tokens, k])?;
        Ok(top_k::shape(tokens, max_entries, table_stride, k, &layout)?)
    }

    /// As [`top_k`](struct@top_k), as slots of a pool of fp8 latents.
    ///
    /// # Safety
    /// Lengths are clamped to `max_entries`; an entry's page is read from the token's row,
    /// which reaches all entries, and becomes a number; the pool is not touched. The blocks
    /// of a token write its row of `indices`.
    #[waits]
    pub unsafe fn top_k_fp8(
        logits: In<f32>,
        page_table: In<i32>,
        lens: In<i32>,
        indices: Out<i32>,
        layout: LatentFp8Pages,
        tokens: u32,
        max_entries: u32,
        table_stride: u32,
        k: u32,
    ) {
        extents::sound(&layout)?;
        logits.holds([tokens, max_entries])?;
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        indices.holds([tokens, k])?;
        Ok(top_k_fp8::shape(tokens, max_entries, table_stride, k, &layout)?)
    }
}

shared! {
    pub(super) SELECTION = selection {
        /// The most entries that can be selected.
        pub MAX_K: u32 = 1024;
        /// Threads of a block.
        THREADS: u32 = 512;
        /// Neighbouring entries of a thread.
        EACH: u32 = 8;
        /// Blocks of a row.
        BLOCKS_PER_ROW: u32 = 4;
    }
}

/// Entries that a block takes at a time.
const ROUND: usize = (EACH * THREADS) as usize;

impl top_k {
    /// The launch for these sizes: four blocks for each token.
    ///
    /// # Errors
    /// When a size is zero, `k` exceeds [`MAX_K`], or a row of the page table
    /// does not reach `max_entries`.
    pub fn shape(
        tokens: u32,
        max_entries: u32,
        table_stride: u32,
        k: u32,
        layout: &LatentPages,
    ) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("top_k");
        shape(dims, tokens, max_entries, table_stride, k, layout.layout())
    }
}

impl top_k_fp8 {
    /// The launch for these sizes: four blocks for each token.
    ///
    /// # Errors
    /// As for [`top_k::shape`].
    pub fn shape(
        tokens: u32,
        max_entries: u32,
        table_stride: u32,
        k: u32,
        layout: &LatentFp8Pages,
    ) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("top_k_fp8");
        shape(dims, tokens, max_entries, table_stride, k, layout.layout())
    }
}

fn shape(
    dims: Dims,
    tokens: u32,
    max_entries: u32,
    table_stride: u32,
    k: u32,
    layout: &PageLayout,
) -> Result<LaunchShape, DimensionError> {
    dims.check(
        "tokens",
        tokens,
        (1..=65_535).contains(&tokens),
        "from 1 to 65,535",
    )?
    .at_least_1("max_entries", max_entries)?
    .check("k", k, (1..=MAX_K).contains(&k), "from 1 to 1,024")?
    .table(layout, table_stride, max_entries)?
    .grid(tokens * BLOCKS_PER_ROW, ("blocks along y", 1), THREADS)
}

/// The slice of a row of `len` entries that a block of its cluster works on;
/// `None` for a block that is not needed.
fn slice(rank: usize, len: usize) -> Option<Range<usize>> {
    let blocks = BLOCKS_PER_ROW as usize;
    let parts = len.div_ceil(ROUND).clamp(1, blocks);
    let share = if len <= blocks * ROUND {
        ROUND
    } else {
        len.div_ceil(parts).next_multiple_of(8)
    };
    (rank < parts).then(|| (rank * share).min(len)..((rank + 1) * share).min(len))
}

/// What either kernel is given.
struct Operands {
    logits: Ptr<f32>,
    page_table: Ptr<i32>,
    lens: Ptr<i32>,
    indices: Ptr<i32>,
    layout: PageLayout,
    tokens: u32,
    max_entries: u32,
    table_stride: u32,
    k: u32,
}

impl Operands {
    /// Writes the selected entries of this block's slice.
    fn run(&self, block: &mut SimBlock<'_>) -> Result<(), SimFault> {
        let [index, ..] = block.index();
        let (token, rank) = (index / BLOCKS_PER_ROW, index % BLOCKS_PER_ROW);
        if token >= self.tokens {
            return Ok(());
        }
        let (token, k) = (token as usize, self.k as usize);
        let len = blocks::length(block, self.lens, token, self.max_entries)?;
        let Some(slice) = slice(rank as usize, len) else {
            return Ok(());
        };
        let logits = block.read(self.logits.at(token * self.max_entries as usize), len)?;
        let stride = self.table_stride as usize;
        let table = block.read(self.page_table.at(token * stride), stride)?;
        let selected = reference::select(logits, k);
        let below = |end: usize| selected.partition_point(|&entry| (entry as usize) < end);
        let (first, end) = (below(slice.start), below(slice.end));
        let mut slots: Vec<i32> = selected[first..end]
            .iter()
            .map(|&entry| self.layout.slot_or_dummy(table, entry))
            .collect();
        if len <= k {
            slots.resize(k, -1);
        }
        block.write(self.indices.at(token * k + first), &slots)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<top_k>(
        |block,
         (logits, page_table, lens, indices, layout, tokens, max_entries, table_stride, k)| {
            Operands {
                logits,
                page_table,
                lens,
                indices,
                layout: *layout.layout(),
                tokens,
                max_entries,
                table_stride,
                k,
            }
            .run(block)
        },
    )
}

pub(super) fn sim_fp8() -> SimKernel {
    twin::<top_k_fp8>(
        |block,
         (logits, page_table, lens, indices, layout, tokens, max_entries, table_stride, k)| {
            Operands {
                logits,
                page_table,
                lens,
                indices,
                layout: *layout.layout(),
                tokens,
                max_entries,
                table_stride,
                k,
            }
            .run(block)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_make_up_the_row() {
        for len in [
            0, 1, 4095, 4096, 4097, 8193, 16_383, 16_384, 16_385, 16_417, 65_536, 262_144,
        ] {
            let mut end = 0;
            for rank in 0..BLOCKS_PER_ROW as usize {
                if let Some(slice) = slice(rank, len) {
                    assert_eq!(slice.start, end, "{len}");
                    assert!(len == 0 || !slice.is_empty(), "{len}");
                    end = slice.end;
                }
            }
            assert_eq!(end, len);
        }
        assert_eq!(slice(0, 4096), Some(0..4096));
        assert_eq!(slice(1, 4096), None, "a short row is left to one block");
        assert_eq!(slice(3, 262_144), Some(196_608..262_144));
    }
}
