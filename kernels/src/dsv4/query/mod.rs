//! Queries between their projection and their use, and the rotation back of
//! what the attention gives.

mod heads;
mod indexer;

pub use heads::{HEAD_DIM, norm_rope_heads, rope_heads};
pub use indexer::{index_query, index_query_fp8};

use super::part::part;
use heads::HEADS;
use indexer::QUERIES;

part! {
    norm_rope_heads: "query/heads.cu", heads::sim_norm_rope_heads, HEADS;
    rope_heads: "query/heads.cu", heads::sim_rope_heads, HEADS;
    index_query: "query/index_query.cu", indexer::sim, QUERIES;
    index_query_fp8: "query/index_query.cu", indexer::sim_fp8, QUERIES;
}
