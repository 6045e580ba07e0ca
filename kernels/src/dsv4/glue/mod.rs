//! What stands between the parts of a layer: projections, norms, the step to the
//! next layer, from tokens to rows and back, and kernels over plain words that
//! tests use.

mod norm;
mod projection;
mod residual;
mod tokens;
mod words;

pub use norm::{MAX_NORM_WIDTH, rms_norm};
pub use projection::query_projection;
pub(super) use projection::{projection_block, projection_shape};
pub use residual::mix;
pub use tokens::{argmax, embed};
pub use words::{add_one, copy_late, count_differences, fill_words};

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![
        projection::sim(),
        residual::sim(),
        norm::sim(),
        tokens::sim_embed(),
        tokens::sim_argmax(),
        words::sim_fill_words(),
        words::sim_add_one(),
        words::sim_count_differences(),
        words::sim_copy_late(),
    ]
}
