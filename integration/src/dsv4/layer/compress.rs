//! The compressor of a layer's entries.

use half::bf16;
use streamweir::kernels::dsv4::{compress_c4, compress_c128};
use streamweir::{Scratch, Stream};

use super::Layer;
use crate::dsv4::cache::Entries;
use crate::dsv4::config::{EPSILON, HEAD_DIM};
use crate::dsv4::error::Error;

impl Layer<'_> {
    /// Keys and scores of each token into the rings, and the entries that they
    /// complete into the pool. Nothing in a layer without entries.
    pub(super) fn compress(&self, stream: &Stream, h: &Scratch<bf16>) -> Result<(), Error> {
        let step = self.step;
        let Some(weights) = &self.weights.compressor else {
            return Ok(());
        };
        let (model, rows) = (step.model, step.rows);
        let (slots, positions) = (model.geometry.slots, model.config.max_context);
        let lens = model.inputs.seq_lens(rows)?;
        let state_slots = model.inputs.state_slots(rows)?;
        let rope = model.weights.rope(self.kind);
        match &self.cache.entries {
            Entries::None => Ok(()),
            Entries::C4 { latents, rings, .. } => {
                let scores = stream.scratch::<f32>("kv and scores", step.len(4 * HEAD_DIM))?;
                let weight = &weights.kv_score;
                step.products.c4_scores.launch(stream, h, weight, &scores)?;
                let pages = model.geometry.c4;
                Ok(stream.launch(
                    &model.kernels.compress_c4,
                    compress_c4 {
                        kv_score: &scores,
                        ape: &weights.ape,
                        norm: &weights.norm,
                        rope,
                        seq_lens: &lens,
                        state_slots: &state_slots,
                        out_loc: &step.metadata.c4_out_loc,
                        rings,
                        pool: latents,
                        faults: &model.faults,
                        layout: pages,
                        tokens: rows,
                        slots,
                        rope_rows: positions,
                        epsilon: EPSILON,
                    },
                )?)
            }
            Entries::C128 { latents, rings } => {
                let scores = stream.scratch::<f32>("kv and scores", step.len(2 * HEAD_DIM))?;
                let weight = &weights.kv_score;
                step.products
                    .c128_scores
                    .launch(stream, h, weight, &scores)?;
                let pages = model.geometry.c128;
                Ok(stream.launch(
                    &model.kernels.compress_c128,
                    compress_c128 {
                        kv_score: &scores,
                        ape: &weights.ape,
                        norm: &weights.norm,
                        rope,
                        seq_lens: &lens,
                        state_slots: &state_slots,
                        out_loc: &step.metadata.c128_out_loc,
                        rings,
                        pool: latents,
                        faults: &model.faults,
                        layout: pages,
                        tokens: rows,
                        slots,
                        rope_rows: positions,
                        epsilon: EPSILON,
                    },
                )?)
            }
        }
    }
}
