//! What stands between the parts of a layer: projections, the step to the next
//! layer, and kernels over plain words that tests use.

mod projection;
mod residual;
mod words;

pub use projection::query_projection;
pub(super) use projection::{projection_block, projection_shape};
pub use residual::mix;
pub use words::{add_one, fill_words};

use streamweir_sched::driver::sim::SimKernel;

/// The twins of this part.
pub(super) fn twins() -> Vec<SimKernel> {
    vec![
        projection::sim(),
        residual::sim(),
        words::sim_fill_words(),
        words::sim_add_one(),
    ]
}
