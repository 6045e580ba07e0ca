//! The indexer: which compressed entries a token attends to.

mod logits;
mod selection;
mod shares;
mod weights;

pub use logits::{indexer_logits, indexer_logits_fp8};
pub use selection::{MAX_K, top_k, top_k_fp8};
pub use weights::index_weights;

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![
        weights::sim(),
        logits::sim(),
        logits::sim_fp8(),
        selection::sim(),
        selection::sim_fp8(),
    ]
}
