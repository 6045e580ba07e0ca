//! Where a token stands in a paged pool.
//!
//! The geometry of a pool is a value, never a constant in a kernel, and the
//! geometries of different pools are different types: a kernel that stores
//! index keys takes [`IndexKeyPages`] and cannot be handed [`LatentPages`], nor
//! the [`IndexKeyFp8Pages`] of keys that are stored in another format. A copy
//! that hard-codes one pool's geometry and is applied to another reads out
//! of bounds, which is how the report behind this library went wrong a second
//! time.
//!
//! A *slot* is a token's place in the pool: page `slot / tokens_per_page`,
//! token `slot % tokens_per_page` inside it. Slot 0, hence page 0, belongs to
//! nobody: rows that pad a batch point at it.

mod pools;

use crate::constants::{Constants, Value};
use bytemuck::{Pod, Zeroable};
use thiserror::Error;

pub use pools::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages, LatentPages};
pub(crate) use pools::{LATENT_FP8, Pages};

/// The geometry of one pool of pages: first the values of all tokens of a page,
/// then their scales, then padding.
///
/// It has the same layout in CUDA C++ (`cuda/pages.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PageLayout {
    value_bytes: u32,
    scale_bytes: u32,
    tokens_per_page: u32,
    scale_offset: u32,
    page_bytes: u32,
    pages: u32,
}

/// What the sources hold their own form against.
pub(crate) const PAGE_LAYOUT: Constants = Constants {
    namespace: "page_layout",
    values: &[("BYTES", Value::u32(size_of::<PageLayout>() as u32))],
};

/// A geometry that no pool can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A quantity that must not be zero is zero.
    #[error("a page layout needs {0} of at least 1; it is 0")]
    Zero(&'static str),
    /// A page has more bytes than 32 bits count.
    #[error(
        "a page of {tokens_per_page} tokens of {token_bytes} bytes exceeds 4 GiB; \
         use fewer tokens per page"
    )]
    TooLarge {
        /// Tokens of one page.
        tokens_per_page: u32,
        /// Value and scale bytes of one token.
        token_bytes: u64,
    },
}

impl PageLayout {
    /// A pool of `pages` pages of `tokens_per_page` tokens. A token has
    /// `value_bytes` bytes of values and, apart, `scale_bytes` bytes of scales;
    /// a page's bytes are rounded up to a multiple of `page_align`.
    ///
    /// ```
    /// use streamweir_kernels::layout::PageLayout;
    ///
    /// // The C4 latent: 576 value bytes and 8 scale bytes, pages padded to 576.
    /// let latent = PageLayout::new(576, 8, 64, 576, 100)?;
    /// assert_eq!((latent.scale_offset(), latent.page_bytes()), (36_864, 37_440));
    /// # Ok::<(), streamweir_kernels::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// When a quantity other than `scale_bytes` is zero, or a page would exceed
    /// 4 GiB.
    pub fn new(
        value_bytes: u32,
        scale_bytes: u32,
        tokens_per_page: u32,
        page_align: u32,
        pages: u32,
    ) -> Result<Self, LayoutError> {
        for (name, quantity) in [
            ("value bytes", value_bytes),
            ("tokens per page", tokens_per_page),
            ("page alignment", page_align),
            ("pages", pages),
        ] {
            if quantity == 0 {
                return Err(LayoutError::Zero(name));
            }
        }
        let token_bytes = u64::from(value_bytes) + u64::from(scale_bytes);
        let too_large = LayoutError::TooLarge {
            tokens_per_page,
            token_bytes,
        };
        let page_bytes = token_bytes
            .checked_mul(tokens_per_page.into())
            .and_then(|bytes| bytes.checked_next_multiple_of(page_align.into()))
            .and_then(|bytes| u32::try_from(bytes).ok())
            .ok_or(too_large)?;
        Ok(Self {
            value_bytes,
            scale_bytes,
            tokens_per_page,
            // At most `page_bytes`, which fits.
            scale_offset: value_bytes * tokens_per_page,
            page_bytes,
            pages,
        })
    }

    /// Whether the numbers are those of a pool: whatever bytes a layout was read from,
    /// every slot of such a one is in a page, and every page in the pool.
    pub(crate) fn is_sound(&self) -> bool {
        let token = u64::from(self.value_bytes) + u64::from(self.scale_bytes);
        let values = u64::from(self.value_bytes) * u64::from(self.tokens_per_page);
        let tokens = token.checked_mul(self.tokens_per_page.into());
        self.value_bytes > 0
            && self.tokens_per_page > 0
            && self.pages > 0
            && values == u64::from(self.scale_offset)
            && tokens.is_some_and(|bytes| bytes <= u64::from(self.page_bytes))
            && self.slots() <= i32::MAX as u64
    }

    /// Value bytes of one token.
    pub const fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// Scale bytes of one token.
    pub const fn scale_bytes(&self) -> u32 {
        self.scale_bytes
    }

    /// Tokens of one page.
    pub const fn tokens_per_page(&self) -> u32 {
        self.tokens_per_page
    }

    /// Where the scales begin in a page, in bytes.
    pub const fn scale_offset(&self) -> u32 {
        self.scale_offset
    }

    /// Bytes of one page.
    pub const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Pages of the pool.
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Bytes of the whole pool.
    pub const fn pool_bytes(&self) -> u64 {
        self.page_bytes as u64 * self.pages as u64
    }

    /// Tokens that the pool holds, slot 0 included.
    pub const fn slots(&self) -> u64 {
        self.tokens_per_page as u64 * self.pages as u64
    }

    /// Where the values of the token at `slot` begin, in bytes from the start of
    /// the pool; `None` when the pool has no such slot.
    pub const fn value_offset(&self, slot: i32) -> Option<u64> {
        if slot < 0 || slot as u64 >= self.slots() {
            return None;
        }
        let page = slot as u32 / self.tokens_per_page;
        let token = slot as u32 % self.tokens_per_page;
        Some(page as u64 * self.page_bytes as u64 + token as u64 * self.value_bytes as u64)
    }

    /// Where the scales of the token at `slot` begin, in bytes from the start of
    /// the pool; `None` when the pool has no such slot.
    pub const fn scale_position(&self, slot: i32) -> Option<u64> {
        if slot < 0 || slot as u64 >= self.slots() {
            return None;
        }
        let page = slot as u32 / self.tokens_per_page;
        let token = slot as u32 % self.tokens_per_page;
        Some(
            page as u64 * self.page_bytes as u64
                + self.scale_offset as u64
                + token as u64 * self.scale_bytes as u64,
        )
    }

    /// The slot of entry `entry` of a sequence whose pages are `table`. A page
    /// that the pool does not have, or that the table does not reach, is
    /// replaced by page 0, as every kernel does it.
    pub fn slot_or_dummy(&self, table: &[i32], entry: u32) -> i32 {
        self.slot(table, entry)
            .unwrap_or_else(|| entry.checked_rem(self.tokens_per_page).unwrap_or(0) as i32)
    }

    /// The slot of entry `entry` of a sequence whose pages are `table`, or
    /// `None` when the table ends before it or names a page that the pool does
    /// not have.
    pub fn slot(&self, table: &[i32], entry: u32) -> Option<i32> {
        let page = *table.get(entry.checked_div(self.tokens_per_page)? as usize)?;
        if page < 0 || page as u32 >= self.pages {
            return None;
        }
        i32::try_from(
            i64::from(page) * i64::from(self.tokens_per_page)
                + i64::from(entry % self.tokens_per_page),
        )
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_inside_the_pool() {
        let layout = PageLayout::new(10, 2, 4, 64, 3).unwrap();
        assert_eq!(layout.page_bytes(), 64);
        assert_eq!(layout.value_offset(0), Some(0));
        assert_eq!(layout.value_offset(5), Some(64 + 10));
        assert_eq!(layout.value_offset(11), Some(2 * 64 + 30));
        assert_eq!(layout.value_offset(12), None);
        assert_eq!(layout.value_offset(-1), None);
        assert_eq!(layout.scale_position(5), Some(64 + 40 + 2));
        assert_eq!(layout.scale_position(12), None);
        assert_eq!(layout.scale_position(-1), None);
    }

    #[test]
    fn entries_resolve_through_the_page_table() {
        let layout = PageLayout::new(2, 0, 4, 1, 8).unwrap();
        let table = [5, -1, 8, 7];
        assert_eq!(layout.slot(&table, 3), Some(23));
        assert_eq!(layout.slot(&table, 4), None, "no page");
        assert_eq!(layout.slot(&table, 8), None, "page outside the pool");
        assert_eq!(layout.slot(&table, 12), Some(28));
        assert_eq!(layout.slot(&table, 16), None, "past the table");
    }

    #[test]
    fn impossible_geometries_are_refused() {
        assert_eq!(
            PageLayout::new(2, 0, 0, 1, 1),
            Err(LayoutError::Zero("tokens per page"))
        );
        assert!(matches!(
            PageLayout::new(u32::MAX, 1, 2, 1, 1),
            Err(LayoutError::TooLarge { .. })
        ));
    }
}
