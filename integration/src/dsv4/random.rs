//! Weights by a seed, made once and copied on the device.
//!
//! A model of these sizes has billions of weights. They are windows into one
//! random block: each piece of a weight begins at a place of its own, which
//! depends on the seed and on what was made before, so that no two layers are the
//! same, and the device copies faster than a host makes numbers.

use std::collections::HashMap;

use half::bf16;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use streamweir::{Device, Persistent, part};

use super::error::Error;
use crate::common::units;

/// Values of the block.
const BLOCK: usize = 1 << 21;
/// Where a piece may begin: 16-byte words.
const STEP: usize = 8;

/// The source of weights.
pub(super) struct Random<'a> {
    device: &'a Device,
    rng: StdRng,
    /// Values from -1 to 1.
    values: Vec<f32>,
    /// The block on the device, by the bits of what scales it.
    blocks: HashMap<u32, Persistent<bf16>>,
}

impl<'a> Random<'a> {
    pub(super) fn new(device: &'a Device, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let values = units(&mut rng, BLOCK).collect();
        Self {
            device,
            rng,
            values,
            blocks: HashMap::new(),
        }
    }

    /// The weight of a projection of `width` values to `rows`, so that outputs
    /// are about as large as inputs.
    pub(super) fn weight(
        &mut self,
        name: &str,
        width: u32,
        rows: usize,
    ) -> Result<Persistent<bf16>, Error> {
        let scale = (3.0 / width as f32).sqrt();
        let weight = self
            .device
            .persistent::<bf16>(name, width as usize * rows)?;
        if !self.blocks.contains_key(&scale.to_bits()) {
            let scaled: Vec<bf16> = self
                .values
                .iter()
                .map(|value| bf16::from_f32(value * scale))
                .collect();
            let block = self
                .device
                .persistent_from(&format!("random block, {scale}"), &scaled)?;
            self.blocks.insert(scale.to_bits(), block);
        }
        let block = &self.blocks[&scale.to_bits()];
        let rng = &mut self.rng;
        self.device.eager::<_, Error>(name, |run| {
            let main = run.origin();
            let mut done = 0;
            while done < weight.len() {
                let start = rng.random_range(0..BLOCK / STEP / 2) * STEP;
                let len = (BLOCK - start).min(weight.len() - done);
                let (to, from) = (done..done + len, start..start + len);
                main.copy(part(&weight, to)?, part(block, from)?)?;
                done += len;
            }
            Ok(())
        })?;
        Ok(weight)
    }

    /// Factors around 1.
    pub(super) fn norm(&mut self, name: &str, len: u32) -> Result<Persistent<f32>, Error> {
        self.floats(name, len, |value| 1.0 + 0.25 * value)
    }

    /// Small numbers around 0.
    pub(super) fn small(&mut self, name: &str, len: u32) -> Result<Persistent<f32>, Error> {
        self.floats(name, len, |value| 0.5 * value)
    }

    fn floats(
        &mut self,
        name: &str,
        len: u32,
        map: impl Fn(f32) -> f32,
    ) -> Result<Persistent<f32>, Error> {
        let values: Vec<f32> = (0..len)
            .map(|_| map(self.values[self.rng.random_range(0..BLOCK)]))
            .collect();
        Ok(self.device.persistent_from(name, &values)?)
    }
}
