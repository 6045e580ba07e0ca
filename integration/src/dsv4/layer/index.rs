//! The indexer: keys of its own, queries, logits, and the selection.

use half::bf16;
use streamweir::kernels::dsv4::{
    compress_index_key, compress_index_key_fp8, index_query, index_query_fp8, index_weights,
    indexer_logits, indexer_logits_fp8, top_k_fp8,
};
use streamweir::{Scratch, Stream};

use super::Layer;
use crate::dsv4::cache::{Entries, IndexKeyPool};
use crate::dsv4::config::{EPSILON, INDEX_DIM};
use crate::dsv4::error::Error;

/// Queries in the format of the keys.
enum Queries {
    Bf16(Scratch<bf16>),
    Fp8(Scratch<u8>),
}

impl Layer<'_> {
    /// Which entries each token attends to, as slots of the C4 pool. The streams
    /// of the weights and of the queries are joined into that of the indexer.
    pub(super) fn index(
        &self,
        indexer: &Stream,
        idx_weights: Stream,
        idx_q: Stream,
        h: &Scratch<bf16>,
        q_lora: &Scratch<bf16>,
    ) -> Result<Scratch<i32>, Error> {
        let (step, capture) = (self.step, self.step.capture);
        let config = &step.model.config;
        let (
            Entries::C4 {
                keys, key_rings, ..
            },
            Some(weights),
        ) = (&self.cache.entries, &self.weights.indexer)
        else {
            unreachable!("a layer is of one kind, by its number");
        };
        self.store_keys(indexer, h, keys, key_rings)?;

        let projected = idx_weights.scratch::<f32>("head weights", step.len(config.index_heads))?;
        let head_weights = &weights.head_weights;
        step.products
            .head_weights
            .launch(&idx_weights, h, head_weights, &projected)?;
        capture.join(&idx_q, idx_weights)?;

        let idx_q = idx_q.scope(&format!("layer {}/idx_q", self.number));
        let (queries, folded) = self.queries(&idx_q, q_lora, &projected, keys)?;
        drop(projected);
        capture.join(indexer, idx_q)?;

        let logits = self.logits(indexer, &queries, &folded, keys)?;
        drop((queries, folded));
        self.select(indexer, &logits)
    }

    /// Index keys of complete groups, into the pool.
    fn store_keys(
        &self,
        indexer: &Stream,
        h: &Scratch<bf16>,
        keys: &IndexKeyPool,
        rings: &streamweir::Persistent<f32>,
    ) -> Result<(), Error> {
        let (step, model) = (self.step, self.step.model);
        let Some(weights) = self.weights.indexer.as_ref().map(|w| &w.compressor) else {
            return Ok(());
        };
        let rows = step.rows;
        let (slots, positions) = (model.geometry.slots, model.config.max_context);
        let scores = indexer.scratch::<f32>("key and scores", step.len(4 * INDEX_DIM))?;
        let weight = &weights.kv_score;
        step.products
            .key_scores
            .launch(indexer, h, weight, &scores)?;
        let lens = model.inputs.seq_lens(rows)?;
        let state_slots = model.inputs.state_slots(rows)?;
        let rope = model.weights.rope(self.kind);
        let out_loc = &step.metadata.c4_out_loc;
        // The kernels differ in the element of the pool alone.
        macro_rules! args {
            ($kernel:ident, $pool:ident, $pages:ident) => {
                $kernel {
                    kv_score: &scores,
                    ape: &weights.ape,
                    norm: &weights.norm,
                    rope,
                    seq_lens: &lens,
                    state_slots: &state_slots,
                    out_loc,
                    rings,
                    pool: $pool,
                    faults: &model.faults,
                    layout: *$pages,
                    tokens: rows,
                    slots,
                    rope_rows: positions,
                    epsilon: EPSILON,
                }
            };
        }
        let kernels = &model.kernels;
        match keys {
            IndexKeyPool::Bf16(pool, pages) => {
                indexer.launch(
                    &kernels.compress_key,
                    args!(compress_index_key, pool, pages),
                )?;
            }
            IndexKeyPool::Fp8(pool, pages) => {
                let args = args!(compress_index_key_fp8, pool, pages);
                indexer.launch(&kernels.compress_key_fp8, args)?;
            }
        }
        Ok(())
    }

    /// Index queries, and the weights of the heads with all scales in them.
    fn queries(
        &self,
        idx_q: &Stream,
        q_lora: &Scratch<bf16>,
        projected: &Scratch<f32>,
        keys: &IndexKeyPool,
    ) -> Result<(Queries, Scratch<f32>), Error> {
        let (step, model) = (self.step, self.step.model);
        let Some(weights) = &self.weights.indexer else {
            unreachable!("a layer with index keys has an indexer");
        };
        let (rows, heads, positions) = (
            step.rows,
            model.config.index_heads,
            model.config.max_context,
        );
        let scale = index_weights::scale(INDEX_DIM, heads);
        let len = step.len(model.config.index_query());
        let raw = idx_q.scratch::<bf16>("index q", len)?;
        step.products
            .index_q_b
            .launch(idx_q, q_lora, &weights.q_b, &raw)?;
        let folded = idx_q.scratch::<f32>("folded weights", step.len(heads))?;
        let rope = model.weights.rope(self.kind);
        let at = &step.metadata.positions;
        let faults = &model.faults;
        // The kernels differ in the element of the queries alone.
        macro_rules! args {
            ($kernel:ident, $queries:ident) => {
                $kernel {
                    q: &raw,
                    projected,
                    rope,
                    positions: at,
                    query: &$queries,
                    weights: &folded,
                    faults,
                    tokens: rows,
                    heads,
                    rope_rows: positions,
                    scale,
                }
            };
        }
        let kernels = &model.kernels;
        let queries = match keys {
            IndexKeyPool::Bf16(..) => {
                let queries = idx_q.scratch::<bf16>("index queries", len)?;
                idx_q.launch(&kernels.index_query, args!(index_query, queries))?;
                Queries::Bf16(queries)
            }
            IndexKeyPool::Fp8(..) => {
                let queries = idx_q.scratch::<u8>("index queries", len)?;
                idx_q.launch(&kernels.index_query_fp8, args!(index_query_fp8, queries))?;
                Queries::Fp8(queries)
            }
        };
        Ok((queries, folded))
    }

    fn logits(
        &self,
        indexer: &Stream,
        queries: &Queries,
        folded: &Scratch<f32>,
        keys: &IndexKeyPool,
    ) -> Result<Scratch<f32>, Error> {
        let (step, model) = (self.step, self.step.model);
        let (rows, heads) = (step.rows, model.config.index_heads);
        let (stride, entries) = (model.config.table_stride(), self.max_entries());
        let logits = indexer.scratch::<f32>("logits", step.len(entries))?;
        let table = model.inputs.page_table(rows)?;
        let lens = &step.metadata.c4_lens;
        // The kernels differ in the elements of queries and keys alone.
        macro_rules! args {
            ($kernel:ident, $queries:ident, $pool:ident, $pages:ident) => {
                $kernel {
                    q: $queries,
                    weights: folded,
                    keys: $pool,
                    page_table: &table,
                    lens,
                    logits: &logits,
                    layout: *$pages,
                    tokens: rows,
                    heads,
                    table_stride: stride,
                    max_entries: entries,
                }
            };
        }
        let kernels = &model.kernels;
        match (queries, keys) {
            (Queries::Bf16(queries), IndexKeyPool::Bf16(pool, pages)) => {
                let args = args!(indexer_logits, queries, pool, pages);
                indexer.launch(&kernels.logits, args)?;
            }
            (Queries::Fp8(queries), IndexKeyPool::Fp8(pool, pages)) => {
                let args = args!(indexer_logits_fp8, queries, pool, pages);
                indexer.launch(&kernels.logits_fp8, args)?;
            }
            _ => unreachable!("queries are made in the format of the keys"),
        }
        Ok(logits)
    }

    fn select(&self, indexer: &Stream, logits: &Scratch<f32>) -> Result<Scratch<i32>, Error> {
        let (step, model) = (self.step, self.step.model);
        let (rows, k) = (step.rows, model.config.top_k);
        let (stride, entries) = (model.config.table_stride(), self.max_entries());
        let pages = self.c4_pages();
        let indices = indexer.scratch::<i32>("indices", step.len(k))?;
        indexer.launch(
            &model.kernels.top_k,
            top_k_fp8 {
                logits,
                page_table: &model.inputs.page_table(rows)?,
                lens: &step.metadata.c4_lens,
                indices: &indices,
                layout: pages,
                tokens: rows,
                max_entries: entries,
                table_stride: stride,
                k,
            },
        )?;
        Ok(indices)
    }

    /// The most entries of a sequence.
    fn max_entries(&self) -> u32 {
        self.step.model.config.max_context / 4
    }
}
