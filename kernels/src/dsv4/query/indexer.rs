//! The indexer's queries and the weights of its heads.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, Out, Ptr, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::cache::{INDEX_DIM, angles_at, check_rope};
use crate::dsv4::extents::WORD;
use crate::reference;
use crate::rope::ROPE_DIM;

kernel! {
    /// Prepares the indexer's queries: rotation of the last 64 of 128
    /// dimensions at `positions[t]`, then the Hadamard transform divided by
    /// `128^0.5`; and the weights of the heads,
    /// `weights[t, h] = scale · projected[t, h]`.
    ///
    /// `q` and `query` are `[tokens, heads, 128]`, `projected` and `weights`
    /// `[tokens, heads]`. The model's scale is
    /// [`index_weights::scale`](super::super::index_weights::scale). `rope` is a
    /// table of [`Rope`](crate::rope::Rope) with `rope_rows` positions; a
    /// position outside it rotates by the nearest that it has and is counted in
    /// `faults`, one `u32`, once for the token.
    ///
    /// # Safety
    /// A warp reads and writes its own head; a position outside the table reads the nearest
    /// row that it has.
    #[waits]
    pub unsafe fn index_query(
        q: In<bf16>,
        projected: In<f32>,
        rope: In<f32>,
        positions: In<i32>,
        query: Out<bf16>,
        weights: Out<f32>,
        faults: Atomic<u32>,
        tokens: u32,
        heads: u32,
        rope_rows: u32,
        scale: f32,
    ) {
        q.holds([tokens, heads, INDEX_DIM])?.aligned(WORD)?;
        projected.holds([tokens, heads])?;
        rope.holds([rope_rows, ROPE_DIM])?.aligned(WORD)?;
        positions.holds([tokens])?;
        query.holds([tokens, heads, INDEX_DIM])?.aligned(WORD)?;
        weights.holds([tokens, heads])?;
        faults.holds([1_u32])?;
        Ok(index_query::shape(tokens, heads, rope_rows)?)
    }

    /// As [`index_query`], with the queries as e4m3. The f32 scale of each
    /// query, `max(1e-4, absmax) / 448`, is a factor of its weight: a logit is
    /// positively homogeneous in the query.
    ///
    /// # Safety
    /// A warp reads and writes its own head; a position outside the table reads the nearest
    /// row that it has.
    #[waits]
    pub unsafe fn index_query_fp8(
        q: In<bf16>,
        projected: In<f32>,
        rope: In<f32>,
        positions: In<i32>,
        query: Out<u8>,
        weights: Out<f32>,
        faults: Atomic<u32>,
        tokens: u32,
        heads: u32,
        rope_rows: u32,
        scale: f32,
    ) {
        q.holds([tokens, heads, INDEX_DIM])?.aligned(WORD)?;
        projected.holds([tokens, heads])?;
        rope.holds([rope_rows, ROPE_DIM])?.aligned(WORD)?;
        positions.holds([tokens])?;
        query.holds([tokens, heads, INDEX_DIM])?.aligned(WORD)?;
        weights.holds([tokens, heads])?;
        faults.holds([1_u32])?;
        Ok(index_query_fp8::shape(tokens, heads, rope_rows)?)
    }
}

shared! {
    pub(super) QUERIES = index_queries {
        /// Heads that one block prepares: a warp for each.
        HEADS_PER_BLOCK: u32 = 8;
        /// Threads of a block.
        THREADS: u32 = 32 * HEADS_PER_BLOCK;
    }
}

fn query_shape(
    kernel: &'static str,
    tokens: u32,
    heads: u32,
    rope_rows: u32,
) -> Result<LaunchShape, DimensionError> {
    let dims = Dims::of(kernel).at_least_1("heads", heads)?;
    check_rope(dims, rope_rows)?.grid(heads.div_ceil(HEADS_PER_BLOCK), ("tokens", tokens), THREADS)
}

impl index_query {
    /// The launch for these sizes: a block for eight heads of a token.
    ///
    /// # Errors
    /// When a size is zero.
    pub fn shape(tokens: u32, heads: u32, rope_rows: u32) -> Result<LaunchShape, DimensionError> {
        query_shape("index_query", tokens, heads, rope_rows)
    }
}

impl index_query_fp8 {
    /// The launch for these sizes: a block for eight heads of a token.
    ///
    /// # Errors
    /// When a size is zero.
    pub fn shape(tokens: u32, heads: u32, rope_rows: u32) -> Result<LaunchShape, DimensionError> {
        query_shape("index_query_fp8", tokens, heads, rope_rows)
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<index_query>(
        |block,
         (
            q,
            projected,
            rope,
            positions,
            query,
            weights,
            faults,
            tokens,
            heads,
            rope_rows,
            scale,
        )| {
            let input = Input {
                q,
                projected,
                rope,
                positions,
                faults,
                tokens,
                heads,
                rope_rows,
            };
            for head in input.block(block)? {
                let row: Vec<bf16> = head.row.iter().map(|&v| bf16::from_f64(v)).collect();
                block.write(query.at(head.place * INDEX_DIM as usize), &row)?;
                block.write(weights.at(head.place), &[head.projected * scale])?;
            }
            Ok(())
        },
    )
}

pub(super) fn sim_fp8() -> SimKernel {
    twin::<index_query_fp8>(
        |block,
         (
            q,
            projected,
            rope,
            positions,
            query,
            weights,
            faults,
            tokens,
            heads,
            rope_rows,
            scale,
        )| {
            let input = Input {
                q,
                projected,
                rope,
                positions,
                faults,
                tokens,
                heads,
                rope_rows,
            };
            for head in input.block(block)? {
                let row: Vec<f32> = head.row.iter().map(|&v| v as f32).collect();
                let (values, query_scale) = reference::quantise_e4m3(&row);
                block.write(query.at(head.place * INDEX_DIM as usize), &values)?;
                let weight = head.projected * scale * query_scale;
                block.write(weights.at(head.place), &[weight])?;
            }
            Ok(())
        },
    )
}

/// What both kernels read.
struct Input {
    q: Ptr<bf16>,
    projected: Ptr<f32>,
    rope: Ptr<f32>,
    positions: Ptr<i32>,
    faults: Ptr<u32>,
    tokens: u32,
    heads: u32,
    rope_rows: u32,
}

/// One head of a block.
struct Head {
    /// Its place in `[tokens, heads]`.
    place: usize,
    /// The transformed query.
    row: Vec<f64>,
    projected: f32,
}

impl Input {
    fn block(&self, block: &mut SimBlock<'_>) -> Result<Vec<Head>, SimFault> {
        let [head_block, token, _] = block.index();
        if token >= self.tokens {
            return Ok(Vec::new());
        }
        let token = token as usize;
        let position = block.read(self.positions.at(token), 1)?[0];
        let counted = (head_block == 0).then_some(self.faults);
        let angles = angles_at(block, self.rope, self.rope_rows, position, counted)?;
        let dim = INDEX_DIM as usize;
        blocks::span(head_block, HEADS_PER_BLOCK, self.heads)
            .map(|head| {
                let place = token * self.heads as usize + head;
                let mut row: Vec<f64> = block
                    .read::<bf16>(self.q.at(place * dim), dim)?
                    .iter()
                    .map(|value| value.to_f64())
                    .collect();
                reference::rotate(&mut row, &angles, false);
                reference::hadamard(&mut row);
                Ok(Head {
                    place,
                    row,
                    projected: block.read(self.projected.at(place), 1)?[0],
                })
            })
            .collect()
    }
}
