//! The pools of the model, each with a geometry type of its own.
//!
//! | pool | type | bytes of a token |
//! | --- | --- | --- |
//! | index keys, bf16 | [`IndexKeyPages`] | 256: 128 values, no scales |
//! | index keys, fp8 | [`IndexKeyFp8Pages`] | 132: 128 e4m3 values, one f32 scale |
//! | latents, bf16 | [`LatentPages`] | 1024: 512 values, no scales |
//! | latents, fp8 | [`LatentFp8Pages`] | 584: 448 e4m3 and 64 bf16 values, 7 UE8M0 scales and one byte of padding |
//!
//! The numbers of the fp8 pools are those of the public engines (sglang and
//! FlashMLA), whose caches these kernels must be able to share.

use bytemuck::{Pod, Zeroable};
use streamweir_sched::kernel::Scalar;

use super::{LayoutError, PageLayout};
use crate::constants::{Constants, Value};

/// The geometry of a pool, as a type of its own.
pub(crate) trait Pages: Copy {
    fn layout(&self) -> &PageLayout;

    /// Whether it is the geometry of such a pool.
    fn is_sound(&self) -> bool;
}

/// What every pool's geometry offers; `$fits` is what it has besides.
macro_rules! pool {
    ($(#[$doc:meta])* $name:ident, $fits:expr) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
        pub struct $name(PageLayout);

        impl $name {
            /// The geometry.
            pub const fn layout(&self) -> &PageLayout {
                &self.0
            }

            /// The slot of entry `entry` of a sequence whose pages are `table`.
            /// A page that the pool does not have, or that the table does not
            /// reach, is replaced by page 0, as every kernel does it.
            pub fn slot(&self, table: &[i32], entry: u32) -> i32 {
                self.0.slot_or_dummy(table, entry)
            }
        }

        impl Pages for $name {
            fn layout(&self) -> &PageLayout {
                &self.0
            }

            fn is_sound(&self) -> bool {
                let fits: fn(&PageLayout) -> bool = $fits;
                self.0.is_sound() && fits(&self.0)
            }
        }

        impl Scalar for $name {}
    };
}

/// What the geometries of contiguous bf16 values offer.
macro_rules! bf16_pool {
    ($name:ident) => {
        impl $name {
            /// Contiguous bf16 values of `dim` dimensions, no scales, 64 tokens
            /// to a page.
            ///
            /// # Errors
            /// As for [`PageLayout::new`].
            pub fn bf16(dim: u32, pages: u32) -> Result<Self, LayoutError> {
                let value_bytes = dim.checked_mul(2).ok_or(LayoutError::TooLarge {
                    tokens_per_page: 64,
                    token_bytes: 2 * u64::from(dim),
                })?;
                PageLayout::new(value_bytes, 0, 64, 1, pages).map(Self)
            }

            /// Dimensions of one token.
            pub const fn dim(&self) -> u32 {
                self.0.value_bytes / 2
            }

            /// Where the values of an entry begin, in elements from the start
            /// of the pool; for the entry's slot see [`slot`](Self::slot).
            pub fn element(&self, table: &[i32], entry: u32) -> usize {
                let bytes = self.0.value_offset(self.slot(table, entry)).unwrap_or(0);
                (bytes / 2) as usize
            }
        }
    };
}

pool! {
    /// The geometry of the index-key pool, bf16 (256 bytes per token at the
    /// model's 128 dimensions).
    IndexKeyPages,
    |layout| layout.value_bytes % 2 == 0 && layout.page_bytes % 2 == 0
}
pool! {
    /// The geometry of the pool of latents, bf16 (1024 bytes per token at 512
    /// dimensions).
    LatentPages,
    |layout| layout.value_bytes % 2 == 0 && layout.page_bytes % 2 == 0
}
pool! {
    /// The geometry of the index-key pool, fp8: e4m3 values, and apart from
    /// them one f32 scale per token (132 bytes per token at the model's 128
    /// dimensions).
    IndexKeyFp8Pages,
    |layout| layout.scale_bytes == 4 && layout.scale_offset % 4 == 0 && layout.page_bytes % 4 == 0
}
pool! {
    /// The geometry of a pool of latents, fp8: per token
    /// [`NOPE`](Self::NOPE) e4m3 values and [`ROPE`](Self::ROPE) bf16 values,
    /// and apart from them one UE8M0 scale for each [`GROUP`](Self::GROUP) e4m3
    /// values and one byte of padding. The pools of the sliding window, of C4
    /// and of C128 entries differ in the tokens of a page.
    LatentFp8Pages,
    |layout| {
        layout.value_bytes == LatentFp8Pages::VALUE_BYTES
            && layout.scale_bytes == LatentFp8Pages::SCALE_BYTES
            && layout.page_bytes % 16 == 0
    }
}

bf16_pool!(IndexKeyPages);
bf16_pool!(LatentPages);

impl IndexKeyFp8Pages {
    /// Keys of `dim` dimensions, 64 tokens to a page.
    ///
    /// # Errors
    /// As for [`PageLayout::new`].
    pub fn new(dim: u32, pages: u32) -> Result<Self, LayoutError> {
        PageLayout::new(dim, 4, 64, 4, pages).map(Self)
    }

    /// Dimensions of one token.
    pub const fn dim(&self) -> u32 {
        self.0.value_bytes
    }
}

impl LatentFp8Pages {
    /// Values of a token that are not rotated, stored as e4m3.
    pub const NOPE: u32 = 448;
    /// Values of a token that are rotated, stored as bf16.
    pub const ROPE: u32 = 64;
    /// Values that share a scale.
    pub const GROUP: u32 = 64;
    /// Dimensions of one token.
    pub const DIM: u32 = Self::NOPE + Self::ROPE;
    /// Value bytes of one token.
    const VALUE_BYTES: u32 = Self::NOPE + 2 * Self::ROPE;
    /// Scale bytes of one token: seven scales and a byte of padding.
    const SCALE_BYTES: u32 = Self::NOPE / Self::GROUP + 1;

    /// A pool whose pages hold `tokens_per_page` tokens, padded to a multiple
    /// of a token's value bytes as the public engines do it.
    ///
    /// # Errors
    /// As for [`PageLayout::new`].
    pub fn new(tokens_per_page: u32, pages: u32) -> Result<Self, LayoutError> {
        PageLayout::new(
            Self::VALUE_BYTES,
            Self::SCALE_BYTES,
            tokens_per_page,
            Self::VALUE_BYTES,
            pages,
        )
        .map(Self)
    }

    /// The pool of the sliding window: 128 tokens to a page.
    ///
    /// # Errors
    /// As for [`PageLayout::new`].
    pub fn window(pages: u32) -> Result<Self, LayoutError> {
        Self::new(128, pages)
    }

    /// The pool of C4 entries: 64 to a page, which is 256 tokens of the model.
    ///
    /// # Errors
    /// As for [`PageLayout::new`].
    pub fn c4(pages: u32) -> Result<Self, LayoutError> {
        Self::new(64, pages)
    }

    /// The pool of C128 entries: 2 to a page, which is 256 tokens of the model.
    ///
    /// # Errors
    /// As for [`PageLayout::new`].
    pub fn c128(pages: u32) -> Result<Self, LayoutError> {
        Self::new(2, pages)
    }
}

/// What the sources see of [`LatentFp8Pages`].
pub(crate) const LATENT_FP8: Constants = Constants {
    namespace: "latent_fp8",
    values: &[
        ("NOPE", Value::u32(LatentFp8Pages::NOPE)),
        ("ROPE", Value::u32(LatentFp8Pages::ROPE)),
        ("GROUP", Value::u32(LatentFp8Pages::GROUP)),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_pools_have_their_page_bytes() {
        let latent = |pages: Result<LatentFp8Pages, LayoutError>| {
            let pages = pages.unwrap();
            (pages.0.scale_offset(), pages.0.page_bytes())
        };
        assert_eq!(latent(LatentFp8Pages::c4(1)), (36_864, 37_440));
        assert_eq!(latent(LatentFp8Pages::window(1)), (73_728, 74_880));
        assert_eq!(latent(LatentFp8Pages::c128(1)), (1_152, 1_728));
        let keys = IndexKeyFp8Pages::new(128, 1).unwrap();
        assert_eq!((keys.0.scale_offset(), keys.0.page_bytes()), (8_192, 8_448));
        assert_eq!(keys.dim(), 128);
        let keys = IndexKeyPages::bf16(128, 1).unwrap();
        assert_eq!((keys.0.scale_bytes(), keys.0.page_bytes()), (0, 16_384));
        assert_eq!(keys.dim(), 128);
    }

    #[test]
    fn an_entry_without_a_page_is_in_page_0() {
        let keys = IndexKeyPages::bf16(8, 4).unwrap();
        assert_eq!(keys.slot(&[3, 9], 5), 3 * 64 + 5);
        assert_eq!(keys.slot(&[3, 9], 64 + 5), 5, "page outside the pool");
        assert_eq!(keys.slot(&[3], 64 + 7), 7, "past the table");
        assert_eq!(keys.element(&[3], 5), (3 * 64 + 5) * 8);
    }

    #[test]
    fn impossible_pools_are_refused() {
        assert!(IndexKeyPages::bf16(u32::MAX, 1).is_err());
        assert!(LatentFp8Pages::new(0, 1).is_err());
        assert!(LatentFp8Pages::c4(0).is_err());
        assert!(IndexKeyFp8Pages::new(0, 1).is_err());
    }
}
