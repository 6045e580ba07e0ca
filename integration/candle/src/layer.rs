//! One C4 layer: the indexer on a side stream, the queries on main.
//!
//! ```text
//! main     x ─┬──────── queries ──────────────┬─ attention ─ mix ─ next x
//!             │ fork                          │ join
//! indexer     └─ key store ─ index queries ─ weights ─ logits ─ top-k
//! ```
//!
//! Temporaries are dropped right after their last user is launched, as an
//! engine's tensors are. The pool of each stream is its own, so nothing that
//! main takes meanwhile can lie where the indexer still works.

use half::bf16;
use streamweir::kernels::dsv4::{
    self, gather_attention, index_key_store, index_weights, indexer_logits, mix, query_projection,
    top_k,
};
use streamweir::kernels::layout::{IndexKeyPages, LatentPages};
use streamweir::{Capture, Device, LoadedKernel, Persistent, Scratch, Stream};

use crate::batch::Batch;
use crate::error::Result;
use crate::sizes::Sizes;

/// Added to the mean square when an index key is normalised.
const EPSILON: f32 = 1e-6;

/// The kernels of a layer, loaded.
pub(crate) struct Kernels {
    projection: LoadedKernel<query_projection>,
    key_store: LoadedKernel<index_key_store>,
    head_weights: LoadedKernel<index_weights>,
    logits: LoadedKernel<indexer_logits>,
    top_k: LoadedKernel<top_k>,
    attention: LoadedKernel<gather_attention>,
    mix: LoadedKernel<mix>,
}

impl Kernels {
    pub(crate) fn load(device: &Device) -> Result<Self> {
        let module = dsv4::load(device)?;
        Ok(Self {
            projection: module.kernel()?,
            key_store: module.kernel()?,
            head_weights: module.kernel()?,
            logits: module.kernel()?,
            top_k: module.kernel()?,
            attention: module.kernel()?,
            mix: module.kernel()?,
        })
    }
}

/// What one layer has of its own: candle's tensors, registered.
pub(crate) struct Layer {
    pub(crate) query_weight: Persistent<bf16>,
    pub(crate) index_query_weight: Persistent<bf16>,
    pub(crate) index_head_weight: Persistent<bf16>,
    pub(crate) index_key_weight: Persistent<bf16>,
    pub(crate) index_key_norm: Persistent<f32>,
    pub(crate) sink: Persistent<f32>,
    pub(crate) index_keys: Persistent<bf16>,
    pub(crate) latents: Persistent<bf16>,
}

/// What a layer is recorded with.
pub(crate) struct Recorder<'a> {
    pub(crate) kernels: &'a Kernels,
    pub(crate) sizes: &'a Sizes,
    pub(crate) keys_layout: IndexKeyPages,
    pub(crate) latent_layout: LatentPages,
    pub(crate) batch: &'a Batch,
    /// Whether the indexer has a stream of its own.
    pub(crate) overlap: bool,
}

impl Recorder<'_> {
    /// Records all layers, from the batch's input to its output.
    pub(crate) fn record(&self, capture: &Capture, layers: &[Layer]) -> Result<()> {
        let main = capture.origin();
        let mut x = main.scratch("x", self.batch.input.len())?;
        main.scope("input").copy(&x, &self.batch.input)?;
        for (number, layer) in layers.iter().enumerate() {
            x = self.layer(capture, &main, layer, number, &x)?;
        }
        main.scope("output").copy(&self.batch.output, &x)?;
        Ok(())
    }

    fn layer(
        &self,
        capture: &Capture,
        main: &Stream,
        layer: &Layer,
        number: usize,
        x: &Scratch<bf16>,
    ) -> Result<Scratch<bf16>> {
        let indexer = capture
            .fork_if(self.overlap, main, "indexer")?
            .scope(&format!("layer {number}/indexer"));
        let main = &main.scope(&format!("layer {number}"));
        let indices = self.index(&indexer, layer, x)?;
        let queries = self.project(main, x, &layer.query_weight, self.sizes.query())?;
        let seen = capture.join(main, indexer)?;

        let (tokens, sizes) = (self.batch.tokens, self.sizes);
        let attention = main.scratch::<bf16>("attention", queries.len())?;
        main.launch(
            &self.kernels.attention,
            gather_attention {
                q: &queries,
                latent: &layer.latents,
                indices: seen.see(&indices),
                sink: &layer.sink,
                out: &attention,
                layout: self.latent_layout,
                tokens,
                heads: sizes.heads,
                selected: sizes.top_k,
                scale: gather_attention::scale(sizes.head_dim),
            },
        )?;
        drop(queries);
        let next = main.scratch("x", x.len())?;
        main.launch(
            &self.kernels.mix,
            mix {
                x,
                attention: &attention,
                next: &next,
                tokens,
                width: sizes.width,
                values: sizes.query(),
            },
        )?;
        Ok(next)
    }

    /// `rows` values of each token: the tokens times a weight.
    fn project(
        &self,
        stream: &Stream,
        x: &Scratch<bf16>,
        weight: &Persistent<bf16>,
        rows: u32,
    ) -> Result<Scratch<bf16>> {
        let (tokens, width) = (self.batch.tokens, self.sizes.width);
        let made = stream.scratch("projection", (tokens * rows) as usize)?;
        stream.launch(
            &self.kernels.projection,
            query_projection {
                x,
                weight,
                q: &made,
                tokens,
                width,
                rows,
            },
        )?;
        Ok(made)
    }

    /// Which entries each token attends to.
    fn index(&self, indexer: &Stream, layer: &Layer, x: &Scratch<bf16>) -> Result<Scratch<i32>> {
        let (batch, sizes, kernels) = (self.batch, self.sizes, self.kernels);
        let (tokens, heads, stride) = (batch.tokens, sizes.index_heads, sizes.table_stride());
        indexer.launch(
            &kernels.key_store,
            index_key_store {
                x,
                weight: &layer.index_key_weight,
                norm: &layer.index_key_norm,
                out_loc: &batch.out_loc,
                keys: &layer.index_keys,
                layout: self.keys_layout,
                tokens,
                width: sizes.width,
                epsilon: EPSILON,
            },
        )?;
        let queries = self.project(indexer, x, &layer.index_query_weight, sizes.index_query())?;
        let weights = indexer.scratch::<f32>("index weights", (tokens * heads) as usize)?;
        indexer.launch(
            &kernels.head_weights,
            index_weights {
                x,
                weight: &layer.index_head_weight,
                weights: &weights,
                tokens,
                width: sizes.width,
                heads,
                scale: index_weights::scale(sizes.index_dim, heads),
            },
        )?;
        let logits = indexer.scratch::<f32>("logits", (tokens * sizes.entries) as usize)?;
        indexer.launch(
            &kernels.logits,
            indexer_logits {
                q: &queries,
                weights: &weights,
                keys: &layer.index_keys,
                page_table: &batch.page_table,
                lens: &batch.lens,
                logits: &logits,
                layout: self.keys_layout,
                tokens,
                heads,
                table_stride: stride,
                max_entries: sizes.entries,
            },
        )?;
        drop((queries, weights));
        let indices = indexer.scratch::<i32>("indices", (tokens * sizes.top_k) as usize)?;
        indexer.launch(
            &kernels.top_k,
            top_k {
                logits: &logits,
                page_table: &batch.page_table,
                lens: &batch.lens,
                indices: &indices,
                layout: self.latent_layout,
                tokens,
                max_entries: sizes.entries,
                table_stride: stride,
                k: sizes.top_k,
            },
        )?;
        Ok(indices)
    }
}
