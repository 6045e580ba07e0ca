//! A pool of fp8 latents, and slots of it.

use half::bf16;

use super::super::super::bench::Bench;
use crate::conformance::Failure;
use crate::layout::LatentFp8Pages;
use crate::reference;

/// A pool of fp8 latents with random content, every slot of it.
pub(super) struct Pool {
    bytes: Vec<u8>,
    pub(super) pages: LatentFp8Pages,
    pub(super) at: u64,
}

impl Pool {
    pub(super) fn new(
        bench: &mut Bench<'_>,
        pages: LatentFp8Pages,
        magnitude: i32,
    ) -> Result<Self, Failure> {
        let layout = *pages.layout();
        let nope = LatentFp8Pages::NOPE as usize;
        let mut bytes = vec![0xff; layout.pool_bytes() as usize];
        for slot in 0..layout.slots() as i32 {
            let (Some(values), Some(scales)) =
                (layout.value_offset(slot), layout.scale_position(slot))
            else {
                return Err(Failure::new(format!("slot {slot} is in no page")));
            };
            let (values, scales) = (values as usize, scales as usize);
            for eight in bytes[values..values + nope].chunks_exact_mut(8) {
                eight.copy_from_slice(&bench.next().to_le_bytes());
                for code in eight {
                    // The pattern that is not a number is in no cache.
                    *code ^= u8::from(*code & 0x7f == 0x7f);
                }
            }
            for pair in
                bytes[values + nope..values + layout.value_bytes() as usize].chunks_exact_mut(2)
            {
                let value = bench.unit() * (magnitude as f32).exp2();
                pair.copy_from_slice(&bf16::from_f32(value).to_le_bytes());
            }
            // Values up to about 2 by powers of two, now and then far smaller.
            for scale in &mut bytes[scales..scales + layout.scale_bytes() as usize] {
                *scale = match bench.below(16) {
                    0 => 0,
                    step => (115 + (step % 6) as i32 + magnitude) as u8,
                };
            }
        }
        Ok(Self {
            at: bench.upload(&bytes)?,
            bytes,
            pages,
        })
    }

    pub(super) fn slots(&self) -> u32 {
        self.pages.layout().slots() as u32
    }

    pub(super) fn latent(&self, slot: i32) -> Option<Vec<f64>> {
        reference::latent_at(&self.bytes, &self.pages, slot)
    }
}

/// `count` slots for each token: token 0 has all, token 1 none, the others some,
/// with gaps; the first slot beyond the pool stands in the row of the last token.
pub(super) fn slots(bench: &mut Bench<'_>, tokens: u32, count: u32, pool: &Pool) -> Vec<i32> {
    let mut slots = Vec::new();
    for token in 0..tokens {
        let kept = match token {
            0 => count,
            1 => 0,
            _ => bench.below(count + 1),
        };
        for at in 0..count {
            let gap = token > 1 && bench.below(8) == 0;
            slots.push(match at < kept && !gap {
                true => bench.below(pool.slots()) as i32,
                false => -1,
            });
        }
    }
    if let Some(last) = slots.last_mut() {
        *last = pool.slots() as i32;
    }
    slots
}

pub(super) fn beyond(slots: &[i32], pool: &Pool) -> u32 {
    let bad = |slot: &&i32| **slot >= 0 && **slot as u32 >= pool.slots();
    slots.iter().filter(bad).count() as u32
}
