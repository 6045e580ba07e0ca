//! Selection of the best entries, as slots of the latent pool.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::dims::{DimensionError, Dims};
use crate::layout::LatentPages;
use crate::reference;

kernel! {
    /// The `k` best of each token's first `lens[t]` logits, as slots.
    ///
    /// `logits` is `[tokens, max_entries]`, `page_table`
    /// `[tokens, table_stride]`, `indices` `[tokens, k]`. Exact: best first,
    /// equal logits by lower entry, a logit that is not a number after all
    /// others. When `lens[t] <= k` all entries are taken in order. The rest of
    /// the row is -1. Entry `j` becomes slot
    /// `page_table[t, j / P] * P + j % P`, `P` being the tokens of a page of
    /// `layout`, with page 0 for a page that the pool does not have.
    pub fn top_k(
        logits: In<f32>,
        page_table: In<i32>,
        lens: In<i32>,
        indices: Out<i32>,
        layout: LatentPages,
        tokens: u32,
        max_entries: u32,
        table_stride: u32,
        k: u32,
    );
}

/// The most entries that can be selected (`MAX_K` in `cuda/top_k.cu`).
pub const MAX_K: u32 = 1024;

impl top_k {
    /// The launch for these sizes: a block for each token.
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
        Dims::of("top_k")
            .at_least_1("tokens", tokens)?
            .at_least_1("max_entries", max_entries)?
            .check("k", k, (1..=MAX_K).contains(&k), "from 1 to 1,024")?
            .table(layout.layout(), table_stride, max_entries)?
            .grid(tokens, ("blocks along y", 1), 1024)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<top_k>(|block,
         (logits, page_table, lens, indices, layout, tokens, max_entries, table_stride, k)| {
            let [token, ..] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let token = token as usize;
            let len = crate::dsv4::length(block, lens, token, max_entries)?;
            let logits = block.read(logits.at(token * max_entries as usize), len)?;
            let table = block.read(
                page_table.at(token * table_stride as usize),
                table_stride as usize,
            )?;
            let mut row = vec![-1; k as usize];
            for (index, entry) in row.iter_mut().zip(reference::select(logits, k as usize)) {
                *index = layout.slot(table, entry);
            }
            block.write(indices.at(token * k as usize), &row)
        },
    )
}
