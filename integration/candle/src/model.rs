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
use half::bf16;
use streamweir::kernels::layout::{IndexKeyPages, LatentPages};
use streamweir::{Capture, Event, Persistent};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layer::{Kernels, Layer, Recorder};
use crate::upload::upload;

/// Tokens of a page of either cache.
const PAGE: u32 = 64;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Layers.
    pub layers: usize,
    /// Tokens that the head chooses from.
    pub vocabulary: usize,
    /// Elements of a hidden state.
    pub width: u32,
    /// Heads of the attention.
    pub heads: u32,
    /// Elements of a head, and of a latent.
    pub head_dim: u32,
    /// Heads of the indexer.
    pub index_heads: u32,
    /// Elements of an index key.
    pub index_dim: u32,
    /// Compressed entries that a sequence has room for.
    pub entries: u32,
    /// Entries that the indexer selects.
    pub top_k: u32,
    /// Sequences that the caches have room for.
    pub sequences: u32,
}

impl Sizes {
    /// Small, in the proportions of DeepSeek-V4.
    pub const SMALL: Self = Self {
        layers: 3,
        vocabulary: 512,
        width: 64,
        heads: 8,
        head_dim: 64,
        index_heads: 4,
        index_dim: 16,
        entries: 256,
        top_k: 32,
        sequences: 8,
    };

    /// DeepSeek-V4 Flash with 16,384 compressed entries to a sequence, three
    /// layers of it.
    pub const FLASH: Self = Self {
        layers: 3,
        vocabulary: 4096,
        width: 4096,
        heads: 64,
        head_dim: 512,
        index_heads: 64,
        index_dim: 128,
        entries: 16_384,
        top_k: 512,
        sequences: 8,
    };

    pub(crate) const fn table_stride(&self) -> u32 {
        self.entries.div_ceil(PAGE)
    }

    /// Pages of a cache: page 0 belongs to nobody.
    const fn pages(&self) -> u32 {
        1 + self.sequences * self.table_stride()
    }

    pub(crate) const fn query(&self) -> u32 {
        self.heads * self.head_dim
    }

    pub(crate) const fn index_query(&self) -> u32 {
        self.index_heads * self.index_dim
    }
}

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

/// The tensors of a batch of one size: a bucket.
pub struct Batch {
    pub(crate) tokens: u32,
    pub(crate) input: Persistent<bf16>,
    pub(crate) output: Persistent<bf16>,
    pub(crate) page_table: Persistent<i32>,
    pub(crate) lens: Persistent<i32>,
    pub(crate) out_loc: Persistent<i32>,
    /// The events between candle's stream and an eager run.
    pub(crate) turn: [Event; 2],
    input_tensor: Tensor,
    output_tensor: Tensor,
    lens_tensor: Tensor,
    out_loc_tensor: Tensor,
    /// The pages of each sequence, as they are on the device.
    table: Vec<i32>,
}

impl Model {
    /// A model with weights by `seed`, on the adopted device.
    ///
    /// # Errors
    /// When the kernels do not take the sizes, or memory or the driver fails.
    pub fn new(engine: &Engine, device: &Device, sizes: Sizes, seed: u64) -> Result<Self> {
        let random = &mut Random(seed);
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
        let table = Random(u64::from(tokens)).pages(sizes, tokens);
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

    /// The hidden states that enter the first layer.
    pub fn input_tensor(&self) -> &Tensor {
        &self.input_tensor
    }

    /// The hidden states that leave the last layer.
    pub fn output_tensor(&self) -> &Tensor {
        &self.output_tensor
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

/// Values by a seed: SplitMix64, as Steele, Lea and Flood describe it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Numbers between `-scale` and `scale`.
    fn halves(&mut self, shape: (usize, usize), scale: f32, device: &Device) -> Result<Tensor> {
        let mut values = Vec::with_capacity(shape.0 * shape.1 + 3);
        while values.len() < shape.0 * shape.1 {
            let word = self.next().to_le_bytes();
            values.extend(word.chunks_exact(2).map(|half| {
                let number = i16::from_le_bytes([half[0], half[1]]);
                bf16::from_f32(f32::from(number) / 32768.0 * scale)
            }));
        }
        values.truncate(shape.0 * shape.1);
        Ok(Tensor::from_vec(values, shape, device)?)
    }

    /// The pages of `tokens` sequences, scattered over the cache.
    fn pages(&mut self, sizes: &Sizes, tokens: u32) -> Vec<i32> {
        let mut pages: Vec<i32> = (1..sizes.pages() as i32).collect();
        for at in (1..pages.len()).rev() {
            pages.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
        pages.truncate((tokens * sizes.table_stride()) as usize);
        pages
    }
}
