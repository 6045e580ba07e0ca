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
    gather_attention, image, index_key_store, index_weights, indexer_logits, mix, query_projection,
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
        let module = device.load(&image(device.info())?)?;
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
            gather_attention::shape(tokens, sizes.heads, sizes.top_k, &self.latent_layout)?,
            (
                &queries,
                &layer.latents,
                seen.see(&indices),
                &layer.sink,
                &attention,
                self.latent_layout,
                tokens,
                sizes.heads,
                sizes.top_k,
                gather_attention::scale(sizes.head_dim),
            ),
        )?;
        drop(queries);
        let next = main.scratch("x", x.len())?;
        main.launch(
            &self.kernels.mix,
            mix::shape(tokens, sizes.width, sizes.query())?,
            (x, &attention, &next, tokens, sizes.width, sizes.query()),
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
            query_projection::shape(tokens, width, rows)?,
            (x, weight, &made, tokens, width, rows),
        )?;
        Ok(made)
    }

    /// Which entries each token attends to.
    fn index(&self, indexer: &Stream, layer: &Layer, x: &Scratch<bf16>) -> Result<Scratch<i32>> {
        let (batch, sizes, kernels) = (self.batch, self.sizes, self.kernels);
        let (tokens, heads, stride) = (batch.tokens, sizes.index_heads, sizes.table_stride());
        indexer.launch(
            &kernels.key_store,
            index_key_store::shape(tokens, sizes.width, &self.keys_layout)?,
            (
                x,
                &layer.index_key_weight,
                &layer.index_key_norm,
                &batch.out_loc,
                &layer.index_keys,
                self.keys_layout,
                tokens,
                sizes.width,
                EPSILON,
            ),
        )?;
        let queries = self.project(indexer, x, &layer.index_query_weight, sizes.index_query())?;
        let weights = indexer.scratch::<f32>("index weights", (tokens * heads) as usize)?;
        indexer.launch(
            &kernels.head_weights,
            index_weights::shape(tokens, sizes.width, heads)?,
            (
                x,
                &layer.index_head_weight,
                &weights,
                tokens,
                sizes.width,
                heads,
                index_weights::scale(sizes.index_dim, heads),
            ),
        )?;
        let logits = indexer.scratch::<f32>("logits", (tokens * sizes.entries) as usize)?;
        indexer.launch(
            &kernels.logits,
            indexer_logits::shape(tokens, heads, stride, sizes.entries, &self.keys_layout)?,
            (
                &queries,
                &weights,
                &layer.index_keys,
                &batch.page_table,
                &batch.lens,
                &logits,
                self.keys_layout,
                tokens,
                heads,
                stride,
                sizes.entries,
            ),
        )?;
        drop((queries, weights));
        let indices = indexer.scratch::<i32>("indices", (tokens * sizes.top_k) as usize)?;
        indexer.launch(
            &kernels.top_k,
            top_k::shape(
                tokens,
                sizes.entries,
                stride,
                sizes.top_k,
                &self.latent_layout,
            )?,
            (
                &logits,
                &batch.page_table,
                &batch.lens,
                &indices,
                self.latent_layout,
                tokens,
                sizes.entries,
                stride,
                sizes.top_k,
            ),
        )?;
        Ok(indices)
    }
}
