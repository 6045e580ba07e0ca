//! What the caches hold before the first step: the prompts.
//!
//! There is no prefill here. A prompt is entries that are in the caches already:
//! random latents and index keys, quantised as the kernels quantise them, in
//! every page of every pool. They are made once for a few pages and copied over
//! the rest on the device.

use half::bf16;
use rand::SeedableRng;
use rand::rngs::StdRng;
use streamweir::kernel::Element;
use streamweir::kernels::layout::{LatentFp8Pages, PageLayout};
use streamweir::kernels::reference::{quantise_e4m3, quantise_ue8m0};
use streamweir::{Capture, Device, Persistent, part};

use super::cache::{Entries, IndexKeyPool, LayerCache};
use super::config::INDEX_DIM;
use super::error::Error;
use super::geometry::{Geometry, KeyPages};
use crate::common::units;

/// Tokens that are made; the pages of a pool repeat them.
const MADE: u32 = 8192;

/// Pages of each kind, on the device.
pub(super) struct Content {
    window: Persistent<u8>,
    c4: Persistent<u8>,
    c128: Persistent<u8>,
    keys: Keys,
}

enum Keys {
    Bf16(Persistent<bf16>),
    Fp8(Persistent<u8>),
}

impl Content {
    pub(super) fn new(device: &Device, geometry: &Geometry, seed: u64) -> Result<Self, Error> {
        let random = &mut StdRng::seed_from_u64(seed ^ 0x9a6e_5000);
        let mut latents = |name: &str, pages: &LatentFp8Pages| {
            device.persistent_from(name, &latent_pages(random, pages.layout()))
        };
        Ok(Self {
            window: latents("content: window", &geometry.window)?,
            c4: latents("content: c4", &geometry.c4)?,
            c128: latents("content: c128", &geometry.c128)?,
            keys: match geometry.keys {
                KeyPages::Bf16(pages) => {
                    let (made, dim) = (made(pages.layout()), pages.dim());
                    let len = made * pages.layout().tokens_per_page() * dim;
                    let values: Vec<bf16> =
                        units(random, len as usize).map(bf16::from_f32).collect();
                    Keys::Bf16(device.persistent_from("content: index keys", &values)?)
                }
                KeyPages::Fp8(pages) => {
                    let bytes = key_pages(random, pages.layout());
                    Keys::Fp8(device.persistent_from("content: index keys", &bytes)?)
                }
            },
        })
    }

    /// Fills the caches of a layer.
    pub(super) fn fill(&self, device: &Device, cache: &LayerCache) -> Result<(), Error> {
        device.eager::<_, Error>("prompts", |run| {
            repeat(run, &cache.window, &self.window)?;
            match &cache.entries {
                Entries::None => Ok(()),
                Entries::C4 {
                    latents,
                    rings,
                    keys,
                    key_rings,
                } => {
                    repeat(run, latents, &self.c4)?;
                    match (keys, &self.keys) {
                        (IndexKeyPool::Bf16(pool, _), Keys::Bf16(keys)) => repeat(run, pool, keys)?,
                        (IndexKeyPool::Fp8(pool, _), Keys::Fp8(keys)) => repeat(run, pool, keys)?,
                        _ => unreachable!("content is made in the format of the pools"),
                    }
                    run.origin().fill(rings, 0)?;
                    Ok(run.origin().fill(key_rings, 0)?)
                }
                Entries::C128 { latents, rings } => {
                    repeat(run, latents, &self.c128)?;
                    Ok(run.origin().fill(rings, 0)?)
                }
            }
        })?;
        Ok(())
    }
}

/// Copies `from` over all of `to`, again and again.
fn repeat<T: Element>(
    run: &Capture,
    to: &Persistent<T>,
    from: &Persistent<T>,
) -> Result<(), Error> {
    let main = run.origin();
    let mut done = 0;
    while done < to.len() {
        let len = from.len().min(to.len() - done);
        main.copy(part(to, done..done + len)?, part(from, 0..len)?)?;
        done += len;
    }
    Ok(())
}

/// Pages that are made of a pool.
fn made(layout: &PageLayout) -> u32 {
    (MADE / layout.tokens_per_page()).min(layout.pages())
}

fn latent_pages(random: &mut StdRng, layout: &PageLayout) -> Vec<u8> {
    let (nope, group) = (
        LatentFp8Pages::NOPE as usize,
        LatentFp8Pages::GROUP as usize,
    );
    pages(layout, |values, scales| {
        let row = units(random, LatentFp8Pages::DIM as usize).collect::<Vec<_>>();
        for (at, group) in row[..nope].chunks_exact(group).enumerate() {
            let (codes, scale) = quantise_ue8m0(group);
            values[at * codes.len()..][..codes.len()].copy_from_slice(&codes);
            scales[at] = scale;
        }
        for (value, bytes) in row[nope..].iter().zip(values[nope..].chunks_exact_mut(2)) {
            bytes.copy_from_slice(&bf16::from_f32(*value).to_le_bytes());
        }
    })
}

fn key_pages(random: &mut StdRng, layout: &PageLayout) -> Vec<u8> {
    pages(layout, |values, scales| {
        let (codes, scale) = quantise_e4m3(&units(random, INDEX_DIM as usize).collect::<Vec<_>>());
        values.copy_from_slice(&codes);
        scales.copy_from_slice(&scale.to_le_bytes());
    })
}

/// Pages whose tokens `token` makes, values and scales.
fn pages(layout: &PageLayout, mut token: impl FnMut(&mut [u8], &mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; made(layout) as usize * layout.page_bytes() as usize];
    let (value_bytes, scale_bytes) = (layout.value_bytes() as usize, layout.scale_bytes() as usize);
    for page in bytes.chunks_exact_mut(layout.page_bytes() as usize) {
        let (values, scales) = page.split_at_mut(layout.scale_offset() as usize);
        let tokens = values
            .chunks_exact_mut(value_bytes)
            .zip(scales.chunks_exact_mut(scale_bytes));
        for (values, scales) in tokens.take(layout.tokens_per_page() as usize) {
            token(values, scales);
        }
    }
    bytes
}
