//! A look over page tables for ids that a pool does not have.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;

kernel! {
    /// Counts the ids of page tables that are not below `pages`, among those
    /// that the lengths reach.
    ///
    /// Every kernel replaces such an id by page 0 and goes on. A capture that is
    /// to know of it launches this one before the others: [`PageFaults`] tells
    /// after a replay how many there are and where the first is. It also makes
    /// a narrowed declaration checkable: a launch that states that it reaches
    /// the first `pages` pages of a pool only is right while this kernel, with
    /// the same `pages`, finds nothing.
    ///
    /// `page_table` is `[tokens, table_stride]`; `lens[t]` entries of
    /// `tokens_per_page` to a page are in use, clamped to what the table
    /// reaches. `found` holds [`PageFaults::LEN`] words and begins as
    /// [`PageFaults::NONE`]; launches add to it.
    ///
    /// # Safety
    /// A block reads the length of its token and as many ids of its row as the length,
    /// clamped to the row, says; it touches both words of `found`.
    #[waits]
    pub unsafe fn check_page_table(
        page_table: In<i32>,
        lens: In<i32>,
        found: Atomic<u32>,
        tokens: u32,
        table_stride: u32,
        tokens_per_page: u32,
        pages: u32,
    ) {
        page_table.holds([tokens, table_stride])?;
        lens.holds([tokens])?;
        found.holds([PageFaults::LEN as u32])?;
        Ok(check_page_table::shape(tokens, table_stride, tokens_per_page)?)
    }
}

shared! {
    pub(super) CHECK = page_check {
        /// Threads of a block.
        THREADS: u32 = 256;
    }
}

impl check_page_table {
    /// The launch for these sizes: a block for each token.
    ///
    /// # Errors
    /// When a size is zero, or the table has more ids than 32 bits count.
    pub fn shape(
        tokens: u32,
        table_stride: u32,
        tokens_per_page: u32,
    ) -> Result<LaunchShape, DimensionError> {
        Dims::of("check_page_table")
            .at_least_1("tokens", tokens)?
            .at_least_1("tokens_per_page", tokens_per_page)?
            .at_least_1("table_stride", table_stride)?
            .check(
                "table_stride",
                table_stride,
                u64::from(tokens) * u64::from(table_stride) < u64::from(u32::MAX),
                "such that the table has fewer than 2^32 - 1 ids",
            )?
            .grid(tokens, ("blocks along y", 1), THREADS)
    }
}

/// What [`check_page_table`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFaults {
    /// Ids that the pool does not have, over all launches.
    pub count: u32,
    /// Row and column of the first of them.
    pub first: Option<(u32, u32)>,
}

impl PageFaults {
    /// Words of the buffer `found`.
    pub const LEN: usize = 2;

    /// What the buffer holds before anything was found.
    pub const NONE: [u32; Self::LEN] = [0, u32::MAX];

    /// Reads the buffer of a table with rows of `table_stride` ids.
    pub fn read(found: [u32; Self::LEN], table_stride: u32) -> Self {
        let [count, first] = found;
        let split = || {
            Some((
                first.checked_div(table_stride)?,
                first.checked_rem(table_stride)?,
            ))
        };
        Self {
            count,
            first: (count > 0).then(split).flatten(),
        }
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<check_page_table>(
        |block, (page_table, lens, found, tokens, table_stride, tokens_per_page, pages)| {
            let [token, ..] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let reach = table_stride.saturating_mul(tokens_per_page);
            let len = blocks::length(block, lens, token as usize, reach)? as u32;
            let first = token * table_stride;
            let used = len.div_ceil(tokens_per_page) as usize;
            let ids = block.read::<i32>(page_table.at(first as usize), used)?;
            let is_bad = |id: &i32| u32::try_from(*id).map_or(true, |id| id >= pages);
            let count = ids.iter().filter(|id| is_bad(id)).count() as u32;
            let Some(column) = ids.iter().position(is_bad) else {
                return Ok(());
            };
            let before = block.read::<u32>(found.at(0), 2)?;
            let after = [
                before[0].wrapping_add(count),
                before[1].min(first + column as u32),
            ];
            block.write(found.at(0), &after)
        },
    )
}
