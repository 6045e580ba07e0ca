//! One C4 layer: the indexer on a side stream, the queries on main.
//!
//! ```text
//! main     x ─┬──────── queries ──────────────┬─ attention ─ mix ─ next x
//!             │ fork                          │ join
//! indexer     └─ key store ─ index queries ─ weights ─ logits ─ top-k
//! ```
//!
//! The code drops each temporary right after launching its last user, as the
//! reference counts of an engine's tensors do. Those drops are where the arms
//! part: the logits are dropped while the indexer still computes them, and the
//! queries are the next that main asks memory for.

use std::any::Any;

use half::bf16;
use streamweir_kernels::dsv4::{
    gather_attention, index_key_store, index_weights, indexer_logits, mix, query_projection, top_k,
};
use streamweir_sched::kernel::Element;
use streamweir_sched::{Capture, Scratch, Stream};

use super::arm::{Plan, Repair};
use super::error::Error;
use super::model::{LayerState, Model};

/// Added to the mean square when an index key is normalised.
const EPSILON: f32 = 1e-6;

impl Model {
    /// Records all layers, from the input to the output.
    pub(super) fn record(&self, capture: &Capture, plan: Plan) -> Result<(), Error> {
        let main = capture.origin();
        let mut x = main.scratch("x", self.dims.hidden())?;
        main.scope("input").copy(&x, &self.input)?;
        for (number, layer) in self.layers.iter().enumerate() {
            x = self.layer(capture, &main, layer, number, &x, plan)?;
        }
        main.scope("output").copy(&self.output, &x)?;
        Ok(())
    }

    fn layer(
        &self,
        capture: &Capture,
        main: &Stream,
        layer: &LayerState,
        number: usize,
        x: &Scratch<bf16>,
        plan: Plan,
    ) -> Result<Scratch<bf16>, Error> {
        let dims = &self.dims;
        let indexer = capture
            .fork_if(plan.overlap, main, "indexer")?
            .scope(&format!("layer {number}/indexer"));
        let main = &main.scope(&format!("layer {number}"));
        let mut finished = Finished::new(plan);
        let indices = self.index(&indexer, layer, x, &mut finished)?;
        let indexer = if plan.repair == Some(Repair::JoinFirst) {
            capture.join(main, indexer)?;
            None
        } else {
            Some(indexer)
        };

        let queries = main.scratch::<bf16>("queries", (dims.tokens * dims.query()) as usize)?;
        main.launch(
            &self.kernels.projection,
            query_projection::shape(dims.tokens, dims.width, dims.query())?,
            (
                x,
                &layer.query_weight,
                &queries,
                dims.tokens,
                dims.width,
                dims.query(),
            ),
        )?;

        if let Some(indexer) = indexer {
            capture.join(main, indexer)?;
        }
        drop(finished);
        self.attend(main, layer, x, queries, &indices)
    }

    /// Which entries each token attends to.
    fn index(
        &self,
        indexer: &Stream,
        layer: &LayerState,
        x: &Scratch<bf16>,
        finished: &mut Finished,
    ) -> Result<Scratch<i32>, Error> {
        let dims = &self.dims;
        let (tokens, heads) = (dims.tokens, dims.index_heads);
        indexer.launch(
            &self.kernels.key_store,
            index_key_store::shape(tokens, dims.width, &self.keys_layout)?,
            (
                x,
                &layer.index_key_weight,
                &layer.index_key_norm,
                &self.out_loc,
                &layer.index_keys,
                self.keys_layout,
                tokens,
                dims.width,
                EPSILON,
            ),
        )?;
        let queries =
            indexer.scratch::<bf16>("index queries", (tokens * dims.index_query()) as usize)?;
        indexer.launch(
            &self.kernels.projection,
            query_projection::shape(tokens, dims.width, dims.index_query())?,
            (
                x,
                &layer.index_query_weight,
                &queries,
                tokens,
                dims.width,
                dims.index_query(),
            ),
        )?;
        let weights = indexer.scratch::<f32>("index weights", (tokens * heads) as usize)?;
        indexer.launch(
            &self.kernels.head_weights,
            index_weights::shape(tokens, dims.width, heads)?,
            (
                x,
                &layer.index_head_weight,
                &weights,
                tokens,
                dims.width,
                heads,
                index_weights::scale(dims.index_dim, heads),
            ),
        )?;
        let logits = indexer.scratch::<f32>("logits", (tokens * dims.entries) as usize)?;
        indexer.launch(
            &self.kernels.logits,
            indexer_logits::shape(
                tokens,
                heads,
                dims.table_stride(),
                dims.entries,
                &self.keys_layout,
            )?,
            (
                &queries,
                &weights,
                &layer.index_keys,
                &self.page_table,
                &self.lens,
                &logits,
                self.keys_layout,
                tokens,
                heads,
                dims.table_stride(),
                dims.entries,
            ),
        )?;
        finished.with(queries);
        finished.with(weights);
        let indices = indexer.scratch::<i32>("indices", dims.selected())?;
        indexer.launch(
            &self.kernels.top_k,
            top_k::shape(
                tokens,
                dims.entries,
                dims.table_stride(),
                dims.top_k,
                &self.latent_layout,
            )?,
            (
                &logits,
                &self.page_table,
                &self.lens,
                &indices,
                self.latent_layout,
                tokens,
                dims.entries,
                dims.table_stride(),
                dims.top_k,
            ),
        )?;
        finished.with(logits);
        Ok(indices)
    }

    /// Attention over the selected entries, and the step to the next layer.
    fn attend(
        &self,
        main: &Stream,
        layer: &LayerState,
        x: &Scratch<bf16>,
        queries: Scratch<bf16>,
        indices: &Scratch<i32>,
    ) -> Result<Scratch<bf16>, Error> {
        let dims = &self.dims;
        let attention = main.scratch::<bf16>("attention", queries.len())?;
        main.launch(
            &self.kernels.attention,
            gather_attention::shape(dims.tokens, dims.heads, dims.top_k, &self.latent_layout)?,
            (
                &queries,
                &layer.latents,
                indices,
                &layer.sink,
                &attention,
                self.latent_layout,
                dims.tokens,
                dims.heads,
                dims.top_k,
                gather_attention::scale(dims.head_dim),
            ),
        )?;
        drop(queries);
        main.copy(&layer.selected, indices)?;
        let next = main.scratch("x", dims.hidden())?;
        main.launch(
            &self.kernels.mix,
            mix::shape(dims.tokens, dims.width, dims.query())?,
            (x, &attention, &next, dims.tokens, dims.width, dims.query()),
        )?;
        Ok(next)
    }
}

/// The temporaries of the indexer whose last user has been launched.
struct Finished {
    /// Where a repaired layer keeps them until the join.
    held: Option<Vec<Box<dyn Any>>>,
}

impl Finished {
    fn new(plan: Plan) -> Self {
        Self {
            held: (plan.repair == Some(Repair::HoldToJoin)).then(Vec::new),
        }
    }

    /// The host is done with a buffer, and drops it.
    fn with<T: Element>(&mut self, buffer: Scratch<T>) {
        match &mut self.held {
            Some(held) => held.push(Box::new(buffer)),
            None => drop(buffer),
        }
    }
}
