//! The sizes of a model and of its caches.

/// Tokens of a page of either cache.
pub(crate) const PAGE: u32 = 64;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Layers.
    pub layers: usize,
    /// Tokens that the head chooses from.
    pub vocabulary: usize,
    /// Elements of a hidden state.
    pub width: u32,
    /// Heads of the attention.
    pub heads: u32,
    /// Elements of a head, and of a latent.
    pub head_dim: u32,
    /// Heads of the indexer.
    pub index_heads: u32,
    /// Elements of an index key.
    pub index_dim: u32,
    /// Compressed entries that a sequence has room for.
    pub entries: u32,
    /// Entries that the indexer selects.
    pub top_k: u32,
    /// Sequences that the caches have room for.
    pub sequences: u32,
}

impl Sizes {
    /// Small, in the proportions of DeepSeek-V4.
    pub const SMALL: Self = Self {
        layers: 3,
        vocabulary: 512,
        width: 64,
        heads: 8,
        head_dim: 64,
        index_heads: 4,
        index_dim: 16,
        entries: 256,
        top_k: 32,
        sequences: 8,
    };

    /// DeepSeek-V4 Flash with 16,384 compressed entries to a sequence, three
    /// layers of it.
    pub const FLASH: Self = Self {
        layers: 3,
        vocabulary: 4096,
        width: 4096,
        heads: 64,
        head_dim: 512,
        index_heads: 64,
        index_dim: 128,
        entries: 16_384,
        top_k: 512,
        sequences: 8,
    };

    pub(crate) const fn table_stride(&self) -> u32 {
        self.entries.div_ceil(PAGE)
    }

    /// Pages of a cache: page 0 belongs to nobody.
    pub(crate) const fn pages(&self) -> u32 {
        1 + self.sequences * self.table_stride()
    }

    pub(crate) const fn query(&self) -> u32 {
        self.heads * self.head_dim
    }

    pub(crate) const fn index_query(&self) -> u32 {
        self.index_heads * self.index_dim
    }
}
