//! What a step's kernels need to know of its sequences, computed on the device,
//! so that a captured step stays valid as sequences grow.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, Out, twin};

use super::cache::count_fault;
use super::part::part;
use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents;
use crate::layout::LatentFp8Pages;
use crate::reference::{self, StepMetadata, WINDOW};

kernel! {
    /// Positions, lengths and places of a step's tokens.
    ///
    /// `seq_lens[t]` is the length of the sequence with the token of row `t`, 0
    /// for a padded row. `page_table` is `[tokens, table_stride]`: the pages of
    /// the sequence, 256 tokens of the model each, below `pages`. A page has the
    /// same number in every pool of a layer: 256 places of tokens, 64 entries of
    /// four, 2 entries of 128.
    ///
    /// The position is the length less one (0 for a padded row), the window's
    /// length at most 128, the lengths of entries the whole groups. `out_loc` is
    /// the token's place in a pool of one entry per token, `c4_out_loc` and
    /// `c128_out_loc` the place of the entry that the token completes, 0 for
    /// none: `out_loc / 4` where the length is a multiple of four, `out_loc /
    /// 128` where it is one of 128. Page 0 belongs to nobody and has no places.
    ///
    /// A length beyond the table is clamped to it and counted in `faults`, one
    /// `u32`; a page outside the pool has no places and is counted.
    ///
    /// # Safety
    /// A length is clamped to what the token's row of the table reaches; a thread writes its
    /// own token's numbers.
    #[waits]
    pub unsafe fn decode_metadata(
        seq_lens: In<i32>,
        page_table: In<i32>,
        positions: Out<i32>,
        window_lens: Out<i32>,
        c4_lens: Out<i32>,
        c128_lens: Out<i32>,
        out_loc: Out<i32>,
        c4_out_loc: Out<i32>,
        c128_out_loc: Out<i32>,
        faults: Atomic<u32>,
        tokens: u32,
        table_stride: u32,
        pages: u32,
    ) {
        page_table.holds([tokens, table_stride])?;
        for one_each in [
            seq_lens, positions, window_lens, c4_lens, c128_lens, out_loc, c4_out_loc, c128_out_loc,
        ] {
            one_each.holds([tokens])?;
        }
        faults.holds([1_u32])?;
        Ok(decode_metadata::shape(tokens, table_stride, pages)?)
    }

    /// The slots of each sequence's window, and the slot of its token.
    ///
    /// `window_table` is `[tokens, table_stride]`: the pages of the window pool
    /// that the sequence takes in turn, page `p / P % table_stride` for position
    /// `p`, `P` being the tokens of a page of `layout`. `slots` is
    /// `[tokens, 128]`: the last 128 positions, oldest first, then -1. `out_loc`
    /// is the slot of the row's token, 0 for a padded row. A page that the pool
    /// does not have reads as page 0; where the token's own page is one, nothing
    /// is stored (`out_loc` 0) and it is counted in `faults`, one `u32`.
    ///
    /// # Safety
    /// Columns of the table are taken modulo its row; a block writes its own token's slots.
    #[waits]
    pub unsafe fn window_slots(
        seq_lens: In<i32>,
        window_table: In<i32>,
        out_loc: Out<i32>,
        slots: Out<i32>,
        faults: Atomic<u32>,
        layout: LatentFp8Pages,
        tokens: u32,
        table_stride: u32,
    ) {
        extents::sound(&layout)?;
        seq_lens.holds([tokens])?;
        window_table.holds([tokens, table_stride])?;
        out_loc.holds([tokens])?;
        slots.holds([tokens, WINDOW])?;
        faults.holds([1_u32])?;
        Ok(window_slots::shape(tokens, table_stride, &layout)?)
    }
}

shared! {
    METADATA = metadata {
        /// Tokens that one block of [`decode_metadata`] has.
        THREADS: u32 = 128;
    }
}

impl decode_metadata {
    /// The launch for these sizes: a thread for each token.
    ///
    /// # Errors
    /// When a size is zero, or the pool has more places than an `i32` counts.
    pub fn shape(
        tokens: u32,
        table_stride: u32,
        pages: u32,
    ) -> Result<LaunchShape, DimensionError> {
        Dims::of("decode_metadata")
            .at_least_1("tokens", tokens)?
            .at_least_1("table_stride", table_stride)?
            .check(
                "pages",
                pages,
                (1..=i32::MAX as u32 / reference::MODEL_PAGE).contains(&pages),
                "from 1 to 8,388,607",
            )?
            .grid(tokens.div_ceil(THREADS), ("blocks along y", 1), THREADS)
    }
}

impl window_slots {
    /// The launch for these sizes: a block for each token.
    ///
    /// # Errors
    /// When there is no token, or the pages of a row do not hold the window
    /// wherever it begins.
    pub fn shape(
        tokens: u32,
        table_stride: u32,
        layout: &LatentFp8Pages,
    ) -> Result<LaunchShape, DimensionError> {
        // The window may begin at the last token of a page.
        let page = u64::from(layout.layout().tokens_per_page());
        let holds = u64::from(table_stride) * page >= u64::from(WINDOW) - 1 + page;
        Dims::of("window_slots")
            .at_least_1("tokens", tokens)?
            .check(
                "table_stride",
                table_stride,
                holds,
                "enough pages for a window that begins anywhere in one",
            )?
            .grid(tokens, ("blocks along y", 1), WINDOW)
    }
}

part! {
    decode_metadata: "metadata/metadata.cu", sim_metadata, METADATA;
    window_slots: "metadata/metadata.cu", sim_window, METADATA;
}

fn sim_metadata() -> SimKernel {
    twin::<decode_metadata>(
        |block,
         (
            seq_lens,
            page_table,
            positions,
            window_lens,
            c4_lens,
            c128_lens,
            out_loc,
            c4_out_loc,
            c128_out_loc,
            faults,
            tokens,
            table_stride,
            pages,
        )| {
            for token in blocks::span(block.index()[0], THREADS, tokens) {
                let len = block.read(seq_lens.at(token), 1)?[0];
                let stride = table_stride as usize;
                let table = block.read(page_table.at(token * stride), stride)?;
                let (metadata, fault) = reference::step_metadata(len, table, pages);
                if fault {
                    count_fault(block, faults)?;
                }
                let StepMetadata {
                    position,
                    window_len,
                    c4_len,
                    c128_len,
                    out_loc: place,
                    c4_out_loc: c4_place,
                    c128_out_loc: c128_place,
                } = metadata;
                for (to, value) in [
                    (positions, position),
                    (window_lens, window_len),
                    (c4_lens, c4_len),
                    (c128_lens, c128_len),
                    (out_loc, place),
                    (c4_out_loc, c4_place),
                    (c128_out_loc, c128_place),
                ] {
                    block.write(to.at(token), &[value])?;
                }
            }
            Ok(())
        },
    )
}

fn sim_window() -> SimKernel {
    twin::<window_slots>(
        |block, (seq_lens, window_table, out_loc, slots, faults, layout, tokens, table_stride)| {
            let [token, ..] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let token = token as usize;
            let len = block.read::<i32>(seq_lens.at(token), 1)?[0].max(0) as u32;
            let stride = table_stride as usize;
            let table = block.read(window_table.at(token * stride), stride)?;
            let window = reference::window(len, table, layout.layout());
            let entries = window.len();
            let own = match window.last() {
                None => Some(0),
                Some(&(slot, held)) => held.then_some(slot),
            };
            let mut row = vec![-1; WINDOW as usize];
            for (to, (slot, _)) in row[..entries].iter_mut().zip(window) {
                *to = slot;
            }
            // A slot of page 0 belongs to nobody.
            let page = layout.layout().tokens_per_page() as i32;
            let stored = own.filter(|&slot| slot >= page).unwrap_or(0);
            if own.is_none() {
                count_fault(block, faults)?;
            }
            block.write(slots.at(token * WINDOW as usize), &row)?;
            block.write(out_loc.at(token), &[stored])
        },
    )
}
