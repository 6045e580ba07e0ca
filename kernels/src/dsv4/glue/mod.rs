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

use super::part::{Line, line};

/// The kernels of this part.
pub(super) const KERNELS: &[Line] = &[
    line!("glue/query_projection.cu", projection::sim, PROJECTION),
    line!("glue/mix.cu", residual::sim, residual::RESIDUAL),
    line!("glue/rms_norm.cu", norm::sim, norm::NORM),
    line!("glue/tokens.cu", tokens::sim_embed, tokens::TOKENS),
    line!("glue/tokens.cu", tokens::sim_argmax, tokens::TOKENS),
    line!(
        "glue/count_differences.cu",
        differences::sim,
        differences::DIFFERENCES
    ),
];
