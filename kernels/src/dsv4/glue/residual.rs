//! The step from one layer to the next.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::reference;

kernel! {
    /// `next[t, i] = x[t, i] + mean of attention[t, j] over j ≡ i (mod width)`.
    ///
    /// It stands for all that follows the attention in a layer. Each value of
    /// the attention takes part, so a wrong selection travels on to the next
    /// layer. `x` and `next` are `[tokens, width]`, `attention` is
    /// `[tokens, values]`.
    ///
    /// # Safety
    /// A thread reads its token's row of `attention` and its own element of `x`, and writes
    /// its own element of `next`.
    #[waits]
    pub unsafe fn mix(
        x: In<bf16>,
        attention: In<bf16>,
        next: Out<bf16>,
        tokens: u32,
        width: u32,
        values: u32,
    ) {
        x.holds([tokens, width])?;
        attention.holds([tokens, values])?;
        next.holds([tokens, width])?;
        Ok(mix::shape(tokens, width, values)?)
    }
}

shared! {
    pub(super) RESIDUAL = residual {
        /// Threads of a block.
        THREADS: u32 = 256;
    }
}

impl mix {
    /// The launch for these sizes: a thread for each element of `next`.
    ///
    /// # Errors
    /// When a size is zero.
    pub fn shape(tokens: u32, width: u32, values: u32) -> Result<LaunchShape, DimensionError> {
        Dims::of("mix")
            .at_least_1("width", width)?
            .at_least_1("values", values)?
            .grid(width.div_ceil(THREADS), ("tokens", tokens), THREADS)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<mix>(|block, (x, attention, next, tokens, width, values)| {
        let [column_block, token, _] = block.index();
        if token >= tokens {
            return Ok(());
        }
        let here = blocks::span(column_block, THREADS, width);
        let (token, width) = (token as usize, width as usize);
        let attention = block.read(attention.at(token * values as usize), values as usize)?;
        let first = token * width + here.start;
        let mixed: Vec<bf16> = block
            .read(x.at(first), here.len())?
            .iter()
            .zip(here)
            .map(|(&x, column)| reference::mix_element(x, attention, column, width))
            .map(bf16::from_f64)
            .collect();
        block.write(next.at(first), &mixed)
    })
}
