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

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![
        gather::sim(),
        sparse::sim(),
        paged::sim(),
        combine::sim(),
        check::sim(),
    ]
}
