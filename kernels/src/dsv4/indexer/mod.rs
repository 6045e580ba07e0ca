//! The indexer: which compressed entries a token attends to.

mod logits;
mod selection;
mod shares;
mod weights;

pub use logits::{indexer_logits, indexer_logits_fp8};
pub use selection::{MAX_K, top_k, top_k_fp8};
pub use weights::index_weights;

use super::glue::PROJECTION;
use super::part::part;
use selection::SELECTION;
use shares::LOGITS;

part! {
    index_weights: "indexer/index_weights.cu", weights::sim, PROJECTION;
    indexer_logits: "indexer/indexer_logits.cu", logits::sim, LOGITS;
    indexer_logits_fp8: "indexer/indexer_logits_fp8.cu", logits::sim_fp8, LOGITS;
    top_k: "indexer/top_k.cu", selection::sim, SELECTION;
    top_k_fp8: "indexer/top_k.cu", selection::sim_fp8, SELECTION;
}
