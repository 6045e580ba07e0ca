//! Projection of the tokens by a weight matrix, bf16 in and out.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::extents::WORD;
use crate::reference;

kernel! {
    /// `q[t, r] = x[t, ..] · weight[r, ..]`, accumulated in f32 in a fixed order.
    ///
    /// `x` is `[tokens, width]`, `weight` `[rows, width]`, `q` `[tokens, rows]`.
    /// It serves for the queries of the attention (`rows` = heads × dimension)
    /// and for those of the indexer.
    ///
    /// # Safety
    /// A block reads its rows of `x` and of `weight`, and a warp writes its own results.
    pub unsafe fn query_projection(
        x: In<bf16>,
        weight: In<bf16>,
        q: Out<bf16>,
        tokens: u32,
        width: u32,
        rows: u32,
    ) {
        x.holds([tokens, width])?.aligned(WORD)?;
        weight.holds([rows, width])?.aligned(WORD)?;
        q.holds([tokens, rows])?;
        Ok(query_projection::shape(tokens, width, rows)?)
    }
}

shared! {
    pub(in crate::dsv4) PROJECTION = projection {
        /// Rows of the weight that one block owns.
        ROWS_PER_BLOCK: u32 = 16;
        /// Tokens that one block owns.
        TOKENS_PER_BLOCK: u32 = 8;
        /// Threads of a block.
        THREADS: u32 = 256;
    }
}

/// The launch of a projection: a block for 16 rows and 8 tokens.
pub(in crate::dsv4) fn projection_shape(
    dims: Dims,
    tokens: u32,
    width: u32,
    rows: u32,
) -> Result<LaunchShape, DimensionError> {
    dims.at_least_1("tokens", tokens)?
        .row("width", width)?
        .at_least_1("rows", rows)?
        .grid(
            rows.div_ceil(ROWS_PER_BLOCK),
            ("tokens / 8", tokens.div_ceil(TOKENS_PER_BLOCK)),
            THREADS,
        )
}

impl query_projection {
    /// The launch for these sizes.
    ///
    /// # Errors
    /// When a size is zero or `width` is no multiple of 8.
    pub fn shape(tokens: u32, width: u32, rows: u32) -> Result<LaunchShape, DimensionError> {
        projection_shape(Dims::of("query_projection"), tokens, width, rows)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<query_projection>(|block, (x, weight, q, tokens, width, rows)| {
        for part in projection_block(block, x, weight, tokens, width, rows)? {
            let values: Vec<bf16> = part.values.iter().map(|&v| bf16::from_f64(v)).collect();
            block.write(q.at(part.first), &values)?;
        }
        Ok(())
    })
}

/// The results of one token and the rows of a block.
pub(in crate::dsv4) struct Part {
    /// The place of the first result in `[tokens, rows]`.
    pub(in crate::dsv4) first: usize,
    /// The results.
    pub(in crate::dsv4) values: Vec<f64>,
}

/// What one block of a projection computes.
pub(in crate::dsv4) fn projection_block(
    block: &streamweir_sched::driver::sim::SimBlock<'_>,
    x: kernel::Ptr<bf16>,
    weight: kernel::Ptr<bf16>,
    tokens: u32,
    width: u32,
    rows: u32,
) -> Result<Vec<Part>, streamweir_sched::driver::sim::SimFault> {
    let [row_block, token_block, _] = block.index();
    let rows_here = blocks::span(row_block, ROWS_PER_BLOCK, rows);
    let width = width as usize;
    let weight = block.read(weight.at(rows_here.start * width), rows_here.len() * width)?;
    let mut parts = Vec::new();
    for token in blocks::span(token_block, TOKENS_PER_BLOCK, tokens) {
        let x = block.read(x.at(token * width), width)?;
        parts.push(Part {
            first: token * rows as usize + rows_here.start,
            values: reference::projection(x, weight, width),
        });
    }
    Ok(parts)
}
