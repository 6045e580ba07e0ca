//! Attention over the window and the entries, and the projection of its output.

use half::{bf16, f16};
use streamweir::kernels::dsv4::{
    AttentionSplits, combine_attention, mix, paged_attention, rope_heads, sparse_attention,
};
use streamweir::{Scratch, Stream};

use super::Layer;
use crate::dsv4::cache::Entries;
use crate::dsv4::config::{HEAD_DIM, LayerKind, WINDOW};
use crate::dsv4::error::Error;

impl Layer<'_> {
    /// The attention of all heads, rotated back.
    pub(super) fn attend(
        &self,
        main: &Stream,
        q: &Scratch<bf16>,
        selected: Option<&Scratch<i32>>,
    ) -> Result<Scratch<bf16>, Error> {
        let (step, model) = (self.step, self.step.model);
        let (rows, heads) = (step.rows, model.config.heads);
        let scale = sparse_attention::scale();
        let (window, slots) = (&self.cache.window, &step.metadata.window_slots);
        let window_pages = model.geometry.window;
        let listed = match self.kind {
            LayerKind::Window => 0,
            LayerKind::C4 => model.config.top_k,
            LayerKind::C128 => model.config.max_context / 128,
        };
        let splits =
            AttentionSplits::for_device(rows, heads, WINDOW + listed, model.multiprocessors);
        let partial = main.scratch::<f16>("partial sums", splits.partial_len())?;
        let stats = main.scratch::<f32>("partial stats", splits.stats_len())?;
        match (&self.cache.entries, selected) {
            (Entries::C128 { latents, .. }, _) => {
                let (stride, pages) = (model.config.table_stride(), model.geometry.c128);
                main.launch(
                    &model.kernels.paged,
                    paged_attention::shape(&splits, model.capability, listed, stride, &pages)?,
                    (
                        q,
                        window,
                        slots,
                        latents,
                        &model.inputs.page_table(rows)?,
                        &step.metadata.c128_lens,
                        &partial,
                        &stats,
                        &model.faults,
                        window_pages,
                        pages,
                        rows,
                        heads,
                        WINDOW,
                        listed,
                        stride,
                        scale,
                    ),
                )?;
            }
            (Entries::C4 { latents, .. }, Some(indices)) => main.launch(
                &model.kernels.sparse,
                sparse_attention::shape(&splits, model.capability)?,
                (
                    q,
                    window,
                    slots,
                    latents,
                    indices,
                    &partial,
                    &stats,
                    &model.faults,
                    window_pages,
                    self.c4_pages(),
                    rows,
                    heads,
                    WINDOW,
                    listed,
                    scale,
                ),
            )?,
            // No entries: the pool and the list are not read.
            _ => main.launch(
                &model.kernels.sparse,
                sparse_attention::shape(&splits, model.capability)?,
                (
                    q,
                    window,
                    slots,
                    window,
                    slots,
                    &partial,
                    &stats,
                    &model.faults,
                    window_pages,
                    window_pages,
                    rows,
                    heads,
                    WINDOW,
                    0,
                    scale,
                ),
            )?,
        }
        let attention = main.scratch::<bf16>("attention", step.len(model.config.query()))?;
        main.launch(
            &model.kernels.combine,
            combine_attention::shape(&splits)?,
            (
                &partial,
                &stats,
                &self.weights.sink,
                &attention,
                rows,
                heads,
                splits.splits(),
            ),
        )?;
        let positions = model.config.max_context;
        main.launch(
            &model.kernels.rope,
            rope_heads::shape(rows, heads, HEAD_DIM, positions)?,
            (
                &attention,
                model.weights.rope(self.kind),
                &step.metadata.positions,
                &model.faults,
                rows,
                heads,
                HEAD_DIM,
                positions,
                1,
            ),
        )?;
        Ok(attention)
    }

    /// The grouped output projection and the step to the next layer. What stands
    /// for the experts of the model is a sum with the input, so that an error
    /// travels.
    pub(super) fn project(
        &self,
        main: &Stream,
        x: &Scratch<bf16>,
        attention: Scratch<bf16>,
    ) -> Result<Scratch<bf16>, Error> {
        let (step, model) = (self.step, self.step.model);
        let config = &model.config;
        let low = main.scratch::<bf16>("o_lora", step.len(config.o_groups * config.o_lora))?;
        step.products
            .o_a
            .launch(main, &attention, &self.weights.o_a, &low)?;
        drop(attention);
        let out = main.scratch::<bf16>("attention out", step.len(config.hidden))?;
        step.products
            .o_b
            .launch(main, &low, &self.weights.o_b, &out)?;
        drop(low);
        let next = main.scratch::<bf16>("x", step.len(config.hidden))?;
        main.launch(
            &model.kernels.mix,
            mix::shape(step.rows, config.hidden, config.hidden)?,
            (x, &out, &next, step.rows, config.hidden, config.hidden),
        )?;
        Ok(next)
    }
}
