//! What stands between the parts of a layer: projections, norms, the step to the
//! next layer, from tokens to rows and back, and a comparison of results.

mod differences;
mod norm;
mod projection;
mod residual;
mod tokens;

pub use differences::count_differences;
pub use norm::{MAX_NORM_WIDTH, rms_norm};
pub use projection::query_projection;
pub(super) use projection::{PROJECTION, projection_block, projection_shape};
pub use residual::mix;
pub use tokens::{argmax, embed};

use super::part::part;

part! {
    query_projection: "glue/query_projection.cu", projection::sim, PROJECTION;
    mix: "glue/mix.cu", residual::sim, residual::RESIDUAL;
    rms_norm: "glue/rms_norm.cu", norm::sim, norm::NORM;
    embed: "glue/tokens.cu", tokens::sim_embed, tokens::TOKENS;
    argmax: "glue/tokens.cu", tokens::sim_argmax, tokens::TOKENS;
    count_differences: "glue/count_differences.cu", differences::sim, differences::DIFFERENCES;
}
