//! Norm and rotation of heads, in place.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, InOut, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::cache::{angles_at, check_rope};
use crate::dsv4::extents::WORD;
use crate::reference;
use crate::rope::ROPE_DIM;

kernel! {
    /// RMS norm of each head and rotation of its last 64 dimensions at
    /// `positions[t]`, in place. `q` is `[tokens, heads, 512]`.
    ///
    /// The norm has no weight, as in the model's public definition. `rope` is a
    /// table of [`Rope`](crate::rope::Rope) with `rope_rows` positions. A
    /// position outside it rotates by the nearest that it has and is counted in
    /// `faults`, one `u32`, once for the token.
    ///
    /// # Safety
    /// A warp touches its own head; a position outside the table reads the nearest row that
    /// it has.
    #[waits]
    pub unsafe fn norm_rope_heads(
        q: InOut<bf16>,
        rope: In<f32>,
        positions: In<i32>,
        faults: Atomic<u32>,
        tokens: u32,
        heads: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        q.holds([tokens, heads, HEAD_DIM])?.aligned(WORD)?;
        rope.holds([rope_rows, ROPE_DIM])?.aligned(WORD)?;
        positions.holds([tokens])?;
        faults.holds([1_u32])?;
        Ok(norm_rope_heads::shape(tokens, heads, rope_rows)?)
    }

    /// Rotation of the last 64 of `dim` dimensions of each head at
    /// `positions[t]`, in place; back when `inverse` is not 0. `x` is
    /// `[tokens, heads, dim]`; with a `dim` of 64 all of a head is rotated.
    ///
    /// The rotation back undoes in the attention's output what was done to the
    /// latents, which are its values as well as its keys. Positions as for
    /// [`norm_rope_heads`].
    ///
    /// # Safety
    /// A thread touches eight values of its own head; a position outside the table reads the
    /// nearest row that it has.
    #[waits]
    pub unsafe fn rope_heads(
        x: InOut<bf16>,
        rope: In<f32>,
        positions: In<i32>,
        faults: Atomic<u32>,
        tokens: u32,
        heads: u32,
        dim: u32,
        rope_rows: u32,
        inverse: u32,
    ) {
        x.holds([tokens, heads, dim])?.aligned(WORD)?;
        rope.holds([rope_rows, ROPE_DIM])?.aligned(WORD)?;
        positions.holds([tokens])?;
        faults.holds([1_u32])?;
        Ok(rope_heads::shape(tokens, heads, dim, rope_rows)?)
    }
}

shared! {
    pub(super) HEADS = heads {
        /// Dimensions of a head of the attention.
        pub HEAD_DIM: u32 = 512;
        /// Threads of a block of either kernel.
        THREADS: u32 = 256;
    }
}

/// Heads that one block normalises: a warp for each.
const NORM_HEADS: u32 = THREADS / 32;
/// Heads that one block rotates: a thread for eight values.
const ROPE_HEADS: u32 = THREADS * 8 / ROPE_DIM;

impl norm_rope_heads {
    /// The launch for these sizes: a block for eight heads of a token.
    ///
    /// # Errors
    /// When a size is zero.
    pub fn shape(tokens: u32, heads: u32, rope_rows: u32) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("norm_rope_heads").at_least_1("heads", heads)?;
        check_rope(dims, rope_rows)?.grid(heads.div_ceil(NORM_HEADS), ("tokens", tokens), THREADS)
    }
}

impl rope_heads {
    /// The launch for these sizes: a block for 32 heads of a token.
    ///
    /// # Errors
    /// When a size is zero, or `dim` is less than 64 or no multiple of 8.
    pub fn shape(
        tokens: u32,
        heads: u32,
        dim: u32,
        rope_rows: u32,
    ) -> Result<LaunchShape, DimensionError> {
        let dims = Dims::of("rope_heads")
            .at_least_1("heads", heads)?
            .row("dim", dim)?
            .check("dim", dim, dim >= ROPE_DIM, "at least 64")?;
        check_rope(dims, rope_rows)?.grid(heads.div_ceil(ROPE_HEADS), ("tokens", tokens), THREADS)
    }
}

pub(super) fn sim_norm_rope_heads() -> SimKernel {
    twin::<norm_rope_heads>(
        |block, (q, rope, positions, faults, tokens, heads, rope_rows, epsilon)| {
            let [head_block, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let position = block.read(positions.at(token as usize), 1)?[0];
            let counted = (head_block == 0).then_some(faults);
            let angles = angles_at(block, rope, rope_rows, position, counted)?;
            let dim = HEAD_DIM as usize;
            for head in blocks::span(head_block, NORM_HEADS, heads) {
                let at = q.at((token as usize * heads as usize + head) * dim);
                let row: Vec<f64> = block
                    .read::<bf16>(at, dim)?
                    .iter()
                    .map(|value| value.to_f64())
                    .collect();
                let mut row = reference::rms_norm(&row, epsilon);
                reference::rotate(&mut row, &angles, false);
                let row: Vec<bf16> = row.into_iter().map(bf16::from_f64).collect();
                block.write(at, &row)?;
            }
            Ok(())
        },
    )
}

pub(super) fn sim_rope_heads() -> SimKernel {
    twin::<rope_heads>(
        |block, (x, rope, positions, faults, tokens, heads, dim, rope_rows, inverse)| {
            let [head_block, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let position = block.read(positions.at(token as usize), 1)?[0];
            let counted = (head_block == 0).then_some(faults);
            let angles = angles_at(block, rope, rope_rows, position, counted)?;
            let rotated = ROPE_DIM as usize;
            for head in blocks::span(head_block, ROPE_HEADS, heads) {
                let row = token as usize * heads as usize + head;
                let at = x.at((row + 1) * dim as usize - rotated);
                let mut row: Vec<f64> = block
                    .read::<bf16>(at, rotated)?
                    .iter()
                    .map(|value| value.to_f64())
                    .collect();
                reference::rotate(&mut row, &angles, inverse != 0);
                let row: Vec<bf16> = row.into_iter().map(bf16::from_f64).collect();
                block.write(at, &row)?;
            }
            Ok(())
        },
    )
}
