//! A small model in candle's tensors: an embedding, C4 layers, an output head.
//!
//! The embedding and the head are candle's ops. What replays read and write is
//! registered here once: the weights and caches for all batches, and for each
//! batch its hidden states, lengths and page table.
//!
//! A step reads no cache that an earlier run left wrong: it writes the index key
//! of each sequence's last entry before it reads it, and reads none beyond. So
//! runs from the same tokens agree, in whatever order they are made.

use candle_core::{D, DType, Device, Tensor};
use streamweir::Capture;
use streamweir::kernels::layout::{IndexKeyPages, LatentPages};

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layer::{Kernels, Layer, Recorder};
use crate::random::Random;
use crate::sizes::{PAGE, Sizes};
use crate::upload::upload;

/// Weights, caches and kernels.
pub struct Model {
    sizes: Sizes,
    kernels: Kernels,
    keys_layout: IndexKeyPages,
    latent_layout: LatentPages,
    embedding: Tensor,
    head: Tensor,
    layers: Vec<Layer>,
}

impl Model {
    /// A model with weights by `seed`, on the adopted device.
    ///
    /// # Errors
    /// When the kernels do not take the sizes, or memory or the driver fails.
    pub fn new(engine: &Engine, device: &Device, sizes: Sizes, seed: u64) -> Result<Self> {
        let random = &mut Random::new(seed);
        let width = sizes.width as usize;
        // The head and the embedding stay candle's: only its ops touch them.
        let embedding = random.halves((sizes.vocabulary, width), 1.0, device)?;
        let scale = 1.0 / f32::sqrt(sizes.width as f32);
        let head = random.halves((width, sizes.vocabulary), scale, device)?;
        Ok(Self {
            kernels: Kernels::load(engine.device())?,
            keys_layout: IndexKeyPages::bf16(sizes.index_dim, sizes.pages())?,
            latent_layout: LatentPages::bf16(sizes.head_dim, sizes.pages())?,
            layers: (0..sizes.layers)
                .map(|layer| Layer::new(engine, device, &sizes, layer, random))
                .collect::<Result<_>>()?,
            embedding,
            head,
            sizes,
        })
    }

    /// candle embeds the batch's tokens into its input tensor.
    ///
    /// # Errors
    /// When candle fails.
    pub fn embed(&self, batch: &Batch, tokens: &Tensor) -> Result<()> {
        let hidden = self.embedding.index_select(tokens, 0)?;
        Ok(batch.input_tensor.slice_set(&hidden, 0, 0)?)
    }

    /// candle chooses the most likely token of each sequence from the output.
    ///
    /// # Errors
    /// When candle fails.
    pub fn choose(&self, batch: &Batch) -> Result<Tensor> {
        let logits = batch.output_tensor.matmul(&self.head)?;
        Ok(logits.to_dtype(DType::F32)?.argmax(D::Minus1)?)
    }

    pub(crate) fn record(&self, capture: &Capture, batch: &Batch, overlap: bool) -> Result<()> {
        let recorder = Recorder {
            kernels: &self.kernels,
            sizes: &self.sizes,
            keys_layout: self.keys_layout,
            latent_layout: self.latent_layout,
            batch,
            overlap,
        };
        recorder.record(capture, &self.layers)
    }
}

impl Layer {
    fn new(
        engine: &Engine,
        device: &Device,
        sizes: &Sizes,
        layer: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let width = sizes.width as usize;
        let rows = sizes.pages() as usize * PAGE as usize;
        // Rows that give projections of about the size of the input, and so
        // selections and attention that depend on it.
        let scale = 3.0 / f32::sqrt(sizes.width as f32);
        let mut halves = |what: &str, rows: usize, columns: usize, scale: f32| {
            let tensor = random.halves((rows, columns), scale, device)?;
            // SAFETY: the tensor is not in reach of anybody else.
            unsafe { engine.persistent(&format!("layer {layer}: {what}"), &tensor) }
        };
        let floats = |what: &str, len: u32, value: f32| {
            let tensor = Tensor::full(value, len as usize, device)?.contiguous()?;
            // SAFETY: as above.
            unsafe { engine.persistent(&format!("layer {layer}: {what}"), &tensor) }
        };
        Ok(Self {
            query_weight: halves("query weight", sizes.query() as usize, width, scale)?,
            index_query_weight: halves(
                "index query weight",
                sizes.index_query() as usize,
                width,
                scale,
            )?,
            index_head_weight: halves(
                "index head weight",
                sizes.index_heads as usize,
                width,
                scale,
            )?,
            index_key_weight: halves("index key weight", sizes.index_dim as usize, width, scale)?,
            index_keys: halves("index keys", rows, sizes.index_dim as usize, 1.0)?,
            latents: halves("latents", rows, sizes.head_dim as usize, 1.0)?,
            index_key_norm: floats("index key norm", sizes.index_dim, 1.0)?,
            sink: floats("sink", sizes.heads, 0.0)?,
        })
    }
}

impl Batch {
    /// The tensors of a batch of `tokens` sequences.
    ///
    /// # Errors
    /// When the caches have no room for as many, or memory or the driver fails.
    pub fn new(engine: &Engine, device: &Device, model: &Model, tokens: u32) -> Result<Self> {
        let sizes = &model.sizes;
        if tokens > sizes.sequences {
            return Err(Error::Full {
                room: sizes.sequences,
                wanted: tokens,
            });
        }
        let count = tokens as usize;
        let table = Random::new(u64::from(tokens)).pages(sizes, tokens);
        let stride = sizes.table_stride() as usize;
        let hidden = |device| Tensor::zeros((count, sizes.width as usize), DType::BF16, device);
        let (input_tensor, output_tensor) = (hidden(device)?, hidden(device)?);
        let page_table = Tensor::from_slice(&table, (count, stride), device)?;
        let lens_tensor = Tensor::from_slice(&vec![0_i32; count], count, device)?;
        let out_loc_tensor = Tensor::from_slice(&vec![0_i32; count], count, device)?;
        let name = |what: &str| format!("batch of {tokens}: {what}");
        // SAFETY: none of the tensors gets other storage: those that stay
        // reachable are written by `slice_set` and by the ops here.
        unsafe {
            Ok(Self {
                tokens,
                input: engine.persistent(&name("input"), &input_tensor)?,
                output: engine.persistent(&name("output"), &output_tensor)?,
                page_table: engine.persistent(&name("page table"), &page_table)?,
                lens: engine.persistent(&name("lengths"), &lens_tensor)?,
                out_loc: engine.persistent(&name("out loc"), &out_loc_tensor)?,
                turn: [
                    engine.device().event(&name("before an eager run"))?,
                    engine.device().event(&name("after an eager run"))?,
                ],
                input_tensor,
                output_tensor,
                lens_tensor,
                out_loc_tensor,
                table,
            })
        }
    }

    /// Sets the length of all sequences, in entries. The last entry is the one
    /// that the next run writes.
    ///
    /// # Errors
    /// When there are no such entries, or candle fails.
    pub fn set_len(&self, model: &Model, len: u32) -> Result<()> {
        if len == 0 || len > model.sizes.entries {
            return Err(Error::Full {
                room: model.sizes.entries,
                wanted: len,
            });
        }
        let slots: Vec<i32> = self
            .table
            .chunks_exact(model.sizes.table_stride() as usize)
            .map(|sequence| model.keys_layout.slot(sequence, len - 1))
            .collect();
        upload(&vec![len as i32; slots.len()], &self.lens_tensor)?;
        upload(&slots, &self.out_loc_tensor)
    }
}
