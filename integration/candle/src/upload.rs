//! Values from the host into a tensor that stays where it is.
//!
//! candle's own way, `Tensor::slice_set`, launches a kernel of the tensor's type,
//! and candle 0.11 has none for `i32`, the type of lengths and slots.

use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Tensor};

use crate::error::{Error, Result};

const NAME: &str = "streamweir upload";

/// Enqueues the upload of `values` into the beginning of `tensor`, on candle's
/// stream. The values are read before this returns.
pub(crate) fn upload(values: &[i32], tensor: &Tensor) -> Result<()> {
    Ok(tensor.inplace_op1(&Upload(values))?)
}

struct Upload<'a>(&'a [i32]);

impl InplaceOp1 for Upload<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        Err(Error::NotCuda {
            what: format!("the tensor of op `{NAME}`"),
        }
        .into())
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> candle_core::Result<()> {
        let stream = storage.device.cuda_stream();
        let slice = storage.as_cuda_slice_mut::<i32>()?;
        let start = layout.start_offset();
        let room = start + layout.shape().elem_count();
        let mut place = slice
            .try_slice_mut(start..room.min(start + self.0.len()))
            .ok_or_else(|| candle_core::Error::msg("a layout beyond its storage"))?;
        if place.len() < self.0.len() {
            return Err(candle_core::Error::msg(format!(
                "op `{NAME}`: {} values into a tensor of {}",
                self.0.len(),
                layout.shape().elem_count()
            )));
        }
        stream
            .memcpy_htod(self.0, &mut place)
            .map_err(candle_core::Error::wrap)
    }
}
