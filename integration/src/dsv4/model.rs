//! The model on a device: weights, caches, inputs and results.

use std::collections::BTreeMap;

use half::bf16;
use streamweir::kernels::dsv4::{AttentionSplits, PageFaults, sparse_attention};
use streamweir::kernels::gemm::GemmLibrary;
use streamweir::{Device, Persistent};

use super::cache::LayerCache;
use super::config::{Config, IndexKeys, LayerKind};
use super::content::Content;
use super::error::Error;
use super::geometry::Geometry;
use super::inputs::Inputs;
use super::kernels::Kernels;
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
    /// The slots that each layer with an indexer selected, by its number; none
    /// where nobody looks at them.
    pub(super) selected: BTreeMap<u32, Persistent<i32>>,
    pub(super) multiprocessors: u32,
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
            selected: BTreeMap::new(),
            multiprocessors: device.info().multiprocessors,
        })
    }

    /// From here on a step copies what its indexers select to where the host can
    /// read it.
    pub(super) fn keep_selected(&mut self, device: &Device, rows: u32) -> Result<(), Error> {
        let len = (rows * self.config.top_k) as usize;
        for layer in 0..self.config.layers {
            if self.config.kind(layer) == LayerKind::C4 {
                let kept = device.persistent(&format!("layer {layer}: selected"), len)?;
                self.selected.insert(layer, kept);
            }
        }
        Ok(())
    }

    /// Puts the same content into all caches as there was at first.
    pub(super) fn reset(&self, device: &Device, seed: u64) -> Result<(), Error> {
        let content = Content::new(device, &self.geometry, seed)?;
        for cache in &self.caches {
            content.fill(device, cache)?;
        }
        Ok(())
    }
}
