//! The caches of a layer: paged pools, and the state rings of its compressors.
//!
//! All of it is persistent: it outlives every graph, and each graph that touches
//! it holds it alive. Every layer has caches of its own.

use half::bf16;
use streamweir::kernels::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};
use streamweir::{Device, Persistent};

use super::config::{Config, LayerKind};
use super::error::Error;
use super::geometry::{
    C4_ROWS, C4_VALUES, C128_ROWS, C128_VALUES, Geometry, INDEX_VALUES, KeyPages,
};

/// The caches of one layer.
pub(super) struct LayerCache {
    /// Latents of the sliding window.
    pub(super) window: Persistent<u8>,
    pub(super) entries: Entries,
}

/// What a layer keeps of the tokens before its window.
pub(super) enum Entries {
    /// Nothing.
    None,
    /// Entries of four tokens, and the keys that the indexer finds them by.
    C4 {
        latents: Persistent<u8>,
        rings: Persistent<f32>,
        keys: IndexKeyPool,
        key_rings: Persistent<f32>,
    },
    /// Entries of 128 tokens.
    C128 {
        latents: Persistent<u8>,
        rings: Persistent<f32>,
    },
}

/// Index keys in either format.
pub(super) enum IndexKeyPool {
    Bf16(Persistent<bf16>, IndexKeyPages),
    Fp8(Persistent<u8>, IndexKeyFp8Pages),
}

impl LayerCache {
    pub(super) fn new(
        device: &Device,
        config: &Config,
        geometry: &Geometry,
        layer: u32,
    ) -> Result<Self, Error> {
        let name = |what: &str| format!("layer {layer}: {what}");
        let latents = |what: &str, pages: &LatentFp8Pages| {
            device.persistent::<u8>(&name(what), pages.layout().pool_bytes() as usize)
        };
        let rings = |what: &str, rows: u32, values: u32| {
            let len = geometry.slots as usize * (rows * values) as usize;
            device.persistent::<f32>(&name(what), len)
        };
        let entries = match config.kind(layer) {
            LayerKind::Window => Entries::None,
            LayerKind::C4 => Entries::C4 {
                latents: latents("c4 latents", &geometry.c4)?,
                rings: rings("c4 rings", C4_ROWS, C4_VALUES)?,
                keys: IndexKeyPool::new(device, &name("index keys"), geometry.keys)?,
                key_rings: rings("index key rings", C4_ROWS, INDEX_VALUES)?,
            },
            LayerKind::C128 => Entries::C128 {
                latents: latents("c128 latents", &geometry.c128)?,
                rings: rings("c128 rings", C128_ROWS, C128_VALUES)?,
            },
        };
        Ok(Self {
            window: latents("window", &geometry.window)?,
            entries,
        })
    }
}

impl IndexKeyPool {
    fn new(device: &Device, name: &str, pages: KeyPages) -> Result<Self, Error> {
        Ok(match pages {
            KeyPages::Bf16(pages) => {
                let values = pages.layout().pool_bytes() as usize / size_of::<bf16>();
                Self::Bf16(device.persistent(name, values)?, pages)
            }
            KeyPages::Fp8(pages) => {
                let bytes = pages.layout().pool_bytes() as usize;
                Self::Fp8(device.persistent(name, bytes)?, pages)
            }
        })
    }
}
