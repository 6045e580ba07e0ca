//! Free chunks by size: exact best fit in a few instructions.
//!
//! Sizes are counted in units of the alignment. Up to 32 units every size has a
//! bin of its own, above there are 16 bins per power of two. A bit set says which
//! bins hold anything, so that the next larger one is found without a walk.
//! All sizes in one bin are below all sizes in the next, so the least fit of the
//! first bin that has one is the best fit of all.

use crate::ALIGNMENT;

const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Powers of two from the first with steps (2^4 units) to the last that a
/// 64-bit length reaches (2^55 units).
const OCTAVES: usize = 52;
const BINS: usize = STEPS + OCTAVES * STEPS;
const WORDS: usize = BINS.div_ceil(64);

/// "No chunk", as a link or a head.
pub(super) const NONE: u32 = u32::MAX;

/// The heads of the bins.
#[derive(Debug)]
pub(super) struct Bins {
    heads: Box<[u32]>,
    occupied: [u64; WORDS],
}

/// The bin that chunks of `bytes` bytes are kept in.
#[inline]
pub(super) fn bin_of(bytes: u64) -> usize {
    let units = bytes / ALIGNMENT;
    if units < STEPS as u64 {
        return units as usize;
    }
    let octave = units.ilog2();
    let step = (units >> (octave - STEP_BITS)) as usize & (STEPS - 1);
    STEPS + (octave - STEP_BITS) as usize * STEPS + step
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            heads: vec![NONE; BINS].into_boxed_slice(),
            occupied: [0; WORDS],
        }
    }
}

impl Bins {
    #[inline]
    pub(super) fn head(&self, bin: usize) -> u32 {
        self.heads[bin]
    }

    #[inline]
    pub(super) fn set_head(&mut self, bin: usize, chunk: u32) {
        self.heads[bin] = chunk;
        let bit = 1 << (bin % 64);
        if chunk == NONE {
            self.occupied[bin / 64] &= !bit;
        } else {
            self.occupied[bin / 64] |= bit;
        }
    }

    /// The first bin at or above `bin` that holds a chunk.
    #[inline]
    pub(super) fn occupied_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_the_order_of_sizes() {
        let sizes = (0..64u32).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + power / 3]
        });
        let mut sizes: Vec<u64> = sizes.chain([u64::MAX]).collect();
        sizes.sort_unstable();
        assert!(sizes.windows(2).all(|w| bin_of(w[0]) <= bin_of(w[1])));
        assert!(sizes.iter().all(|&size| bin_of(size) < BINS));
        // Small sizes are told apart exactly.
        assert!((1..32).all(|n| bin_of(n * ALIGNMENT) != bin_of((n + 1) * ALIGNMENT)));
    }

    #[test]
    fn the_next_occupied_bin_is_found_across_words() {
        let mut bins = Bins::default();
        assert_eq!(bins.occupied_from(0), None);
        bins.set_head(3, 7);
        bins.set_head(700, 8);
        assert_eq!(bins.occupied_from(0), Some(3));
        assert_eq!(bins.occupied_from(3), Some(3));
        assert_eq!(bins.occupied_from(4), Some(700));
        bins.set_head(700, NONE);
        assert_eq!(bins.occupied_from(4), None);
        assert_eq!(bins.occupied_from(BINS), None);
    }
}
