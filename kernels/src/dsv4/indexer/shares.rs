//! How a grid of blocks shares out the entries of all tokens.

use std::ops::Range;

use streamweir_sched::driver::LaunchShape;

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::layout::PageLayout;

shared! {
    pub(super) LOGITS = index_logits {
        /// Warps of a block.
        WARPS: u32 = 4;
        /// Entries of a tile, which one warp takes at a time.
        TILE: u32 = 32;
        /// The most dimensions of a key.
        MAX_DIM: u32 = 128;
    }
}

/// Two blocks, as many as have room, on each of the 132 multiprocessors of an
/// H100 or H200; with fewer or more of them the blocks still have the same work
/// each.
const BLOCKS: u32 = 264;

/// The launch of either kernel of logits.
pub(super) fn shape(
    dims: Dims,
    tokens: u32,
    heads: u32,
    table_stride: u32,
    max_entries: u32,
    layout: &PageLayout,
    dim: u32,
) -> Result<LaunchShape, DimensionError> {
    let tiles = u64::from(tokens) * u64::from(max_entries.div_ceil(TILE));
    let blocks = tiles.div_ceil(WARPS.into()).min(BLOCKS.into()) as u32;
    dims.check(
        "tokens",
        tokens,
        (1..=65_535).contains(&tokens),
        "from 1 to 65,535",
    )?
    .at_least_1("heads", heads)?
    .check("dim", dim, dim <= MAX_DIM, "at most 128")?
    .at_least_1("max_entries", max_entries)?
    .check(
        "tokens_per_page",
        layout.tokens_per_page(),
        layout.tokens_per_page().is_multiple_of(TILE),
        "a multiple of 32",
    )?
    .table(layout, table_stride, max_entries)?
    .grid(blocks, ("blocks along y", 1), 32 * WARPS)
}

/// The entries that a block of a grid writes, by token. The tiles that hold
/// entries are shared out evenly over all warps, and then the tiles that hold
/// none.
pub(super) fn shares(
    block: u32,
    blocks: u32,
    lens: &[usize],
    max_entries: usize,
) -> Vec<(usize, Range<usize>)> {
    let tile = TILE as usize;
    let all = max_entries.div_ceil(tile);
    let live: Vec<usize> = lens.iter().map(|len| len.div_ceil(tile)).collect();
    let dead: Vec<usize> = live.iter().map(|live| all - live).collect();
    let entries = |token: usize, tiles: Range<usize>| {
        (
            token,
            tiles.start * tile..(tiles.end * tile).min(max_entries),
        )
    };
    let mut shares = Vec::new();
    for (token, tiles) in even(block, blocks, &live) {
        shares.push(entries(token, tiles));
    }
    for (token, tiles) in even(block, blocks, &dead) {
        let skip = live[token];
        shares.push(entries(token, skip + tiles.start..skip + tiles.end));
    }
    shares
}

/// The tiles of a block when those of all tokens, `counts`, are shared out
/// evenly over the warps of all blocks.
fn even(block: u32, blocks: u32, counts: &[usize]) -> Vec<(usize, Range<usize>)> {
    let total: usize = counts.iter().sum();
    let (warps, warp) = ((blocks * WARPS) as usize, (block * WARPS) as usize);
    let start = |warp: usize| warp * (total / warps) + warp.min(total % warps);
    let (begin, end) = (start(warp), start(warp + WARPS as usize));
    let mut before = 0;
    let mut tiles = Vec::new();
    for (token, &count) in counts.iter().enumerate() {
        let here = begin.max(before)..end.min(before + count);
        if here.start < here.end {
            tiles.push((token, here.start - before..here.end - before));
        }
        before += count;
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_one_block_whatever_the_grid() {
        let lens = [0, 1, 31, 32, 33, 150, 149, 64];
        for max_entries in [150, 160, 161] {
            for blocks in [1, 2, 3, 7, 40] {
                let mut writers = vec![0; lens.len() * max_entries];
                for block in 0..blocks {
                    for (token, entries) in shares(block, blocks, &lens, max_entries) {
                        for entry in entries {
                            writers[token * max_entries + entry] += 1;
                        }
                    }
                }
                assert!(writers.iter().all(|&w| w == 1), "{max_entries} {blocks}");
            }
        }
    }

    #[test]
    fn one_long_row_is_shared_by_all_blocks() {
        let lens = [1, 16_384, 5];
        let most = (0..16)
            .map(|block| {
                even(block, 16, &lens.map(|len: usize| len.div_ceil(32)))
                    .iter()
                    .map(|(_, tiles)| tiles.len())
                    .sum::<usize>()
            })
            .max();
        // 514 tiles over 64 warps: two of them have nine.
        assert_eq!(most, Some(34));
    }
}
