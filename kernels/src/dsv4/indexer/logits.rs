//! The indexer's scores of the cache entries.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::dims::{DimensionError, Dims};
use crate::layout::IndexKeyPages;
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
    /// not have reads page 0.
    pub fn indexer_logits(
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
    );
}

/// Entries that one block owns (`ENTRIES_PER_BLOCK` in
/// `cuda/indexer_logits.cu`).
const ENTRIES_PER_BLOCK: u32 = 64;

impl indexer_logits {
    /// The launch for these sizes: a block for 64 entries of a token.
    ///
    /// # Errors
    /// When a size is zero, the key's dimension is no multiple of 8, or a row of
    /// the page table does not reach `max_entries`.
    pub fn shape(
        tokens: u32,
        heads: u32,
        table_stride: u32,
        max_entries: u32,
        layout: &IndexKeyPages,
    ) -> Result<LaunchShape, DimensionError> {
        Dims::of("indexer_logits")
            .at_least_1("heads", heads)?
            .row("dim", layout.dim())?
            .at_least_1("max_entries", max_entries)?
            .table(layout.layout(), table_stride, max_entries)?
            .grid(
                max_entries.div_ceil(ENTRIES_PER_BLOCK),
                ("tokens", tokens),
                256,
            )
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
            let [entry_block, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let token = token as usize;
            let (heads, dim) = (heads as usize, layout.dim() as usize);
            let (table_stride, max_entries) = (table_stride as usize, max_entries);
            let len = crate::dsv4::length(block, lens, token, max_entries)?;
            let query = block.read(q.at(token * heads * dim), heads * dim)?;
            let weights = block.read(weights.at(token * heads), heads)?;
            let table = block.read(page_table.at(token * table_stride), table_stride)?;

            let entries = crate::dsv4::span(entry_block, ENTRIES_PER_BLOCK, max_entries);
            let first = token * max_entries as usize + entries.start;
            let mut values = Vec::with_capacity(entries.len());
            for entry in entries {
                values.push(if entry < len {
                    let key = block.read(keys.at(layout.element(table, entry as u32)), dim)?;
                    reference::logit(query, weights, key) as f32
                } else {
                    f32::NEG_INFINITY
                });
            }
            block.write(logits.at(first), &values)
        },
    )
}
