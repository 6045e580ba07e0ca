//! Queries between their projection and their use, and the rotation back of
//! what the attention gives.

mod heads;
mod indexer;

pub use heads::{HEAD_DIM, norm_rope_heads, rope_heads};
pub use indexer::{index_query, index_query_fp8};

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![
        heads::sim_norm_rope_heads(),
        heads::sim_rope_heads(),
        indexer::sim(),
        indexer::sim_fp8(),
    ]
}
