//! Values by a seed.

use candle_core::{Device, Tensor};
use half::bf16;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};

use crate::error::Result;
use crate::sizes::Sizes;

pub(crate) struct Random(StdRng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Numbers between `-scale` and `scale`.
    pub(crate) fn halves(
        &mut self,
        shape: (usize, usize),
        scale: f32,
        device: &Device,
    ) -> Result<Tensor> {
        let mut bytes = vec![0_u8; 2 * shape.0 * shape.1];
        self.0.fill_bytes(&mut bytes);
        let number = |two: &[u8]| f32::from(i16::from_le_bytes([two[0], two[1]])) / 32768.0;
        let values: Vec<bf16> = bytes
            .chunks_exact(2)
            .map(|two| bf16::from_f32(number(two) * scale))
            .collect();
        Ok(Tensor::from_vec(values, shape, device)?)
    }

    /// The pages of `tokens` sequences, scattered over the cache.
    pub(crate) fn pages(&mut self, sizes: &Sizes, tokens: u32) -> Vec<i32> {
        let mut pages: Vec<i32> = (1..sizes.pages() as i32).collect();
        pages.shuffle(&mut self.0);
        pages.truncate((tokens * sizes.table_stride()) as usize);
        pages
    }
}
