//! The steps that the fused kernels take, each alone, for tests of the device code
//! bit by bit.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, InOut, Out, twin};

use crate::dims::{DimensionError, Dims};
use crate::dsv4::cache::{INDEX_DIM, store_slot, write_stored};
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::LatentFp8Pages;
use crate::reference;

kernel! {
    /// The Hadamard transform of each row of 128, in natural order, divided by
    /// `128^0.5`. `x` and `out` are `[rows, 128]`.
    ///
    /// # Safety
    /// A warp reads its own row and writes it.
    pub unsafe fn hadamard_rows(x: In<bf16>, out: Out<bf16>, rows: u32) {
        x.holds([rows, INDEX_DIM])?.aligned(WORD)?;
        out.holds([rows, INDEX_DIM])?.aligned(WORD)?;
        Ok(hadamard_rows::shape(rows)?)
    }

    /// Each row of 128 as e4m3 with one f32 scale, `max(1e-4, absmax) / 448`.
    /// `x` and `out` are `[rows, 128]`, `scales` is `[rows]`.
    ///
    /// # Safety
    /// A warp reads its own row and writes it, and the row's scale.
    pub unsafe fn quantise_e4m3(x: In<f32>, out: Out<u8>, scales: Out<f32>, rows: u32) {
        x.holds([rows, INDEX_DIM])?.aligned(WORD)?;
        out.holds([rows, INDEX_DIM])?.aligned(WORD)?;
        scales.holds([rows])?;
        Ok(quantise_e4m3::shape(rows)?)
    }

    /// Stores each row of 512 as a latent at slot `out_loc[r]`: 448 e4m3 values
    /// with a UE8M0 scale for each 64, and 64 bf16 values, as they are. Slot 0
    /// stores nothing; a slot outside the pool stores nothing and is counted in
    /// `faults`, one `u32`.
    ///
    /// # Safety
    /// A block reads its own row and writes one row of the pool, at a slot that the pool has.
    pub unsafe fn quantise_latent(
        x: In<f32>,
        out_loc: In<i32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: LatentFp8Pages,
        rows: u32,
    ) {
        x.holds([rows, LatentFp8Pages::DIM])?.aligned(WORD)?;
        out_loc.holds([rows])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(quantise_latent::shape(rows)?)
    }
}

/// Threads that have a row: one for four values.
const KEY_THREADS: u32 = INDEX_DIM / 4;
const LATENT_THREADS: u32 = LatentFp8Pages::DIM / 4;

fn rows_shape(
    kernel: &'static str,
    rows: u32,
    threads: u32,
) -> Result<LaunchShape, DimensionError> {
    Dims::of(kernel)
        .at_least_1("rows", rows)?
        .grid(rows, ("blocks along y", 1), threads)
}

/// The launch of each: a block for each row.
macro_rules! shape {
    ($($kernel:ident: $threads:expr),*) => {
        $(impl $kernel {
            /// The launch for this size: a block for each row.
            ///
            /// # Errors
            /// When `rows` is zero.
            pub fn shape(rows: u32) -> Result<LaunchShape, DimensionError> {
                rows_shape(stringify!($kernel), rows, $threads)
            }
        })*
    };
}

shape!(hadamard_rows: KEY_THREADS, quantise_e4m3: KEY_THREADS, quantise_latent: LATENT_THREADS);

pub(super) fn sim_hadamard_rows() -> SimKernel {
    let dim = INDEX_DIM as usize;
    twin::<hadamard_rows>(move |block, (x, out, rows)| {
        let [row, ..] = block.index();
        if row >= rows {
            return Ok(());
        }
        let at = row as usize * dim;
        let mut values: Vec<f64> = block
            .read::<bf16>(x.at(at), dim)?
            .iter()
            .map(|value| value.to_f64())
            .collect();
        reference::hadamard(&mut values);
        let values: Vec<bf16> = values.into_iter().map(bf16::from_f64).collect();
        block.write(out.at(at), &values)
    })
}

pub(super) fn sim_quantise_e4m3() -> SimKernel {
    let dim = INDEX_DIM as usize;
    twin::<quantise_e4m3>(move |block, (x, out, scales, rows)| {
        let [row, ..] = block.index();
        if row >= rows {
            return Ok(());
        }
        let at = row as usize * dim;
        let (values, scale) = reference::quantise_e4m3(block.read(x.at(at), dim)?);
        block.write(out.at(at), &values)?;
        block.write(scales.at(row as usize), &[scale])
    })
}

pub(super) fn sim_quantise_latent() -> SimKernel {
    twin::<quantise_latent>(|block, (x, out_loc, pool, faults, layout, rows)| {
        let [row, ..] = block.index();
        if row >= rows {
            return Ok(());
        }
        let slot = block.read(out_loc.at(row as usize), 1)?[0];
        let Some(slot) = store_slot(block, layout.layout(), slot, faults)? else {
            return Ok(());
        };
        let dim = LatentFp8Pages::DIM as usize;
        let stored = reference::stored_latent(block.read(x.at(row as usize * dim), dim)?);
        write_stored(block, pool.address, layout.layout(), slot, &stored)
    })
}
