//! Attention over entries of the paged caches.

mod gather;

pub use gather::{MAX_LATENT_DIM, gather_attention};

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![gather::sim()]
}
