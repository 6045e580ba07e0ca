//! Queries between their projection and their use, and the rotation back of
//! what the attention gives.

mod heads;
mod indexer;

pub use heads::{HEAD_DIM, norm_rope_heads, rope_heads};
pub use indexer::{index_query, index_query_fp8};

use super::part::{Line, line};
use heads::HEADS;
use indexer::QUERIES;

/// The kernels of this part.
pub(super) const KERNELS: &[Line] = &[
    line!("query/heads.cu", heads::sim_norm_rope_heads, HEADS),
    line!("query/heads.cu", heads::sim_rope_heads, HEADS),
    line!("query/index_query.cu", indexer::sim, QUERIES),
    line!("query/index_query.cu", indexer::sim_fp8, QUERIES),
];
