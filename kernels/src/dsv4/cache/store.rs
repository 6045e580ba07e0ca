//! Norm, rotation and store of rows that a projection made.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, InOut, Ptr, twin};

use super::row::{Finish, RowPool, angles_at, check_rope, store_slot};
use crate::dims::{DimensionError, Dims};
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};

kernel! {
    /// Stores the latent of each token, RMS-normalised, its last 64 dimensions
    /// rotated at `positions[t]`, at slot `out_loc[t]`.
    ///
    /// The latent is columns `first .. first + 512` of row `t` of `x`, whose
    /// rows are `stride` long; `norm` is `[512]`; `rope` is a table of
    /// [`Rope`](crate::rope::Rope) with `rope_rows` positions. The values are
    /// quantised from f32, without a rounding to bf16 before. `pool` is the
    /// whole pool: the slots come from device memory, so any page may be
    /// touched.
    ///
    /// A row of slot 0 (a padded row) stores nothing. A slot outside the pool
    /// stores nothing and is counted in `faults`, one `u32`; so is a position
    /// outside the table, which rotates by the nearest that the table has.
    ///
    /// # Safety
    /// A block reads its token's row and writes one row of the pool, at a slot that the
    /// pool has; a position outside the table reads the nearest row that it has.
    #[waits]
    pub unsafe fn store_latent(
        x: In<bf16>,
        norm: In<f32>,
        rope: In<f32>,
        positions: In<i32>,
        out_loc: In<i32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: LatentFp8Pages,
        tokens: u32,
        stride: u32,
        first: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        x.holds([tokens, stride])?.aligned(WORD)?;
        extents::norm_and_rope(norm, rope, rope_rows, <LatentFp8Pages as RowPool>::DIM)?;
        positions.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(store_latent::shape(tokens, stride, first, rope_rows, &layout)?)
    }

    /// Stores the index key of each token: norm and rotation as
    /// [`store_latent`] does them, over 128 dimensions, then the Hadamard
    /// transform divided by `128^0.5`.
    ///
    /// # Safety
    /// A block reads its token's row and writes one row of the pool, at a slot that the
    /// pool has; a position outside the table reads the nearest row that it has.
    pub unsafe fn store_index_key(
        x: In<bf16>,
        norm: In<f32>,
        rope: In<f32>,
        positions: In<i32>,
        out_loc: In<i32>,
        pool: InOut<bf16>,
        faults: Atomic<u32>,
        layout: IndexKeyPages,
        tokens: u32,
        stride: u32,
        first: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        x.holds([tokens, stride])?.aligned(WORD)?;
        extents::norm_and_rope(norm, rope, rope_rows, <IndexKeyPages as RowPool>::DIM)?;
        positions.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(store_index_key::shape(tokens, stride, first, rope_rows, &layout)?)
    }

    /// As [`store_index_key`], with the keys as e4m3 and one f32 scale each.
    ///
    /// # Safety
    /// A block reads its token's row and writes one row of the pool, at a slot that the
    /// pool has; a position outside the table reads the nearest row that it has.
    pub unsafe fn store_index_key_fp8(
        x: In<bf16>,
        norm: In<f32>,
        rope: In<f32>,
        positions: In<i32>,
        out_loc: In<i32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: IndexKeyFp8Pages,
        tokens: u32,
        stride: u32,
        first: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        x.holds([tokens, stride])?.aligned(WORD)?;
        extents::norm_and_rope(norm, rope, rope_rows, <IndexKeyFp8Pages as RowPool>::DIM)?;
        positions.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(store_index_key_fp8::shape(tokens, stride, first, rope_rows, &layout)?)
    }
}

fn store_shape<P: RowPool>(
    kernel: &'static str,
    tokens: u32,
    stride: u32,
    first: u32,
    rope_rows: u32,
    layout: &P,
) -> Result<LaunchShape, DimensionError> {
    let dims = Dims::of(kernel)
        .at_least_1("tokens", tokens)?
        .row("stride", stride)?
        .check(
            "first",
            first,
            first.is_multiple_of(8) && first.checked_add(P::DIM).is_some_and(|last| last <= stride),
            "a multiple of 8 with a whole row after it in the stride",
        )?;
    layout
        .check(check_rope(dims, rope_rows)?)?
        .grid(tokens, ("blocks along y", 1), P::DIM / 4)
}

/// What the three kernels have in common: the launch and the twin.
macro_rules! store {
    ($kernel:ident, $pages:ident) => {
        impl $kernel {
            /// The launch for these sizes: a block for each token.
            ///
            /// # Errors
            /// When there is no token or no row of the table, `stride` or
            /// `first` is no multiple of 8, a row does not fit into the stride,
            /// or the pool's dimension is another.
            pub fn shape(
                tokens: u32,
                stride: u32,
                first: u32,
                rope_rows: u32,
                layout: &$pages,
            ) -> Result<LaunchShape, DimensionError> {
                let kernel = stringify!($kernel);
                store_shape(kernel, tokens, stride, first, rope_rows, layout)
            }

            pub(super) fn sim() -> SimKernel {
                twin::<$kernel>(
                    |block,
                     (
                        x,
                        norm,
                        rope,
                        positions,
                        out_loc,
                        pool,
                        faults,
                        layout,
                        tokens,
                        stride,
                        first,
                        rope_rows,
                        epsilon,
                    )| {
                        let row = Row {
                            x,
                            positions,
                            out_loc,
                            rope,
                            faults,
                            tokens,
                            stride,
                            first,
                            rope_rows,
                        };
                        let finish = Finish {
                            pool: pool.address,
                            layout,
                            norm,
                            epsilon,
                        };
                        row.store(block, &finish)
                    },
                )
            }
        }
    };
}

store!(store_latent, LatentFp8Pages);
store!(store_index_key, IndexKeyPages);
store!(store_index_key_fp8, IndexKeyFp8Pages);

/// Where the rows come from.
struct Row {
    x: Ptr<bf16>,
    positions: Ptr<i32>,
    out_loc: Ptr<i32>,
    rope: Ptr<f32>,
    faults: Ptr<u32>,
    tokens: u32,
    stride: u32,
    first: u32,
    rope_rows: u32,
}

impl Row {
    fn store<P: RowPool>(
        &self,
        block: &mut SimBlock<'_>,
        finish: &Finish<P>,
    ) -> Result<(), SimFault> {
        let [token, ..] = block.index();
        if token >= self.tokens {
            return Ok(());
        }
        let token = token as usize;
        let slot = block.read(self.out_loc.at(token), 1)?[0];
        let position = block.read(self.positions.at(token), 1)?[0];
        let Some(slot) = store_slot(block, finish.layout.layout(), slot, self.faults)? else {
            return Ok(());
        };
        let angles = angles_at(
            block,
            self.rope,
            self.rope_rows,
            position,
            Some(self.faults),
        )?;
        let at = token * self.stride as usize + self.first as usize;
        let row: Vec<f64> = block
            .read::<bf16>(self.x.at(at), P::DIM as usize)?
            .iter()
            .map(|value| value.to_f64())
            .collect();
        finish.run(block, &row, &angles, slot)
    }
}
