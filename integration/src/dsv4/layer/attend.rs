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
                    paged_attention {
                        q,
                        window,
                        window_slots: slots,
                        latents,
                        page_table: &model.inputs.page_table(rows)?,
                        lens: &step.metadata.c128_lens,
                        partial: &partial,
                        stats: &stats,
                        faults: &model.faults,
                        window_layout: window_pages,
                        layout: pages,
                        tokens: rows,
                        heads,
                        window_entries: WINDOW,
                        max_entries: listed,
                        table_stride: stride,
                        scale,
                        splits: splits.splits(),
                    },
                )?;
            }
            (Entries::C4 { latents, .. }, Some(indices)) => main.launch(
                &model.kernels.sparse,
                sparse_attention {
                    q,
                    window,
                    window_slots: slots,
                    selected: latents,
                    indices,
                    partial: &partial,
                    stats: &stats,
                    faults: &model.faults,
                    window_layout: window_pages,
                    selected_layout: self.c4_pages(),
                    tokens: rows,
                    heads,
                    window_entries: WINDOW,
                    selected_entries: listed,
                    scale,
                    splits: splits.splits(),
                },
            )?,
            // No entries: the pool and the list are not read.
            _ => main.launch(
                &model.kernels.sparse,
                sparse_attention {
                    q,
                    window,
                    window_slots: slots,
                    selected: window,
                    indices: slots,
                    partial: &partial,
                    stats: &stats,
                    faults: &model.faults,
                    window_layout: window_pages,
                    selected_layout: window_pages,
                    tokens: rows,
                    heads,
                    window_entries: WINDOW,
                    selected_entries: 0,
                    scale,
                    splits: splits.splits(),
                },
            )?,
        }
        let attention = main.scratch::<bf16>("attention", step.len(model.config.query()))?;
        main.launch(
            &model.kernels.combine,
            combine_attention {
                partial: &partial,
                stats: &stats,
                sink: &self.weights.sink,
                out: &attention,
                tokens: rows,
                heads,
                splits: splits.splits(),
            },
        )?;
        let positions = model.config.max_context;
        main.launch(
            &model.kernels.rope,
            rope_heads {
                x: &attention,
                rope: model.weights.rope(self.kind),
                positions: &step.metadata.positions,
                faults: &model.faults,
                tokens: rows,
                heads,
                dim: HEAD_DIM,
                rope_rows: positions,
                inverse: 1,
            },
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
            mix {
                x,
                attention: &out,
                next: &next,
                tokens: step.rows,
                width: config.hidden,
                values: config.hidden,
            },
        )?;
        Ok(next)
    }
}
