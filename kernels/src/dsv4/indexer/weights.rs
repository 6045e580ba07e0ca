//! The weight of each index head.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::dims::{DimensionError, Dims};
use crate::dsv4::extents::WORD;
use crate::dsv4::glue::{projection_block, projection_shape};

kernel! {
    /// `weights[t, h] = scale · (x[t, ..] · weight[h, ..])` in f32.
    ///
    /// `x` is `[tokens, width]`, `weight` `[heads, width]`, `weights`
    /// `[tokens, heads]`. The model's scale is
    /// [`index_weights::scale`]`(dim, heads)`.
    ///
    /// # Safety
    /// A block reads its rows of `x` and of `weight`, and a warp writes its own results.
    pub unsafe fn index_weights(
        x: In<bf16>,
        weight: In<bf16>,
        weights: Out<f32>,
        tokens: u32,
        width: u32,
        heads: u32,
        scale: f32,
    ) {
        x.holds([tokens, width])?.aligned(WORD)?;
        weight.holds([heads, width])?.aligned(WORD)?;
        weights.holds([tokens, heads])?;
        Ok(index_weights::shape(tokens, width, heads)?)
    }
}

impl index_weights {
    /// The model's scale: `dim^-0.5 · heads^-0.5`.
    pub fn scale(dim: u32, heads: u32) -> f32 {
        (1.0 / (f64::from(dim).sqrt() * f64::from(heads).sqrt())) as f32
    }

    /// The launch for these sizes.
    ///
    /// # Errors
    /// When a size is zero or `width` is no multiple of 8.
    pub fn shape(tokens: u32, width: u32, heads: u32) -> Result<LaunchShape, DimensionError> {
        projection_shape(Dims::of("index_weights"), tokens, width, heads)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<index_weights>(|block, (x, weight, weights, tokens, width, heads, scale)| {
        for part in projection_block(block, x, weight, tokens, width, heads)? {
            let values: Vec<f32> = part
                .values
                .iter()
                .map(|v| (v * f64::from(scale)) as f32)
                .collect();
            block.write(weights.at(part.first), &values)?;
        }
        Ok(())
    })
}
