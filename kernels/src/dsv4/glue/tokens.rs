//! From token ids to rows, and from logits to token ids.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::cache::count_fault;
use crate::dsv4::extents::WORD;
use crate::reference;

kernel! {
    /// `x[t, ..] = embedding[ids[t], ..]`. `embedding` is
    /// `[vocabulary, width]`, `x` `[tokens, width]`. An id outside the
    /// vocabulary reads row 0 and is counted in `faults`, one `u32`.
    ///
    /// # Safety
    /// An id outside the vocabulary reads row 0; a thread writes eight values of its token's
    /// row.
    #[waits]
    pub unsafe fn embed(
        ids: In<i32>,
        embedding: In<bf16>,
        x: Out<bf16>,
        faults: Atomic<u32>,
        tokens: u32,
        width: u32,
        vocabulary: u32,
    ) {
        ids.holds([tokens])?;
        embedding.holds([vocabulary, width])?.aligned(WORD)?;
        x.holds([tokens, width])?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(embed::shape(tokens, width, vocabulary)?)
    }

    /// `ids[t]` is the token of the largest of `logits[t, ..]`, equals by lower
    /// token; what is not a number comes after all others. `logits` is
    /// `[tokens, vocabulary]`.
    ///
    /// # Safety
    /// A block reads its token's row and writes the token's id.
    #[waits]
    pub unsafe fn argmax(logits: In<f32>, ids: Out<i32>, tokens: u32, vocabulary: u32) {
        logits.holds([tokens, vocabulary])?;
        ids.holds([tokens])?;
        Ok(argmax::shape(tokens, vocabulary)?)
    }
}

shared! {
    pub(super) TOKENS = token_rows {
        /// Threads of a block that copies rows.
        EMBED_THREADS: u32 = 256;
        /// Threads of a block that looks for the largest logit.
        ARGMAX_THREADS: u32 = 1024;
    }
}

impl embed {
    /// The launch for these sizes: a thread for eight values.
    ///
    /// # Errors
    /// When a size is zero, or `width` is no multiple of 8.
    pub fn shape(tokens: u32, width: u32, vocabulary: u32) -> Result<LaunchShape, DimensionError> {
        Dims::of("embed")
            .row("width", width)?
            .at_least_1("vocabulary", vocabulary)?
            .grid(
                (width / 8).div_ceil(EMBED_THREADS),
                ("tokens", tokens),
                EMBED_THREADS,
            )
    }
}

impl argmax {
    /// The launch for these sizes: a block for each token.
    ///
    /// # Errors
    /// When a size is zero, or a token is no `i32`.
    pub fn shape(tokens: u32, vocabulary: u32) -> Result<LaunchShape, DimensionError> {
        Dims::of("argmax")
            .at_least_1("tokens", tokens)?
            .check(
                "vocabulary",
                vocabulary,
                (1..=i32::MAX as u32).contains(&vocabulary),
                "from 1 to 2,147,483,647",
            )?
            .grid(tokens, ("blocks along y", 1), ARGMAX_THREADS)
    }
}

pub(super) fn sim_embed() -> SimKernel {
    twin::<embed>(
        |block, (ids, embedding, x, faults, tokens, width, vocabulary)| {
            let [column_block, token, _] = block.index();
            if token >= tokens {
                return Ok(());
            }
            let mut id = block.read::<i32>(ids.at(token as usize), 1)?[0];
            if id < 0 || id as u32 >= vocabulary {
                id = 0;
                if column_block == 0 {
                    count_fault(block, faults)?;
                }
            }
            let here = blocks::span(column_block, 8 * EMBED_THREADS, width);
            let width = width as usize;
            let row = block
                .read::<bf16>(embedding.at(id as usize * width + here.start), here.len())?
                .to_vec();
            block.write(x.at(token as usize * width + here.start), &row)
        },
    )
}

pub(super) fn sim_argmax() -> SimKernel {
    twin::<argmax>(|block, (logits, ids, tokens, vocabulary)| {
        let [token, ..] = block.index();
        if token >= tokens {
            return Ok(());
        }
        let (token, vocabulary) = (token as usize, vocabulary as usize);
        let best = reference::argmax(block.read(logits.at(token * vocabulary), vocabulary)?);
        block.write(ids.at(token), &[best as i32])
    })
}
