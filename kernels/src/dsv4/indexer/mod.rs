//! The indexer: which compressed entries a token attends to.

mod logits;
mod selection;
mod weights;

pub use logits::indexer_logits;
pub use selection::{MAX_K, top_k};
pub use weights::index_weights;

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![weights::sim(), logits::sim(), selection::sim()]
}
