//! One attention layer: what runs on which stream, and where streams meet.
//!
//! ```text
//! main         x ─ norm ─┬─ wqkv_a ─┬─ q norm ─┬─ wq_b ─ norm, rope ──────────────────────┬─ attention ─ wo_a ─ wo_b ─ next x
//! kv                     │          ├─ norm, rope, store in the window ───────────────────┤
//! compressor             ├─ kv and scores ─ compress, store entries ──────────────────────┤
//! indexer                │          └─ kv and scores ─ compress, store keys ─┬─ logits ─ top-k ┘
//! idx_weights            └─ head weights ─┐                                  │
//! idx_q                                   └────┴─ wq_b ─ rope, Hadamard ─────┘
//! ```
//!
//! That is [`Overlap::Full`]. A layer without entries has neither compressor nor
//! indexer, one with entries of 128 tokens no indexer. With [`Overlap::IndexerOnly`]
//! the three streams of the indexer are one, which waits for main's `q norm` and what
//! main did before; with [`Overlap::Off`] all are main. The same code records each of
//! them.

mod attend;
mod compress;
mod index;

use half::bf16;
use streamweir::kernels::dsv4::{norm_rope_heads, rms_norm, store_latent};
use streamweir::kernels::layout::LatentFp8Pages;
use streamweir::{Capture, Scratch, Stream, part};

use super::cache::{Entries, LayerCache};
use super::config::{EPSILON, LayerKind, Overlap};
use super::error::Error;
use super::metadata::Metadata;
use super::model::Model;
use super::products::Products;
use super::weights::LayerWeights;

/// What the layers of one step share.
pub(super) struct Step<'a> {
    pub(super) capture: &'a Capture,
    pub(super) model: &'a Model,
    pub(super) products: &'a Products,
    pub(super) metadata: &'a Metadata,
    pub(super) rows: u32,
    pub(super) overlap: Overlap,
}

/// One layer of a step.
struct Layer<'a> {
    step: &'a Step<'a>,
    number: u32,
    kind: LayerKind,
    weights: &'a LayerWeights,
    cache: &'a LayerCache,
}

impl Step<'_> {
    /// Records layer `number`, from its input to that of the next.
    pub(super) fn layer(
        &self,
        main: &Stream,
        number: u32,
        x: &Scratch<bf16>,
    ) -> Result<Scratch<bf16>, Error> {
        let layer = Layer {
            step: self,
            number,
            kind: self.model.config.kind(number),
            weights: &self.model.weights.layers[number as usize],
            cache: &self.model.caches[number as usize],
        };
        layer.record(&main.scope(&format!("layer {number}")), x)
    }

    pub(super) fn len(&self, each: u32) -> usize {
        self.rows as usize * each as usize
    }
}

impl Layer<'_> {
    fn record(&self, main: &Stream, x: &Scratch<bf16>) -> Result<Scratch<bf16>, Error> {
        let step = self.step;
        let (capture, config) = (step.capture, &step.model.config);
        let h = main.scratch::<bf16>("h", step.len(config.hidden))?;
        self.norm(main, x, &self.weights.norm, &h)?;

        // Work that needs h alone and is long begins beside the first projection.
        let full = step.overlap == Overlap::Full;
        let indexed = self.kind == LayerKind::C4;
        let compressor = self.fork(full && self.kind != LayerKind::Window, main, "compressor")?;
        let idx_weights = (indexed && full)
            .then(|| self.fork(true, main, "idx_weights"))
            .transpose()?;

        let qkv_a = main.scratch::<bf16>("qkv_a", step.len(config.qkv()))?;
        let weight = &self.weights.qkv_a;
        step.products.qkv_a.launch(main, &h, weight, &qkv_a)?;
        // The index keys have time until the index queries are there; begun beside the
        // projection they make the step longer.
        let indexer = self.fork(indexed && step.overlap != Overlap::Off, main, "indexer")?;
        let idx_weights = match idx_weights {
            Some(stream) => stream,
            // The indexer has one stream for all.
            None => self.fork(false, &indexer, "idx_weights")?,
        };
        let kv = self.fork(full, main, "kv")?;
        self.store_window(&kv, &qkv_a)?;
        let q_lora = main.scratch::<bf16>("q_lora", step.len(config.q_lora))?;
        self.norm_part(main, &qkv_a, &q_lora)?;

        self.compress(&compressor, &h)?;
        let selected = match &self.cache.entries {
            Entries::C4 { .. } => {
                let idx_q = match step.overlap {
                    Overlap::Full => capture.fork(main, "idx_q")?,
                    // The one stream of the indexer waits for main's q_lora.
                    Overlap::IndexerOnly => {
                        capture.join(&indexer, capture.fork_if(false, main, "idx_q")?)?;
                        capture.fork_if(false, &indexer, "idx_q")?
                    }
                    Overlap::Off => capture.fork_if(false, main, "idx_q")?,
                };
                Some(self.index(&indexer, idx_weights, idx_q, &h, &q_lora)?)
            }
            Entries::None | Entries::C128 { .. } => None,
        };

        let q = main.scratch::<bf16>("q", step.len(config.query()))?;
        let weight = &self.weights.q_b;
        step.products.q_b.launch(main, &q_lora, weight, &q)?;
        main.launch(
            &step.model.kernels.norm_rope,
            norm_rope_heads {
                q: &q,
                rope: step.model.weights.rope(self.kind),
                positions: &step.metadata.positions,
                faults: &step.model.faults,
                tokens: step.rows,
                heads: config.heads,
                rope_rows: config.max_context,
                epsilon: EPSILON,
            },
        )?;

        // Where main needs them, and no earlier.
        capture.join(main, kv)?;
        capture.join(main, compressor)?;
        capture.join(main, indexer)?;
        let attention = self.attend(main, &q, selected.as_ref())?;
        drop(q);
        if let (Some(kept), Some(selected)) = (step.model.selected.get(&self.number), &selected) {
            main.copy(part(kept, 0..selected.len())?, selected)?;
        }
        drop(selected);
        self.project(main, x, attention)
    }

    fn fork(&self, on: bool, main: &Stream, name: &str) -> Result<Stream, Error> {
        let stream = self.step.capture.fork_if(on, main, name)?;
        Ok(stream.scope(&format!("layer {}/{name}", self.number)))
    }

    /// Norm of whole rows.
    fn norm(
        &self,
        stream: &Stream,
        x: &Scratch<bf16>,
        norm: &streamweir::Persistent<f32>,
        out: &Scratch<bf16>,
    ) -> Result<(), Error> {
        let (rows, width) = (self.step.rows, self.step.model.config.hidden);
        Ok(stream.launch(
            &self.step.model.kernels.rms_norm,
            rms_norm {
                x,
                norm,
                out,
                tokens: rows,
                width,
                stride: width,
                first: 0,
                epsilon: EPSILON,
            },
        )?)
    }

    /// Norm of the queries' part of the first projection.
    fn norm_part(
        &self,
        main: &Stream,
        qkv_a: &Scratch<bf16>,
        q_lora: &Scratch<bf16>,
    ) -> Result<(), Error> {
        let (rows, config) = (self.step.rows, &self.step.model.config);
        let (width, stride) = (config.q_lora, config.qkv());
        Ok(main.launch(
            &self.step.model.kernels.rms_norm,
            rms_norm {
                x: qkv_a,
                norm: &self.weights.q_norm,
                out: q_lora,
                tokens: rows,
                width,
                stride,
                first: 0,
                epsilon: EPSILON,
            },
        )?)
    }

    /// The latent of each token, into the sliding window.
    fn store_window(&self, kv: &Stream, qkv_a: &Scratch<bf16>) -> Result<(), Error> {
        let step = self.step;
        let (config, pages) = (&step.model.config, step.model.geometry.window);
        let (stride, first, rope_rows) = (config.qkv(), config.q_lora, config.max_context);
        Ok(kv.launch(
            &step.model.kernels.store_latent,
            store_latent {
                x: qkv_a,
                norm: &self.weights.kv_norm,
                rope: step.model.weights.rope(self.kind),
                positions: &step.metadata.positions,
                out_loc: &step.metadata.window_out_loc,
                pool: &self.cache.window,
                faults: &step.model.faults,
                layout: pages,
                tokens: step.rows,
                stride,
                first,
                rope_rows,
                epsilon: EPSILON,
            },
        )?)
    }

    fn c4_pages(&self) -> LatentFp8Pages {
        self.step.model.geometry.c4
    }
}
