//! The paged caches: what a token's keys and latents are before they are stored.

mod key_store;

pub use key_store::{MAX_KEY_DIM, index_key_store};

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![key_store::sim()]
}
