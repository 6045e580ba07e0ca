//! What a block of a twin works on.

use std::ops::Range;

use streamweir_sched::driver::sim::{SimBlock, SimFault};
use streamweir_sched::kernel::Ptr;

/// The elements of `0..total` that block `block` owns at `each` per block.
pub(super) fn span(block: u32, each: u32, total: u32) -> Range<usize> {
    let start = block.saturating_mul(each).min(total);
    start as usize..start.saturating_add(each).min(total) as usize
}

/// The length of a token's sequence, clamped to `0..=max_entries`.
pub(super) fn length(
    block: &SimBlock<'_>,
    lens: Ptr<i32>,
    token: usize,
    max_entries: u32,
) -> Result<usize, SimFault> {
    let len = block.read::<i32>(lens.at(token), 1)?[0];
    Ok(u32::try_from(len).unwrap_or(0).min(max_entries) as usize)
}
