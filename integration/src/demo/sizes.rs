//! The sizes of the layers.

use std::fmt;

/// Which model the layers are cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// Small enough for the simulated device, in the model's proportions.
    Tiny,
    /// DeepSeek-V4 Flash at batch 8 with 16,384 compressed entries to a
    /// sequence.
    Flash,
}

/// The dimensions behind a [`Size`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Dims {
    pub(super) layers: usize,
    /// Tokens of the batch, one to a sequence.
    pub(super) tokens: u32,
    /// The hidden state.
    pub(super) width: u32,
    pub(super) heads: u32,
    /// One latent is key and value of all heads.
    pub(super) head_dim: u32,
    pub(super) index_heads: u32,
    pub(super) index_dim: u32,
    /// Compressed entries of each sequence.
    pub(super) entries: u32,
    /// Entries that the indexer selects.
    pub(super) top_k: u32,
}

impl Size {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Flash => "flash",
        }
    }

    pub(super) const fn dims(self) -> Dims {
        match self {
            Self::Tiny => Dims {
                layers: 3,
                tokens: 2,
                width: 64,
                heads: 8,
                head_dim: 64,
                index_heads: 4,
                index_dim: 16,
                entries: 256,
                top_k: 32,
            },
            Self::Flash => Dims {
                layers: 3,
                tokens: 8,
                width: 4096,
                heads: 64,
                head_dim: 512,
                index_heads: 64,
                index_dim: 128,
                entries: 16_384,
                top_k: 512,
            },
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Dims {
    /// Tokens of a page of either pool.
    pub(super) const PAGE: u32 = 64;

    /// Pages of one sequence.
    pub(super) const fn table_stride(&self) -> u32 {
        self.entries.div_ceil(Self::PAGE)
    }

    /// Pages of a pool: page 0 belongs to nobody.
    pub(super) const fn pages(&self) -> u32 {
        1 + self.tokens * self.table_stride()
    }

    /// Elements of all tokens' hidden states.
    pub(super) const fn hidden(&self) -> usize {
        self.tokens as usize * self.width as usize
    }

    /// Elements of one token's queries, and of its attention.
    pub(super) const fn query(&self) -> u32 {
        self.heads * self.head_dim
    }

    /// Elements of one token's index queries.
    pub(super) const fn index_query(&self) -> u32 {
        self.index_heads * self.index_dim
    }

    /// Indices that all tokens select in one layer.
    pub(super) const fn selected(&self) -> usize {
        self.tokens as usize * self.top_k as usize
    }
}
