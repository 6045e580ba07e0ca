//! The sizes of the paged pools and of the state rings, the same for every layer.

use streamweir::kernels::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages, LayoutError};

use super::config::{HEAD_DIM, INDEX_DIM, IndexKeys};
use super::pages::Sequence;

/// Rows of a C4 ring, and values of a row for the latents and for the indexer.
pub(super) const C4_ROWS: u32 = 8;
pub(super) const C4_VALUES: u32 = 4 * HEAD_DIM;
pub(super) const INDEX_VALUES: u32 = 4 * INDEX_DIM;
/// Rows and values of a row of a C128 ring.
pub(super) const C128_ROWS: u32 = 128;
pub(super) const C128_VALUES: u32 = 2 * HEAD_DIM;

/// The geometries of all pools, the same for every layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) window: LatentFp8Pages,
    pub(super) c4: LatentFp8Pages,
    pub(super) c128: LatentFp8Pages,
    pub(super) keys: KeyPages,
    /// State rings, that of nobody included.
    pub(super) slots: u32,
    /// Pages of the pools of entries.
    pub(super) pages: u32,
}

/// The geometry of the index keys in either format.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyPages {
    Bf16(IndexKeyPages),
    Fp8(IndexKeyFp8Pages),
}

impl Geometry {
    pub(super) fn new(keys: IndexKeys, sequences: u32, pages: u32) -> Result<Self, LayoutError> {
        Ok(Self {
            window: LatentFp8Pages::window(Sequence::window_pages(sequences))?,
            c4: LatentFp8Pages::c4(pages)?,
            c128: LatentFp8Pages::c128(pages)?,
            keys: match keys {
                IndexKeys::Bf16 => KeyPages::Bf16(IndexKeyPages::bf16(INDEX_DIM, pages)?),
                IndexKeys::Fp8 => KeyPages::Fp8(IndexKeyFp8Pages::new(INDEX_DIM, pages)?),
            },
            slots: sequences + 1,
            pages,
        })
    }
}
