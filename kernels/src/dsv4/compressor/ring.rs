//! The state that a compressor carries.

use crate::dsv4::cache::INDEX_DIM;
use streamweir_sched::kernel::{Extent, Refusal};

use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;
use crate::reference;

/// The ring of one sequence: `rows` rows of `width` f32. The row of the token at
/// position `p` is row `p % rows`.
///
/// A compressor's state is one buffer of [`floats`](Self::floats) elements, a
/// ring for each state slot; slot 0 belongs to nobody, rows that pad a batch
/// point at it. What a ring holds before a sequence's first token does not
/// matter: the first group takes nothing from before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRing {
    /// Rows.
    pub rows: u32,
    /// Elements of a row: keys, then scores.
    pub width: u32,
    /// Tokens that make an entry.
    pub ratio: u32,
    /// Channels of an entry.
    pub channels: u32,
}

impl StateRing {
    /// Latents of four tokens, with overlap: keys and scores have 512 channels
    /// for the next group and 512 for their own.
    pub const C4: Self = Self::new(reference::C4, LatentFp8Pages::DIM, 2);
    /// Index keys of four tokens, with overlap.
    pub const INDEX: Self = Self::new(reference::C4, INDEX_DIM, 2);
    /// Latents of 128 tokens.
    pub const C128: Self = Self::new(reference::C128, LatentFp8Pages::DIM, 1);

    const fn new(ratio: u32, channels: u32, parts: u32) -> Self {
        Self {
            rows: ratio * parts,
            width: 2 * parts * channels,
            ratio,
            channels,
        }
    }

    /// Elements of one ring.
    pub const fn ring_floats(&self) -> u32 {
        self.rows * self.width
    }

    /// Elements of the state of `slots` slots, slot 0 included.
    pub const fn floats(&self, slots: u32) -> u64 {
        self.ring_floats() as u64 * slots as u64
    }

    /// The rows of a batch, the biases and the rings, for a kernel.
    pub(super) fn held(
        &self,
        tokens: u32,
        slots: u32,
        rows: Extent,
        ape: Extent,
        rings: Extent,
    ) -> Result<(), Refusal> {
        rows.holds([tokens, self.width])?.aligned(WORD)?;
        ape.holds([self.ape_floats()])?.aligned(WORD)?;
        rings.holds([slots, self.ring_floats()])?.aligned(WORD)?;
        Ok(())
    }

    /// Elements of the biases, `[ratio, width / 2]`.
    pub const fn ape_floats(&self) -> u32 {
        self.ratio * self.width / 2
    }
}
