//! Latents out of the fp8 pools.

use half::bf16;

use super::fp8::{from_e4m3, from_ue8m0};
use crate::layout::LatentFp8Pages;

/// The dimensions of one token, from its value bytes and its scales.
pub fn latent(values: &[u8], scales: &[u8]) -> Vec<f64> {
    let (nope, group) = (
        LatentFp8Pages::NOPE as usize,
        LatentFp8Pages::GROUP as usize,
    );
    let scaled = values[..nope]
        .iter()
        .enumerate()
        .map(|(i, &value)| f64::from(from_e4m3(value)) * f64::from(from_ue8m0(scales[i / group])));
    let rotated = values[nope..]
        .chunks_exact(2)
        .map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f64());
    scaled.chain(rotated).collect()
}

/// The dimensions of the token at `slot`; `None` when the pool has no such slot.
pub fn latent_at(pool: &[u8], pages: &LatentFp8Pages, slot: i32) -> Option<Vec<f64>> {
    let layout = pages.layout();
    let part = |start: u64, bytes: u32| &pool[start as usize..][..bytes as usize];
    Some(latent(
        part(layout.value_offset(slot)?, layout.value_bytes()),
        part(layout.scale_position(slot)?, layout.scale_bytes()),
    ))
}
