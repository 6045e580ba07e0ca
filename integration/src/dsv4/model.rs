//! The model on a device: weights, caches, inputs, and one step as it is
//! recorded.

use half::bf16;
use streamweir_kernels::dsv4::{
    AttentionSplits, PageFaults, argmax, embed, rms_norm, sparse_attention,
};
use streamweir_kernels::gemm::GemmLibrary;
use streamweir_sched::{Capture, Device, Persistent, part};

use super::cache::{Geometry, LayerCache};
use super::config::{Config, IndexKeys, Overlap};
use super::content::Content;
use super::error::Error;
use super::inputs::Inputs;
use super::kernels::Kernels;
use super::layer::{EPSILON, Step};
use super::metadata::Metadata;
use super::products::Products;
use super::weights::ModelWeights;

/// How large the caches are, and for how many rows there are inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences at a time.
    pub sequences: u32,
    /// Pages of 256 tokens, the one of nobody included.
    pub pages: u32,
    /// The most rows of a step.
    pub rows: u32,
}

/// Everything persistent.
pub(super) struct Model {
    pub(super) config: Config,
    pub(super) geometry: Geometry,
    pub(super) kernels: Kernels,
    pub(super) library: GemmLibrary,
    pub(super) weights: ModelWeights,
    pub(super) caches: Vec<LayerCache>,
    pub(super) inputs: Inputs,
    /// Ids that no pool has and positions that no table has, counted by the
    /// kernels.
    pub(super) faults: Persistent<u32>,
    /// Page ids that the pools do not have, and where the first of them stands.
    pub(super) page_faults: Persistent<u32>,
    /// The last hidden state of each row.
    pub(super) hidden: Persistent<bf16>,
    /// The token that each row goes on with.
    pub(super) chosen: Persistent<i32>,
    pub(super) multiprocessors: u32,
    pub(super) capability: (u32, u32),
}

impl Model {
    pub(super) fn new(
        device: &Device,
        config: Config,
        keys: IndexKeys,
        capacity: Capacity,
        seed: u64,
    ) -> Result<Self, Error> {
        let geometry = Geometry::new(keys, capacity.sequences, capacity.pages)?;
        let kernels = Kernels::load(device)?;
        let capability = device.info().capability;
        let splits = AttentionSplits::new(1, 1, 1);
        let shared = sparse_attention::shape(&splits, capability)?.shared_bytes;
        kernels.sparse.allow_shared(shared)?;
        kernels.paged.allow_shared(shared)?;
        Ok(Self {
            config,
            geometry,
            kernels,
            library: GemmLibrary::new(device)?,
            weights: ModelWeights::new(device, &config, seed)?,
            caches: (0..config.layers)
                .map(|layer| LayerCache::new(device, &config, &geometry, layer))
                .collect::<Result<_, _>>()?,
            inputs: Inputs::new(device, &config, capacity.rows)?,
            faults: device.persistent_from("faults", &[0])?,
            page_faults: device.persistent_from("page faults", &PageFaults::NONE)?,
            hidden: device.persistent("hidden", (capacity.rows * config.hidden) as usize)?,
            chosen: device.persistent("chosen", capacity.rows as usize)?,
            multiprocessors: device.info().multiprocessors,
            capability,
        })
    }

    /// Puts the same content into all caches as there was at first.
    pub(super) fn reset(&self, device: &Device, seed: u64) -> Result<(), Error> {
        let content = Content::new(device, &self.geometry, seed)?;
        for cache in &self.caches {
            content.fill(device, cache)?;
        }
        Ok(())
    }

    /// Records one step of `rows` rows, from the inputs to the chosen tokens.
    pub(super) fn record(
        &self,
        capture: &Capture,
        products: &Products,
        rows: u32,
        overlap: Overlap,
    ) -> Result<(), Error> {
        let main = capture.origin();
        let config = &self.config;
        let metadata = Metadata::record(self, &main, rows)?;
        let step = Step {
            capture,
            model: self,
            products,
            metadata: &metadata,
            rows,
            overlap,
        };
        let width = config.hidden;
        let mut x = main.scratch::<bf16>("x", step.len(width))?;
        main.scope("embedding").launch(
            &self.kernels.embed,
            embed::shape(rows, width, config.vocabulary)?,
            (
                &self.inputs.ids(rows)?,
                &self.weights.embedding,
                &x,
                &self.faults,
                rows,
                width,
                config.vocabulary,
            ),
        )?;
        for layer in 0..config.layers {
            x = step.layer(&main, layer, &x)?;
        }
        let head = main.scope("head");
        head.copy(part(&self.hidden, 0..x.len())?, &x)?;
        let h = head.scratch::<bf16>("h", step.len(width))?;
        head.launch(
            &self.kernels.rms_norm,
            rms_norm::shape(rows, width, width, 0)?,
            (
                &x,
                &self.weights.head_norm,
                &h,
                rows,
                width,
                width,
                0,
                EPSILON,
            ),
        )?;
        let logits = head.scratch::<f32>("vocabulary logits", step.len(config.vocabulary))?;
        products
            .head
            .launch(&head, &h, &self.weights.head, &logits)?;
        Ok(head.launch(
            &self.kernels.argmax,
            argmax::shape(rows, config.vocabulary)?,
            (
                &logits,
                &part(&self.chosen, 0..rows as usize)?,
                rows,
                config.vocabulary,
            ),
        )?)
    }
}
