//! How the entries of a token are split over blocks, and what a block leaves.
//!
//! A decode batch has few tokens and a card has many multiprocessors, so the
//! entries of a token are split. Each block of [`sparse_attention`] and
//! [`paged_attention`] attends with 64 heads to one split and leaves the unfinished
//! sums; [`combine_attention`] puts the splits of a head together in their order. No block waits for another, and the result depends on the number
//! of splits, never on which block comes first.
//!
//! The sums are what most bytes of a batch of some size go for. They are f16,
//! relative to a power of two, their unit, which half of the dimensions of a head
//! share: each is rounded by at most 2^-12 of itself, or of the largest by 2^-39.
//! The weights of the entries are rounded by up to 2^-9 before, to bf16, and the
//! result afterwards.
//!
//! A split is a share of the entries that a token has, not of the most that it
//! may have: the number of splits is fixed when the launch is recorded, what each
//! of them takes is computed from the length in device memory.
//!
//! [`sparse_attention`]: super::sparse_attention
//! [`paged_attention`]: super::paged_attention
//! [`combine_attention`]: super::combine_attention

use half::{bf16, f16};
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault};
use streamweir_sched::kernel::{Extent, Ptr, Refusal};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;
use crate::reference::{self, AttentionPart};

shared! {
    pub(super) SPARSE = sparse {
        /// Heads that one block owns.
        HEADS: u32 = 64;
        /// Threads of a block.
        THREADS: u32 = 256;
        /// Entries of one step of a block: a split is a multiple of it.
        STEP: u32 = 16;
        /// Shared memory of a block in bytes.
        SHARED_BYTES: u32 = 79_168;
    }
}

/// The form of the kernels that Hopper has for itself.
pub(super) mod hopper {
    use crate::constants::shared;

    /// The compute capability.
    pub(super) const CAPABILITY: (u32, u32) = (9, 0);

    shared! {
        pub(in crate::dsv4::attention) HOPPER = hopper {
            /// Threads of a block.
            pub(super) THREADS: u32 = 512;
            /// Shared memory of a block in bytes.
            pub(super) SHARED_BYTES: u32 = 204_896;
        }
    }
}

/// Entries that make a split worth its block.
const WORTH: u32 = 32;
/// Sums of a block.
const SUMS: usize = (HEADS * LatentFp8Pages::DIM) as usize;

/// Floats that a block leaves of a head beside its sums: its largest score, the
/// sum of its weights, and the units of the lower and of the upper dimensions.
const STATS: usize = 4;

/// The splits of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSplits {
    tokens: u32,
    heads: u32,
    splits: u32,
}

impl AttentionSplits {
    /// The most splits of a token.
    pub const MAX: u32 = 128;

    /// `splits` splits for each of `tokens` tokens of `heads` heads.
    pub const fn new(tokens: u32, heads: u32, splits: u32) -> Self {
        Self {
            tokens,
            heads,
            splits,
        }
    }

    /// As many splits as make a block for each of the device's
    /// `multiprocessors`, when a token has up to `max_entries` entries, those of
    /// its window included; fewer when a split would hold next to nothing.
    ///
    /// ```
    /// use streamweir_kernels::dsv4::AttentionSplits;
    ///
    /// let splits = |tokens| AttentionSplits::for_device(tokens, 64, 128 + 512, 132).splits();
    /// assert_eq!([1, 8, 32, 64, 200].map(splits), [20, 16, 4, 2, 1]);
    /// ```
    pub fn for_device(tokens: u32, heads: u32, max_entries: u32, multiprocessors: u32) -> Self {
        let blocks = tokens.saturating_mul(heads.div_ceil(HEADS)).max(1);
        let useful = max_entries.div_ceil(WORTH).clamp(1, Self::MAX);
        Self::new(tokens, heads, (multiprocessors / blocks).clamp(1, useful))
    }

    /// Splits of a token.
    pub const fn splits(&self) -> u32 {
        self.splits
    }

    /// Elements of the buffer that takes the sums.
    pub const fn partial_len(&self) -> usize {
        self.tokens as usize * self.splits as usize * self.head_blocks() as usize * SUMS
    }

    /// Elements of the buffer that takes the largest scores, the sums of the
    /// weights and the units.
    pub const fn stats_len(&self) -> usize {
        STATS * self.tokens as usize * self.splits as usize * self.heads as usize
    }

    pub(super) const fn tokens(&self) -> u32 {
        self.tokens
    }

    pub(super) const fn heads(&self) -> u32 {
        self.heads
    }

    const fn head_blocks(&self) -> u32 {
        self.heads.div_ceil(HEADS)
    }

    /// Checks the numbers.
    pub(super) fn checked(&self, dims: Dims) -> Result<Dims, DimensionError> {
        dims.at_least_1("tokens", self.tokens)?
            .at_least_1("heads", self.heads)?
            .check(
                "splits",
                self.splits,
                (1..=Self::MAX).contains(&self.splits),
                "from 1 to 128",
            )
    }

    /// The buffers for what blocks leave.
    pub(super) fn held(&self, partial: Extent, stats: Extent) -> Result<(), Refusal> {
        let (tokens, splits) = (self.tokens, self.splits);
        partial
            .holds([tokens, splits, self.head_blocks(), SUMS as u32])?
            .aligned(WORD)?;
        stats
            .holds([tokens, splits, self.heads, STATS as u32])?
            .aligned(WORD)?;
        Ok(())
    }

    /// Refuses more entries than a thread counts.
    pub(super) fn covers(&self, dims: Dims, window: u32, others: u32) -> Result<(), Refusal> {
        let entries = window.saturating_add(others);
        dims.check(
            "the number of entries",
            entries,
            entries <= i32::MAX as u32,
            "at most 2,147,483,647",
        )?;
        Ok(())
    }

    /// A block for each split and 64 heads of a token.
    pub(super) fn shape(
        &self,
        dims: Dims,
        capability: (u32, u32),
    ) -> Result<LaunchShape, DimensionError> {
        let (threads, shared) = match capability {
            hopper::CAPABILITY => (hopper::THREADS, hopper::SHARED_BYTES),
            _ => (THREADS, SHARED_BYTES),
        };
        let heads = ("heads / 64", self.head_blocks());
        let grid = self.checked(dims)?.grid(self.splits, heads, threads)?;
        // Tokens go along z, which has the same bound as y.
        dims.grid(1, ("tokens", self.tokens), threads)?;
        Ok(LaunchShape {
            grid: [self.splits, self.head_blocks(), self.tokens],
            ..grid.shared(shared)
        })
    }

    /// Where the sums of a head of a split begin to be, and the largest score of
    /// it.
    const fn place(&self, token: u32, split: u32, head: u32) -> (usize, usize) {
        let part = token as usize * self.splits as usize + split as usize;
        (
            (part * self.head_blocks() as usize + (head / HEADS) as usize) * SUMS,
            STATS * (part * self.heads as usize + head as usize),
        )
    }
}

/// Dimensions that a word of eight sums has.
const EIGHT: usize = 8;

/// Where among the sums of a block the eight of a head from dimension `dim` on are
/// (`sparse::sums_of`): in the order in which the threads of the block hold them.
fn place_of_sums(head: u32, dim: u32) -> usize {
    let (head, warp) = (head % HEADS, dim / 64);
    let (pair, half) = (dim / 16 % 4, dim / 8 % 2);
    let word = (head / 8 * 2 + half) * THREADS + warp * 32 + head % 8 * 4 + pair;
    EIGHT * word as usize
}

/// The unit of sums (`sparse::scale_for`): the power of two by which the largest of
/// them is 2^14 or somewhat more.
fn unit_of(sums: &[f64]) -> f32 {
    let largest = sums.iter().fold(0.0, |most: f64, sum| most.max(sum.abs())) as f32;
    let scale = (127 + 14 + 127 - (largest.to_bits() >> 23)).min(253);
    f32::from_bits((254 - scale) << 23)
}

/// The buffers that hold what blocks leave.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) splits: AttentionSplits,
    pub(super) partial: Ptr<f16>,
    pub(super) stats: Ptr<f32>,
}

impl Left {
    /// What one block does: its heads attend to its split of `entries` entries,
    /// which `entry` reads; `None` for one that takes no part.
    pub(super) fn attend(
        &self,
        block: &mut SimBlock<'_>,
        q: Ptr<bf16>,
        scale: f32,
        entries: u32,
        mut entry: impl FnMut(&SimBlock<'_>, u32) -> Result<Option<Vec<f64>>, SimFault>,
    ) -> Result<(), SimFault> {
        let [split, head_block, token] = block.index();
        let each = entries.div_ceil(self.splits.splits * STEP) * STEP;
        let mut latents = Vec::new();
        for at in blocks::span(split, each, entries) {
            latents.extend(entry(block, at as u32)?);
        }
        let rows: Vec<&[f64]> = latents.iter().map(Vec::as_slice).collect();
        let dim = LatentFp8Pages::DIM;
        for head in blocks::span(head_block, HEADS, self.splits.heads) {
            let row = token as usize * self.splits.heads as usize + head;
            let query = block.read(q.at(row * dim as usize), dim as usize)?;
            let part = reference::attend_part(query, &rows, scale);
            let (sums, stats) = self.splits.place(token, split, head as u32);
            let half = part.rows.len() / 2;
            let units = [unit_of(&part.rows[..half]), unit_of(&part.rows[half..])];
            block.write(
                self.stats.at(stats),
                &[part.largest as f32, part.sum as f32, units[0], units[1]],
            )?;
            if rows.is_empty() {
                continue;
            }
            for (i, eight) in part.rows.chunks_exact(EIGHT).enumerate() {
                let unit = f64::from(units[i * EIGHT / half]);
                let eight: Vec<f16> = eight.iter().map(|sum| f16::from_f64(sum / unit)).collect();
                let place = place_of_sums(head as u32, (i * EIGHT) as u32);
                block.write(self.partial.at(sums + place), &eight)?;
            }
        }
        Ok(())
    }

    /// What the splits of a head have left.
    pub(super) fn parts(
        &self,
        block: &SimBlock<'_>,
        token: u32,
        head: u32,
    ) -> Result<Vec<AttentionPart>, SimFault> {
        let dim = LatentFp8Pages::DIM;
        (0..self.splits.splits)
            .map(|split| {
                let (sums, stats) = self.splits.place(token, split, head);
                let of_split = block.read::<f32>(self.stats.at(stats), STATS)?.to_vec();
                let mut part = AttentionPart {
                    largest: of_split[0].into(),
                    sum: of_split[1].into(),
                    rows: vec![0.0; dim as usize],
                };
                // A split without entries has left no sums.
                if part.largest != f64::NEG_INFINITY {
                    let half = dim as usize / 2;
                    for (i, row) in part.rows.chunks_exact_mut(EIGHT).enumerate() {
                        let place = place_of_sums(head, (i * EIGHT) as u32);
                        let eight = block.read::<f16>(self.partial.at(sums + place), EIGHT)?;
                        let unit = f64::from(of_split[2 + i * EIGHT / half]);
                        for (row, sum) in row.iter_mut().zip(eight) {
                            *row = sum.to_f64() * unit;
                        }
                    }
                }
                Ok(part)
            })
            .collect()
    }
}

/// The latent at `slot` of a pool that has it.
pub(super) fn latent(
    block: &SimBlock<'_>,
    pool: Ptr<u8>,
    layout: &LatentFp8Pages,
    slot: i32,
) -> Result<Option<Vec<f64>>, SimFault> {
    let layout = layout.layout();
    let (Some(values), Some(scales)) = (layout.value_offset(slot), layout.scale_position(slot))
    else {
        return Ok(None);
    };
    Ok(Some(reference::latent(
        block.read(pool.at(values as usize), layout.value_bytes() as usize)?,
        block.read(pool.at(scales as usize), layout.scale_bytes() as usize)?,
    )))
}

/// The entries of one token that are listed by slot, and how many of the slots
/// are beyond the pool.
pub(super) struct Listed {
    pub(super) pool: Ptr<u8>,
    pub(super) slots: Ptr<i32>,
    pub(super) layout: LatentFp8Pages,
}

impl Listed {
    /// Entry `at` of the list; adds one to `bad` when no pool has it.
    pub(super) fn read(
        &self,
        block: &SimBlock<'_>,
        at: usize,
        bad: &mut u32,
    ) -> Result<Option<Vec<f64>>, SimFault> {
        let slot = block.read(self.slots.at(at), 1)?[0];
        let found = latent(block, self.pool, &self.layout, slot)?;
        *bad += u32::from(found.is_none() && slot >= 0);
        Ok(found)
    }
}

/// Adds what a block counted to the counter; the first block of heads does it
/// for all.
pub(super) fn count_faults(
    block: &mut SimBlock<'_>,
    faults: Ptr<u32>,
    bad: u32,
) -> Result<(), SimFault> {
    if bad == 0 || block.index()[1] != 0 {
        return Ok(());
    }
    let before = block.read::<u32>(faults.at(0), 1)?[0];
    block.write(faults.at(0), &[before.wrapping_add(bad)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_eight_sums_have_a_place_of_their_own() {
        let places: BTreeSet<usize> = (0..HEADS)
            .flat_map(|head| (0..LatentFp8Pages::DIM).map(move |dim| place_of_sums(head, dim)))
            .collect();
        assert_eq!(places.len() * EIGHT, SUMS);
        assert_eq!(places.last(), Some(&(SUMS - EIGHT)));
        // Eight dimensions are one word.
        assert!((0..HEADS).all(|head| place_of_sums(head, 7) == place_of_sums(head, 0)));
    }

    #[test]
    fn units_make_the_most_of_f16() {
        for (largest, scaled) in [(1.0, 16_384.0), (1.5, 24_576.0), (448.0, 28_672.0)] {
            let unit = unit_of(&[0.0, -largest, largest / 3.0]);
            assert_eq!(largest / f64::from(unit), scaled);
        }
        // The extremes stay powers of two, and what is infinite stays so.
        assert_eq!(unit_of(&[0.0; 4]), f32::MIN_POSITIVE);
        assert_eq!(f64::from(unit_of(&[f64::MAX])), 114_f64.exp2());
        let unit = f64::from(unit_of(&[1e-45, 0.0]));
        assert!(f16::from_f64(1e-45 / unit).is_finite());
    }

    #[test]
    fn blocks_leave_their_sums_side_by_side() {
        let splits = AttentionSplits::new(2, 65, 3);
        assert_eq!(splits.partial_len(), 2 * 3 * 2 * 64 * 512);
        assert_eq!(splits.stats_len(), 4 * 2 * 3 * 65);
        let last = splits.place(1, 2, 64);
        assert_eq!(last.0 + SUMS, splits.partial_len());
        assert_eq!(last.1 + 4, splits.stats_len());
    }
}
