//! What an engine holds through cudarc, taken over.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

use super::reclaim::Shared;
use super::stream::OwnedStream;
use crate::cuda::{AdoptError, AdoptedSlice, CudaDriver};

/// Adopts streams and memory of cudarc on a CUDA device.
#[derive(Clone, Copy, Debug)]
pub struct Adopter<'a> {
    reclaim: &'a Shared,
    cuda: &'a CudaDriver,
}

impl<'a> Adopter<'a> {
    /// `None` when the device is not one of CUDA.
    pub fn new(reclaim: &'a Shared) -> Option<Self> {
        let cuda = reclaim.driver().as_any().downcast_ref()?;
        Some(Self { reclaim, cuda })
    }

    /// Checks that a context is the device's.
    ///
    /// # Errors
    /// When it is another one.
    pub fn context(&self, context: &CudaContext) -> Result<(), AdoptError> {
        self.cuda.same_context(context)
    }

    /// A stream, which is held alive from here on.
    ///
    /// # Errors
    /// For either default stream, which cannot be captured, and for a stream of
    /// another context.
    pub fn stream(&self, stream: &Arc<CudaStream>) -> Result<OwnedStream, AdoptError> {
        let handle = self.cuda.adopt_stream(stream)?;
        // SAFETY: cudarc destroys the stream when the last clone of the `Arc`
        // goes, and one is kept.
        Ok(unsafe { OwnedStream::adopt(self.reclaim, handle, stream.clone()) })
    }

    /// As [`CudaDriver::adopt_slice`].
    ///
    /// # Errors
    /// For a slice of another context, and for one whose stream is being
    /// captured.
    pub fn slice<T: Send + Sync + 'static>(
        &self,
        name: &str,
        slice: &Arc<CudaSlice<T>>,
    ) -> Result<AdoptedSlice, AdoptError> {
        self.cuda.adopt_slice(name, slice)
    }

    /// As [`CudaDriver::adopt_slices`].
    ///
    /// # Errors
    /// As for one; then none is adopted.
    pub fn slices<T: Send + Sync + 'static>(
        &self,
        slices: &[(&str, &Arc<CudaSlice<T>>)],
    ) -> Result<Vec<AdoptedSlice>, AdoptError> {
        self.cuda.adopt_slices(slices)
    }

    /// As [`CudaDriver::tracked_slices`].
    pub fn tracked_slices(&self) -> Vec<String> {
        self.cuda.tracked_slices()
    }
}
