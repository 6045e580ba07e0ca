//! RMS norm of rows.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::extents::WORD;
use crate::reference;

kernel! {
    /// `out[t, i] = norm[i] · x[t, first + i] / rms`, `rms` being the root of
    /// the mean square of the row's `width` values plus `epsilon`.
    ///
    /// The rows of `x` are `stride` long, so that a part of a wider projection
    /// is normalised where it lies; `norm` is `[width]`, `out`
    /// `[tokens, width]`.
    ///
    /// # Safety
    /// A block reads its token's row, from `first` on as many values as `width` says, and
    /// writes as many.
    #[waits]
    pub unsafe fn rms_norm(
        x: In<bf16>,
        norm: In<f32>,
        out: Out<bf16>,
        tokens: u32,
        width: u32,
        stride: u32,
        first: u32,
        epsilon: f32,
    ) {
        x.holds([tokens, stride])?.aligned(WORD)?;
        norm.holds([width])?.aligned(WORD)?;
        out.holds([tokens, width])?.aligned(WORD)?;
        Ok(rms_norm::shape(tokens, width, stride, first)?)
    }
}

shared! {
    pub(super) NORM = rms {
        /// Threads of a block.
        THREADS: u32 = 256;
        /// The widest row.
        pub MAX_NORM_WIDTH: u32 = 8192;
    }
}

impl rms_norm {
    /// The launch for these sizes: a block for each token.
    ///
    /// # Errors
    /// When a size is zero, one of `width`, `stride` and `first` is no multiple
    /// of 8, `width` exceeds [`MAX_NORM_WIDTH`], or a row does not fit into the
    /// stride.
    pub fn shape(
        tokens: u32,
        width: u32,
        stride: u32,
        first: u32,
    ) -> Result<LaunchShape, DimensionError> {
        Dims::of("rms_norm")
            .at_least_1("tokens", tokens)?
            .row("width", width)?
            .check("width", width, width <= MAX_NORM_WIDTH, "at most 8,192")?
            .row("stride", stride)?
            .check(
                "first",
                first,
                first.is_multiple_of(8)
                    && first.checked_add(width).is_some_and(|last| last <= stride),
                "a multiple of 8 with a whole row after it in the stride",
            )?
            .grid(tokens, ("blocks along y", 1), THREADS)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<rms_norm>(
        |block, (x, norm, out, tokens, width, stride, first, epsilon)| {
            let [token, ..] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let (token, width) = (token as usize, width as usize);
            let row: Vec<f64> = block
                .read::<bf16>(x.at(token * stride as usize + first as usize), width)?
                .iter()
                .map(|value| value.to_f64())
                .collect();
            let norm = block.read(norm.address, width)?;
            let row: Vec<bf16> = reference::weighted_rms_norm(&row, norm, epsilon)
                .into_iter()
                .map(bf16::from_f64)
                .collect();
            block.write(out.at(token * width), &row)
        },
    )
}
