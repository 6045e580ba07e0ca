//! Attention over entries of the paged caches.
//!
//! [`gather_attention`] reads bf16 latents of any dimension and finishes in one
//! kernel. The attention of the model reads fp8 latents, by list or by page
//! table, in [splits](AttentionSplits) that [`combine_attention`] puts together.

mod check;
mod combine;
mod gather;
mod paged;
mod sparse;
mod splits;

pub use check::{PageFaults, check_page_table};
pub use combine::combine_attention;
pub use gather::{MAX_LATENT_DIM, gather_attention};
pub use paged::paged_attention;
pub use sparse::sparse_attention;
pub use splits::AttentionSplits;

use super::part::part;
use splits::SPARSE;
use splits::hopper::HOPPER;

part! {
    gather_attention: "attention/gather_attention.cu", gather::sim, gather::GATHER;
    sparse_attention: "attention/sparse_attention.cu", sparse::sim, SPARSE, HOPPER;
    paged_attention: "attention/paged_attention.cu", paged::sim, SPARSE, HOPPER;
    combine_attention: "attention/combine_attention.cu", combine::sim, combine::COMBINE;
    check_page_table: "attention/check_page_table.cu", check::sim, check::CHECK;
}
