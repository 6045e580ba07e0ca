//! The indexer's scores of the cache entries.
//!
//! One way for keys in bf16 and for keys in fp8: see `cuda/indexer/logits.cuh`.
//! Any number of blocks along x computes the same bits, each block its even
//! share of the entries that the lengths on the device ask for. So a caller that
//! wants to leave room for another stream launches with fewer.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, Ptr, twin};

use super::shares;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages};
use crate::reference;

kernel! {
    /// `logits[t, j] = Σ_h weights[t, h] · relu(q[t, h, ..] · key(t, j))` for `j`
    /// below `lens[t]`, minus infinity from there to `max_entries`.
    ///
    /// `q` is `[tokens, heads, dim]` with the dimension of `layout`, `weights`
    /// `[tokens, heads]`, `page_table` `[tokens, table_stride]`, `logits`
    /// `[tokens, max_entries]`. Key `(t, j)` is token `j % P` of page
    /// `page_table[t, j / P]`, `P` being the tokens of a page. Lengths and table
    /// are read on the device, so a captured graph stays valid as sequences
    /// grow; a length is clamped to `0..=max_entries`, a page that the pool does
    /// not have reads page 0. That is not counted here, where every layer would
    /// count it again: [`check_page_table`](crate::dsv4::check_page_table) does.
    ///
    /// # Safety
    /// Lengths are clamped to `max_entries`, a page that the pool does not have is replaced
    /// by page 0; a warp writes the logits of its own entries.
    #[waits]
    pub unsafe fn indexer_logits(
        q: In<bf16>,
        weights: In<f32>,
        keys: In<bf16>,
        page_table: In<i32>,
        lens: In<i32>,
        logits: Out<f32>,
        layout: IndexKeyPages,
        tokens: u32,
        heads: u32,
        table_stride: u32,
        max_entries: u32,
    ) {
        q.holds([tokens, heads, layout.dim()])?.aligned(WORD)?;
        weights.holds([tokens, heads])?;
        extents::pool(keys, &layout)?.aligned(WORD)?;
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        logits.holds([tokens, max_entries])?;
        Ok(indexer_logits::shape(tokens, heads, table_stride, max_entries, &layout)?)
    }

    /// As [`indexer_logits`] over e4m3 queries and keys:
    /// `logits[t, j] = scale(t, j) · Σ_h weights[t, h] · relu(q[t, h, ..] · key(t, j))`
    /// with the scale that stands in the key's page. The scales of the queries
    /// are part of the weights.
    ///
    /// # Safety
    /// Lengths are clamped to `max_entries`, a page that the pool does not have is replaced
    /// by page 0; a warp writes the logits of its own entries.
    #[waits]
    pub unsafe fn indexer_logits_fp8(
        q: In<u8>,
        weights: In<f32>,
        keys: In<u8>,
        page_table: In<i32>,
        lens: In<i32>,
        logits: Out<f32>,
        layout: IndexKeyFp8Pages,
        tokens: u32,
        heads: u32,
        table_stride: u32,
        max_entries: u32,
    ) {
        q.holds([tokens, heads, layout.dim()])?.aligned(WORD)?;
        weights.holds([tokens, heads])?;
        extents::pool(keys, &layout)?.aligned(WORD)?;
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        logits.holds([tokens, max_entries])?;
        Ok(indexer_logits_fp8::shape(tokens, heads, table_stride, max_entries, &layout)?)
    }
}

impl indexer_logits {
    /// The launch for these sizes.
    ///
    /// # Errors
    /// When a size is zero, the key's dimension is no multiple of 8 or more than
    /// 128, a page's tokens are no multiple of 32, or a row of the page table
    /// does not reach `max_entries`.
    pub fn shape(
        tokens: u32,
        heads: u32,
        table_stride: u32,
        max_entries: u32,
        layout: &IndexKeyPages,
    ) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("indexer_logits").row("dim", layout.dim())?;
        let (pages, dim) = (layout.layout(), layout.dim());
        shares::shape(dims, tokens, heads, table_stride, max_entries, pages, dim)
    }
}

impl indexer_logits_fp8 {
    /// The launch for these sizes.
    ///
    /// # Errors
    /// When a size is zero, the key's dimension is no multiple of 16 or more than
    /// 128, a page's tokens are no multiple of 32, or a row of the page table
    /// does not reach `max_entries`.
    pub fn shape(
        tokens: u32,
        heads: u32,
        table_stride: u32,
        max_entries: u32,
        layout: &IndexKeyFp8Pages,
    ) -> Result<LaunchShape, DimensionError> {
        let (pages, dim) = (layout.layout(), layout.dim());
        let dims = Dims::of("indexer_logits_fp8").check(
            "dim",
            dim,
            dim > 0 && dim.is_multiple_of(16),
            "a positive multiple of 16 (16-byte rows)",
        )?;
        shares::shape(dims, tokens, heads, table_stride, max_entries, pages, dim)
    }
}

/// The operands of a block that do not depend on the format of the keys.
struct Operands {
    weights: Ptr<f32>,
    page_table: Ptr<i32>,
    lens: Ptr<i32>,
    logits: Ptr<f32>,
    tokens: usize,
    heads: usize,
    table_stride: usize,
    max_entries: usize,
}

impl Operands {
    /// Writes what this block owns; `logit(block, token, weights, table, entry)`
    /// is the logit of an entry inside the length.
    fn run(
        &self,
        block: &mut SimBlock<'_>,
        logit: impl Fn(&SimBlock<'_>, usize, &[f32], &[i32], u32) -> Result<f64, SimFault>,
    ) -> Result<(), SimFault> {
        let lens = (0..self.tokens)
            .map(|token| blocks::length(block, self.lens, token, self.max_entries as u32))
            .collect::<Result<Vec<_>, _>>()?;
        let [index, ..] = block.index();
        let [blocks, ..] = block.shape().grid;
        for (token, entries) in shares::shares(index, blocks, &lens, self.max_entries) {
            let weights = block.read(self.weights.at(token * self.heads), self.heads)?;
            let table = block.read(
                self.page_table.at(token * self.table_stride),
                self.table_stride,
            )?;
            let first = token * self.max_entries + entries.start;
            let values = entries
                .map(|entry| {
                    if entry >= lens[token] {
                        return Ok(f32::NEG_INFINITY);
                    }
                    Ok(logit(block, token, weights, table, entry as u32)? as f32)
                })
                .collect::<Result<Vec<_>, SimFault>>()?;
            block.write(self.logits.at(first), &values)?;
        }
        Ok(())
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<indexer_logits>(
        |block,
         (
            q,
            weights,
            keys,
            page_table,
            lens,
            logits,
            layout,
            tokens,
            heads,
            table_stride,
            max_entries,
        )| {
            let operands = Operands {
                weights,
                page_table,
                lens,
                logits,
                tokens: tokens as usize,
                heads: heads as usize,
                table_stride: table_stride as usize,
                max_entries: max_entries as usize,
            };
            let dim = layout.dim() as usize;
            let per_token = operands.heads * dim;
            operands.run(block, |block, token, weights, table, entry| {
                let query = block.read(q.at(token * per_token), per_token)?;
                let key = block.read(keys.at(layout.element(table, entry)), dim)?;
                Ok(reference::logit(query, weights, key))
            })
        },
    )
}

pub(super) fn sim_fp8() -> SimKernel {
    twin::<indexer_logits_fp8>(
        |block,
         (
            q,
            weights,
            keys,
            page_table,
            lens,
            logits,
            layout,
            tokens,
            heads,
            table_stride,
            max_entries,
        )| {
            let operands = Operands {
                weights,
                page_table,
                lens,
                logits,
                tokens: tokens as usize,
                heads: heads as usize,
                table_stride: table_stride as usize,
                max_entries: max_entries as usize,
            };
            let dim = layout.dim() as usize;
            let per_token = operands.heads * dim;
            let offset = |position: Option<u64>| position.unwrap_or(0) as usize;
            operands.run(block, |block, token, weights, table, entry| {
                let slot = layout.slot(table, entry);
                let query = block.read(q.at(token * per_token), per_token)?;
                let values = offset(layout.layout().value_offset(slot));
                let scale = offset(layout.layout().scale_position(slot));
                let key = block.read(keys.at(values), dim)?;
                let scale = block.read::<f32>(keys.at(scale), 1)?[0];
                Ok(reference::logit_fp8(query, weights, key, scale))
            })
        },
    )
}
