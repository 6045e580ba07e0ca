//! Computation of the index keys and their store into the paged cache.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, InOut, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::IndexKeyPages;
use crate::reference;

kernel! {
    /// Stores the index key of each token, RMS-normalised, at slot `out_loc[t]`.
    ///
    /// `x` is `[tokens, width]`, `weight` `[dim, width]`, `norm` `[dim]` with the
    /// dimension of `layout`. `keys` is the whole pool: the slots come from
    /// device memory, so any page may be touched. A row whose slot is 0 (a
    /// padded row) or outside the pool stores nothing, so that rows never write
    /// the same bytes unless the caller gave them the same slot.
    ///
    /// # Safety
    /// A block reads its token's row and the whole weight, and writes one row of the pool,
    /// at a slot that the pool has.
    pub unsafe fn index_key_store(
        x: In<bf16>,
        weight: In<bf16>,
        norm: In<f32>,
        out_loc: In<i32>,
        keys: InOut<bf16>,
        layout: IndexKeyPages,
        tokens: u32,
        width: u32,
        epsilon: f32,
    ) {
        x.holds([tokens, width])?.aligned(WORD)?;
        weight.holds([layout.dim(), width])?.aligned(WORD)?;
        norm.holds([layout.dim()])?;
        out_loc.holds([tokens])?;
        extents::pool(keys, &layout)?;
        Ok(index_key_store::shape(tokens, width, &layout)?)
    }
}

shared! {
    pub(super) KEY_STORE = index_key {
        /// The largest key dimension.
        pub MAX_KEY_DIM: u32 = 512;
        /// Threads of a block.
        THREADS: u32 = 1024;
    }
}

impl index_key_store {
    /// The launch for these sizes: a block for each token.
    ///
    /// # Errors
    /// When a size is zero, `width` is no multiple of 8, or the key has more
    /// than [`MAX_KEY_DIM`] dimensions.
    pub fn shape(
        tokens: u32,
        width: u32,
        layout: &IndexKeyPages,
    ) -> Result<LaunchShape, DimensionError> {
        let dim = layout.dim();
        Dims::of("index_key_store")
            .at_least_1("tokens", tokens)?
            .row("width", width)?
            .check(
                "dim",
                dim,
                (1..=MAX_KEY_DIM).contains(&dim),
                "from 1 to 512",
            )?
            .grid(tokens, ("blocks along y", 1), THREADS)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<index_key_store>(
        |block, (x, weight, norm, out_loc, keys, layout, tokens, width, epsilon)| {
            let [token, ..] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let slot = block.read(out_loc.at(token as usize), 1)?[0];
            let Some(offset) = layout.layout().value_offset(slot).filter(|_| slot > 0) else {
                return Ok(());
            };
            let (width, dim) = (width as usize, layout.dim() as usize);
            let key = reference::index_key(
                block.read(x.at(token as usize * width), width)?,
                block.read(weight.address, dim * width)?,
                block.read(norm.address, dim)?,
                epsilon,
            );
            let key: Vec<bf16> = key.into_iter().map(bf16::from_f64).collect();
            block.write(keys.address + offset, &key)
        },
    )
}
