//! Contexts, streams and memory that cudarc made.
//!
//! cudarc orders its own uses of a slice with two events in it, as long as the
//! context tracks events and has more than one stream. Asking for the address
//! of a slice therefore makes driver calls: a wait for the event of its last
//! write, and later a record. Inside a capture those calls would cross its
//! border. A slice is adopted before, outside any capture, and adoption waits
//! for what cudarc has enqueued on it, so that its contents are there for work
//! that cudarc knows nothing of.
//!
//! What cudarc cannot know after that is the caller's to order: a replay that
//! touches the slice, and cudarc calls that do. Either they use one stream, or
//! an event stands between them. An engine that calls cudarc inside a capture
//! switches its tracking off first (`CudaContext::disable_event_tracking`): a
//! call on a slice with events would wait inside the capture for an event from
//! before it, which breaks the capture, and an event recorded in a capture cannot
//! be waited for outside it. Which of the adopted slices have events is
//! remembered, for the error that says why a capture is broken.

use std::any::Any;
use std::ptr;
use std::sync::{Arc, Weak};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, SyncOnDrop};
use streamweir_base::sync::Mutex;
use streamweir_trace::ByteRange;
use thiserror::Error;

use super::context::Context;
use super::handle::Raw;
use super::{CudaDriver, OpenError, open};
use crate::driver::{CaptureCalls, CaptureStatus, DriverError, ErrorClass, StreamHandle};

/// CUDA's names for two streams that are no objects: the default stream in the
/// legacy form, and in the form that every thread has of its own.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// Why a stream or memory of somebody else's cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The legacy default stream cannot be captured.
    #[error(
        "the legacy default stream (null) cannot be captured, and it waits for every other stream: \
         give a stream that was created, such as `CudaContext::new_stream` returns"
    )]
    LegacyStream,
    /// The per-thread default stream is a different one on each thread.
    #[error(
        "the per-thread default stream is another stream on each thread: give a stream that was \
         created, such as `CudaContext::new_stream` returns"
    )]
    PerThreadStream,
    /// The object belongs to another context.
    #[error(
        "the {what} belongs to another CUDA context than device {ordinal}: open the device from the \
         context of the {what}"
    )]
    OtherContext {
        /// What was to be adopted.
        what: &'static str,
        /// The device that was to adopt it.
        ordinal: u32,
    },
    /// The stream of the slice is being captured.
    #[error(
        "the slice was allocated on a stream that is being captured: adopt it before the capture \
         begins"
    )]
    Capturing,
    /// A driver call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Memory of cudarc's, and what keeps it alive.
#[derive(Clone, Debug)]
pub struct AdoptedSlice {
    /// The device addresses.
    pub range: ByteRange,
    /// The slice itself. cudarc frees it when the last clone goes, ordered after
    /// nothing but its own work: hold one until every launch that touches the
    /// memory has ended.
    pub keep: Arc<dyn Any + Send + Sync>,
}

/// What cudarc tracks by events in a context that it made.
#[derive(Debug)]
pub(super) struct Tracking {
    context: Arc<CudaContext>,
    /// The adopted slices that have events, by the names that they were given.
    slices: Mutex<Vec<(String, Weak<dyn Any + Send + Sync>)>>,
}

impl CudaDriver {
    /// Works in the context of a cudarc device, and keeps it alive.
    ///
    /// # Errors
    /// When the driver is too old for what is used here.
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Arc<Self>, OpenError> {
        let library = open::driver()?;
        // SAFETY: cudarc destroys its context when the last clone of the `Arc`
        // goes, and one is kept.
        let adopted = unsafe { Context::adopt(library, context.cu_ctx(), context.clone()) }?;
        let tracking = Tracking {
            context: context.clone(),
            slices: Mutex::new(Vec::new()),
        };
        Self::with(library, adopted, Some(tracking))
    }

    /// The adopted slices on which a cudarc call inside a capture would touch
    /// an event from outside it: those that have events and are alive, while
    /// the context of cudarc uses them.
    pub fn tracked_slices(&self) -> Vec<String> {
        let Some(tracking) = &self.tracking else {
            return Vec::new();
        };
        if !tracking.context.is_managing_stream_synchronization() {
            return Vec::new();
        }
        let mut slices = tracking.slices.lock();
        slices.retain(|(_, slice)| slice.strong_count() > 0);
        slices.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Checks that a context of cudarc is the one that this works in.
    ///
    /// # Errors
    /// When it is another one.
    pub fn same_context(&self, context: &CudaContext) -> Result<(), AdoptError> {
        match context.cu_ctx() == self.context() {
            true => Ok(()),
            false => Err(self.other_context("context")),
        }
    }

    /// The handle of a cudarc stream. The caller keeps a clone of the `Arc` for
    /// as long as the handle is in use.
    ///
    /// # Errors
    /// For either default stream, and for a stream of another context.
    pub fn adopt_stream(&self, stream: &Arc<CudaStream>) -> Result<StreamHandle, AdoptError> {
        let handle = StreamHandle::of(stream.cu_stream());
        no_default_stream(handle)?;
        if stream.context().cu_ctx() != self.context() {
            return Err(self.other_context("stream"));
        }
        Ok(handle)
    }

    /// Checks a stream that is given by its raw handle.
    ///
    /// # Errors
    /// For either default stream, and for a stream of another context.
    ///
    /// # Safety
    /// The handle is live.
    pub unsafe fn adopt_raw_stream(
        &self,
        stream: StreamHandle,
    ) -> Result<StreamHandle, AdoptError> {
        no_default_stream(stream)?;
        let _current = self.context.enter()?;
        let mut context = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe { self.library.cuStreamGetCtx(stream.raw(), &raw mut context) }?;
        if context != self.context() {
            return Err(self.other_context("stream"));
        }
        Ok(stream)
    }

    /// The memory of a cudarc slice, by the name that errors give it. Waits for
    /// the work that cudarc has enqueued on it.
    ///
    /// # Errors
    /// For a slice of another context, and for one whose stream is being
    /// captured.
    pub fn adopt_slice<T: Send + Sync + 'static>(
        &self,
        name: &str,
        slice: &Arc<CudaSlice<T>>,
    ) -> Result<AdoptedSlice, AdoptError> {
        let address = self.slice_address(name, slice, true)?;
        wait_for(slice.stream())?;
        adopted(address, slice)
    }

    /// As [`adopt_slice`](Self::adopt_slice) for many slices, with one wait for
    /// each of the streams that they were allocated on.
    ///
    /// # Errors
    /// As for one; then none is adopted.
    pub fn adopt_slices<T: Send + Sync + 'static>(
        &self,
        slices: &[(&str, &Arc<CudaSlice<T>>)],
    ) -> Result<Vec<AdoptedSlice>, AdoptError> {
        // Few, mostly one: the streams of an engine's tensors.
        let mut streams: Vec<&Arc<CudaStream>> = Vec::new();
        let mut adopted_slices = Vec::with_capacity(slices.len());
        for (name, slice) in slices {
            let stream = slice.stream();
            let first = !streams.iter().any(|known| Arc::ptr_eq(known, stream));
            let address = self.slice_address(name, slice, first)?;
            if first {
                streams.push(stream);
            }
            adopted_slices.push(adopted(address, slice)?);
        }
        // Whatever wrote a slice last, its stream waits for it by now.
        streams.into_iter().try_for_each(wait_for)?;
        Ok(adopted_slices)
    }

    /// The address of a slice, for which its own stream waits from here on until
    /// the last write on any stream is done.
    fn slice_address<T: Send + Sync + 'static>(
        &self,
        name: &str,
        slice: &Arc<CudaSlice<T>>,
        look_at_stream: bool,
    ) -> Result<u64, AdoptError> {
        let stream = slice.stream();
        if stream.context().cu_ctx() != self.context() {
            return Err(self.other_context("slice"));
        }
        if look_at_stream {
            self.not_capturing(stream)?;
        }
        // A failure shows in the next call on the context.
        let (address, used) = slice.device_ptr(stream);
        let has_events = matches!(used, SyncOnDrop::Record(Some(_)));
        drop(used);
        if has_events && let Some(tracking) = &self.tracking {
            let keep: Arc<dyn Any + Send + Sync> = slice.clone();
            let mut slices = tracking.slices.lock();
            // Looked through only where the list would grow: adopting many
            // takes time in proportion to their number.
            if slices.len() == slices.capacity() {
                slices.retain(|(_, slice)| slice.strong_count() > 0);
            }
            slices.push((name.to_owned(), Arc::downgrade(&keep)));
        }
        Ok(address)
    }

    fn not_capturing(&self, stream: &CudaStream) -> Result<(), AdoptError> {
        // SAFETY: the borrow keeps the stream alive.
        let capture =
            unsafe { self.capture_info(StreamHandle::of(stream.cu_stream()), &mut Vec::new()) };
        match capture {
            Ok(info) if info.status == CaptureStatus::None => Ok(()),
            Ok(_) => Err(AdoptError::Capturing),
            Err(error) if error.class == ErrorClass::CaptureImplicit => Err(AdoptError::Capturing),
            Err(error) => Err(error.into()),
        }
    }

    fn other_context(&self, what: &'static str) -> AdoptError {
        AdoptError::OtherContext {
            what,
            ordinal: self.info.ordinal,
        }
    }
}

/// Waits for what has been enqueued on a stream.
fn wait_for(stream: &Arc<CudaStream>) -> Result<(), AdoptError> {
    stream
        .synchronize()
        .map_err(|error| DriverError::new("cuStreamSynchronize", error.0 as u32).into())
}

fn adopted<T: Send + Sync + 'static>(
    address: u64,
    slice: &Arc<CudaSlice<T>>,
) -> Result<AdoptedSlice, AdoptError> {
    let range = ByteRange::from_len(address, slice.num_bytes() as u64).ok_or_else(|| {
        DriverError::of("cuMemGetAddressRange", ErrorClass::InvalidValue).with(format!(
            "a slice of {} bytes at {address:#x} runs past the address space",
            slice.num_bytes()
        ))
    })?;
    Ok(AdoptedSlice {
        range,
        keep: slice.clone(),
    })
}

fn no_default_stream(stream: StreamHandle) -> Result<(), AdoptError> {
    match stream.0 {
        0 | LEGACY => Err(AdoptError::LegacyStream),
        PER_THREAD => Err(AdoptError::PerThreadStream),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_streams_are_refused_under_all_their_names() {
        assert_eq!(
            no_default_stream(StreamHandle(0)),
            Err(AdoptError::LegacyStream)
        );
        assert_eq!(
            no_default_stream(StreamHandle(1)),
            Err(AdoptError::LegacyStream)
        );
        assert_eq!(
            no_default_stream(StreamHandle(2)),
            Err(AdoptError::PerThreadStream)
        );
        assert_eq!(no_default_stream(StreamHandle(0x55d0_0000)), Ok(()));
    }
}
