//! Weights, caches and inputs: what is persistent.
//!
//! A replay needs no reset. It reads the inputs, and what it writes of the
//! caches, the index key of each sequence's last entry, it writes before it
//! reads it: a key that an earlier replay got wrong does not live on.

use half::bf16;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use streamweir_kernels::dsv4::{
    gather_attention, image, index_key_store, index_weights, indexer_logits, mix, query_projection,
    top_k,
};
use streamweir_kernels::layout::{IndexKeyPages, LatentPages};
use streamweir_sched::{Device, LoadedKernel, Persistent};

use super::error::Error;
use super::sizes::{Dims, Size};
use crate::common::units;

/// A few chained layers with their caches, one batch of inputs, and room for
/// the results.
pub(super) struct Model {
    pub(super) dims: Dims,
    pub(super) kernels: Kernels,
    pub(super) keys_layout: IndexKeyPages,
    pub(super) latent_layout: LatentPages,
    pub(super) layers: Vec<LayerState>,
    /// The hidden state that enters the first layer.
    pub(super) input: Persistent<bf16>,
    pub(super) page_table: Persistent<i32>,
    /// Compressed entries of each sequence.
    pub(super) lens: Persistent<i32>,
    /// The slot of each sequence's last entry.
    pub(super) out_loc: Persistent<i32>,
    /// The hidden state that leaves the last layer.
    pub(super) output: Persistent<bf16>,
}

/// What one layer has of its own.
pub(super) struct LayerState {
    pub(super) query_weight: Persistent<bf16>,
    pub(super) index_query_weight: Persistent<bf16>,
    pub(super) index_head_weight: Persistent<bf16>,
    pub(super) index_key_weight: Persistent<bf16>,
    pub(super) index_key_norm: Persistent<f32>,
    pub(super) sink: Persistent<f32>,
    pub(super) index_keys: Persistent<bf16>,
    pub(super) latents: Persistent<bf16>,
    /// A copy of what was selected, for comparison.
    pub(super) selected: Persistent<i32>,
}

/// The kernels of a layer, loaded.
pub(super) struct Kernels {
    pub(super) projection: LoadedKernel<query_projection>,
    pub(super) key_store: LoadedKernel<index_key_store>,
    pub(super) head_weights: LoadedKernel<index_weights>,
    pub(super) logits: LoadedKernel<indexer_logits>,
    pub(super) top_k: LoadedKernel<top_k>,
    pub(super) attention: LoadedKernel<gather_attention>,
    pub(super) mix: LoadedKernel<mix>,
}

impl Model {
    pub(super) fn new(device: &Device, size: Size, seed: u64) -> Result<Self, Error> {
        let dims = size.dims();
        let random = &mut Random(StdRng::seed_from_u64(seed));
        let keys_layout = IndexKeyPages::bf16(dims.index_dim, dims.pages())?;
        let latent_layout = LatentPages::bf16(dims.head_dim, dims.pages())?;
        let kernels = Kernels::load(device)?;

        let table = random.page_table(&dims);
        let last_entry = |sequence: &[i32]| keys_layout.slot(sequence, dims.entries - 1);
        let out_loc: Vec<i32> = table
            .chunks_exact(dims.table_stride() as usize)
            .map(last_entry)
            .collect();
        let layers = (0..dims.layers)
            .map(|layer| LayerState::new(device, &dims, layer, random))
            .collect::<Result<_, _>>()?;
        let input = random.halves(dims.hidden(), 1.0);
        Ok(Self {
            kernels,
            keys_layout,
            latent_layout,
            layers,
            input: device.persistent_from("input", &input)?,
            page_table: device.persistent_from("page table", &table)?,
            lens: device.persistent_from(
                "sequence lengths",
                &vec![dims.entries as i32; dims.tokens as usize],
            )?,
            out_loc: device.persistent_from("out loc", &out_loc)?,
            output: device.persistent("output", dims.hidden())?,
            dims,
        })
    }
}

impl LayerState {
    fn new(
        device: &Device,
        dims: &Dims,
        layer: usize,
        random: &mut Random,
    ) -> Result<Self, streamweir_sched::Error> {
        let width = dims.width as usize;
        // Rows that give projections of about the size of the input, and so
        // selections and attention that depend on it.
        let scale = 3.0 / f32::sqrt(dims.width as f32);
        let mut halves = |name: &str, len: usize, scale: f32| {
            device.persistent_from(
                &format!("layer {layer}: {name}"),
                &random.halves(len, scale),
            )
        };
        let tokens = dims.pages() as usize * Dims::PAGE as usize;
        Ok(Self {
            query_weight: halves("query weight", dims.query() as usize * width, scale)?,
            index_query_weight: halves(
                "index query weight",
                dims.index_query() as usize * width,
                scale,
            )?,
            index_head_weight: halves(
                "index head weight",
                dims.index_heads as usize * width,
                scale,
            )?,
            index_key_weight: halves("index key weight", dims.index_dim as usize * width, scale)?,
            index_keys: halves("index keys", tokens * dims.index_dim as usize, 1.0)?,
            latents: halves("latents", tokens * dims.head_dim as usize, 1.0)?,
            index_key_norm: device.persistent_from(
                &format!("layer {layer}: index key norm"),
                &vec![1.0; dims.index_dim as usize],
            )?,
            sink: device.persistent_from(
                &format!("layer {layer}: sink"),
                &vec![0.0; dims.heads as usize],
            )?,
            selected: device.persistent(&format!("layer {layer}: selected"), dims.selected())?,
        })
    }
}

impl Kernels {
    fn load(device: &Device) -> Result<Self, Error> {
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

/// Values by a seed.
struct Random(StdRng);

impl Random {
    /// Numbers between `-scale` and `scale`.
    fn halves(&mut self, len: usize, scale: f32) -> Vec<bf16> {
        units(&mut self.0, len)
            .map(|unit| bf16::from_f32(unit * scale))
            .collect()
    }

    /// The pages of all sequences, scattered over the pool as they are after
    /// hours of serving.
    fn page_table(&mut self, dims: &Dims) -> Vec<i32> {
        let mut pages: Vec<i32> = (1..dims.pages() as i32).collect();
        pages.shuffle(&mut self.0);
        pages
    }
}
