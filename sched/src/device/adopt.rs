//! Taking over what an engine already has: its context, streams and memory.
//!
//! Adoption copies nothing and takes nothing away. What is adopted stays the
//! engine's; streamweir holds it alive as long as it may be in use.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, sys};
use streamweir_hal::cuda::CudaDriver;
use streamweir_hal::owned::Adopter;

use super::handle::Device;
use super::persistent::Persistent;
use super::stream::DeviceStream;
use crate::error::{Error, Result};
use crate::kernel::Element;

impl Device {
    /// A device in an engine's context, which `keep` holds alive.
    ///
    /// # Errors
    /// When the context is null, or the driver is too old.
    ///
    /// # Safety
    /// `context` is a live CUDA context, and stays so while `keep` lives.
    pub unsafe fn from_context(
        context: sys::CUcontext,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let driver = unsafe { CudaDriver::from_context(context, keep) }?;
        Ok(Self::with_driver(driver))
    }

    /// A device in the context of a cudarc device.
    ///
    /// # Errors
    /// When the driver is too old.
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Self> {
        Ok(Self::with_driver(CudaDriver::from_cudarc(context)?))
    }

    fn adopter(&self, what: &str) -> Result<Adopter<'_>> {
        Adopter::new(&self.inner.reclaim).ok_or_else(|| Error::OtherDevice {
            what: what.to_owned(),
            used_on: self.info().name.clone(),
        })
    }
}

impl DeviceStream {
    /// A cudarc stream, held alive from here on.
    ///
    /// # Errors
    /// For either default stream, which cannot be captured, and for a stream of
    /// another context.
    pub fn from_cudarc(device: &Device, name: &str, stream: &Arc<CudaStream>) -> Result<Self> {
        let adopted = device.adopter("a CUDA stream")?.stream(stream)?;
        Ok(Self::of(&device.inner, adopted, name))
    }
}

impl<T: Element> Persistent<T> {
    /// A cudarc slice as a persistent buffer, without a copy: the buffer and
    /// each graph that touches it hold the slice alive.
    ///
    /// Waits for what cudarc has enqueued on the slice. After that cudarc does
    /// not see replays: order its own work on the slice by running both on one
    /// stream, or by an event between them.
    ///
    /// # Errors
    /// For a slice of another context, one whose stream is being captured, one
    /// that is registered already, and inside a capture.
    pub fn from_cudarc(device: &Device, name: &str, slice: &Arc<CudaSlice<T>>) -> Result<Self> {
        device.inner.outside("Persistent::from_cudarc")?;
        let adopted = device.adopter("a CUDA slice")?.slice(name, slice)?;
        let entry = device
            .inner
            .registry
            .register(adopted.range, name, adopted.keep)?;
        Ok(Self::of(device, adopted.range, name, entry, slice.len()))
    }

    /// As [`from_cudarc`](Self::from_cudarc) for many slices, with one wait for
    /// each of the streams that they were allocated on instead of one for each
    /// slice.
    ///
    /// # Errors
    /// As for one; then none stays registered.
    pub fn from_cudarc_many(
        device: &Device,
        slices: &[(&str, &Arc<CudaSlice<T>>)],
    ) -> Result<Vec<Self>> {
        device.inner.outside("Persistent::from_cudarc_many")?;
        let adopted = device.adopter("a CUDA slice")?.slices(slices)?;
        adopted
            .into_iter()
            .zip(slices)
            .map(|(adopted, (name, slice))| {
                let entry = device
                    .inner
                    .registry
                    .register(adopted.range, *name, adopted.keep)?;
                Ok(Self::of(device, adopted.range, name, entry, slice.len()))
            })
            .collect()
    }
}
