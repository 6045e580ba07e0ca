//! The indexer: which compressed entries a token attends to.

mod logits;
mod selection;
mod shares;
mod weights;

pub use logits::{indexer_logits, indexer_logits_fp8};
pub use selection::{MAX_K, top_k, top_k_fp8};
pub use weights::index_weights;

use super::glue::PROJECTION;
use super::part::{Line, line};
use selection::SELECTION;
use shares::LOGITS;

/// The kernels of this part.
pub(super) const KERNELS: &[Line] = &[
    line!("indexer/index_weights.cu", weights::sim, PROJECTION),
    line!("indexer/indexer_logits.cu", logits::sim, LOGITS),
    line!("indexer/indexer_logits_fp8.cu", logits::sim_fp8, LOGITS),
    line!("indexer/top_k.cu", selection::sim, SELECTION),
    line!("indexer/top_k.cu", selection::sim_fp8, SELECTION),
];
