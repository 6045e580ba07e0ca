//! The compressors: several tokens become one entry of a cache.
//!
//! Each sequence has a ring of its last rows of keys and scores, which the
//! compressor carries from step to step. A token's row goes into the ring; the
//! token that completes a group turns the group into one entry. Rows that do
//! not complete a group touch the ring alone.

mod compress;
mod ring;

pub use compress::{compress_c4, compress_c128, compress_index_key, compress_index_key_fp8};
pub use ring::StateRing;

use super::part::part;
use compress::COMPRESSOR;

part! {
    compress_c4: "compressor/compress.cu", compress_c4::sim, COMPRESSOR;
    compress_index_key: "compressor/compress.cu", compress_index_key::sim, COMPRESSOR;
    compress_index_key_fp8: "compressor/compress.cu", compress_index_key_fp8::sim, COMPRESSOR;
    compress_c128: "compressor/compress.cu", compress_c128::sim, COMPRESSOR;
}
