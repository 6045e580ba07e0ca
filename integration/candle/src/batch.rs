//! The tensors of a batch.

use candle_core::Tensor;
use half::bf16;
use streamweir::{Event, Persistent};

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
    pub(crate) input_tensor: Tensor,
    pub(crate) output_tensor: Tensor,
    pub(crate) lens_tensor: Tensor,
    pub(crate) out_loc_tensor: Tensor,
    /// The pages of each sequence, as they are on the device.
    pub(crate) table: Vec<i32>,
}

impl Batch {
    /// The hidden states that enter the first layer.
    pub fn input_tensor(&self) -> &Tensor {
        &self.input_tensor
    }

    /// The hidden states that leave the last layer.
    pub fn output_tensor(&self) -> &Tensor {
        &self.output_tensor
    }
}
