//! Ops of other crates that work on cudarc's streams and slices.

use std::any::type_name;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, size_of};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use streamweir_hal::owned::Adopter;
use streamweir_trace::AccessMode;

use super::Stream;
use crate::capture::buffer::Place;
use crate::capture::call::ForeignCall;
use crate::capture::lane::Lane;
use crate::error::{EngineError, Error, Result};
use crate::kernel::Element;

/// What an op is lent for one call: the captured stream as cudarc knows streams, and
/// each touched buffer as a slice.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use streamweir_sched as streamweir;
/// use streamweir::cudarc::driver::CudaContext;
/// use streamweir::{Device, Error, ForeignCall, reads, writes};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = CudaContext::new(0)?;
/// // SAFETY: this program orders its uses of slices itself.
/// unsafe { context.disable_event_tracking() };
/// let device = Device::from_cudarc(&context)?;
/// let keys = device.persistent_from("keys", &[1.0f32; 64])?;
/// let copy = device.persistent::<f32>("copy", 64)?;
/// device.capture::<_, Box<dyn std::error::Error>>("step", |cap| {
///     let main = cap.origin();
///     let touches = [reads(&keys), writes(&copy)];
///     // SAFETY: a copy touches its two operands and nothing else.
///     unsafe {
///         main.with_cudarc(&context, ForeignCall::new("copy", &touches), |op| {
///             let (from, mut to) = (op.slice::<f32>(0)?, op.slice_mut::<f32>(1)?);
///             op.stream().memcpy_dtod(&*from, &mut *to)?;
///             Ok(())
///         })
///     }
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct CudarcOp<'a> {
    stream: Arc<CudaStream>,
    call: &'a str,
    buffers: Vec<Lent>,
    workspace: Option<Lent>,
}

/// A touched buffer.
#[derive(Clone)]
struct Lent {
    name: String,
    address: u64,
    bytes: u64,
    mode: AccessMode,
}

/// A buffer as a slice of cudarc's, for as long as a call lasts. Its memory stays
/// streamweir's: dropped, the slice frees nothing.
pub struct CudarcSlice<'a, T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    lent: PhantomData<&'a ()>,
}

/// A buffer as a slice that may be written.
pub struct CudarcSliceMut<'a, T>(CudarcSlice<'a, T>);

impl<L: Lane> Stream<L> {
    /// Records the work of an op that takes cudarc's streams and slices:
    /// [`foreign_with`](Self::foreign_with), whose closure is given the captured stream
    /// and the touched buffers as those. The n-th buffer is the n-th of the call's
    /// touches.
    ///
    /// cudarc may not track slices by events in `context`: its records and waits inside a
    /// capture would cross the border of the capture.
    /// `CudaContext::disable_event_tracking` switches that off, before slices are made.
    ///
    /// # Errors
    /// [`EngineError::CudarcTracks`] when cudarc tracks slices; when `context` is not the
    /// device's; otherwise as [`foreign`](Self::foreign).
    ///
    /// # Safety
    /// As for [`foreign`](Self::foreign). And nothing that the op is lent is kept beyond
    /// the call: no clone of the stream, and no slice that was swapped for another one.
    #[track_caller]
    pub unsafe fn with_cudarc<R, E: From<Error>>(
        &self,
        context: &Arc<CudaContext>,
        call: ForeignCall<'_, L>,
        op: impl FnOnce(&CudarcOp<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.check_context(context, call.name)?;
        let name = call.name;
        let lent = |mode, place: &Place<'_>| Lent {
            name: place.memory.name(),
            address: 0,
            bytes: place.bytes.end.saturating_sub(place.pointer),
            mode,
        };
        let touches = call.touches.iter();
        let mut buffers: Vec<Lent> = touches
            .map(|touch| lent(touch.mode, &touch.place))
            .collect();
        let workspace = call.workspace.map(|(bytes, _)| bytes as u64);
        let context = context.clone();
        // SAFETY: the caller's promise.
        unsafe {
            self.foreign_with(call, move |stream, at| {
                for (buffer, &address) in buffers.iter_mut().zip(at.touched) {
                    buffer.address = address;
                }
                let workspace = at.workspace.zip(workspace).map(|(address, bytes)| Lent {
                    name: format!("workspace of {name}"),
                    address,
                    bytes,
                    mode: AccessMode::Write,
                });
                // The driver's stream of a captured stream outlives the call, and nobody
                // keeps the wrapper.
                let stream = context.wrap_borrowed_stream(stream.0 as _);
                op(&CudarcOp {
                    stream,
                    call: name,
                    buffers,
                    workspace,
                })
            })
        }
    }

    fn check_context(&self, context: &Arc<CudaContext>, call: &str) -> Result<()> {
        let device = &self.recorder.device;
        let adopter = Adopter::new(&device.reclaim).ok_or_else(|| Error::OtherDevice {
            what: format!("the CUDA context of call \"{call}\""),
            used_on: device.reclaim.info().name.clone(),
        })?;
        adopter.context(context)?;
        if context.is_event_tracking() {
            return Err(EngineError::CudarcTracks {
                call: call.to_owned(),
            }
            .into());
        }
        Ok(())
    }
}

impl CudarcOp<'_> {
    /// The captured stream. It is nobody's to keep.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// How many buffers there are.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The `at`-th buffer, to be read.
    ///
    /// # Errors
    /// When there is no such buffer, or it is no whole number of `T`.
    pub fn slice<T: Element>(&self, at: usize) -> Result<CudarcSlice<'_, T>> {
        self.lend(self.buffer(at)?)
    }

    /// The `at`-th buffer, to be written.
    ///
    /// # Errors
    /// As [`slice`](Self::slice), and when the call is said to read it alone.
    pub fn slice_mut<T: Element>(&self, at: usize) -> Result<CudarcSliceMut<'_, T>> {
        let buffer = self.buffer(at)?;
        if !buffer.mode.writes() {
            return Err(self.refused(buffer, "is declared to be read alone"));
        }
        self.lend(buffer).map(CudarcSliceMut)
    }

    /// The workspace of the call.
    ///
    /// # Errors
    /// When the call declares none, or it is no whole number of `T`.
    pub fn workspace<T: Element>(&self) -> Result<CudarcSliceMut<'_, T>> {
        let workspace = self.workspace.as_ref().ok_or_else(|| {
            Error::from(EngineError::CudarcSlice {
                call: self.call.to_owned(),
                buffer: "workspace".to_owned(),
                why: "is not declared; `ForeignCall::workspace` does".to_owned(),
            })
        })?;
        self.lend(workspace).map(CudarcSliceMut)
    }

    fn buffer(&self, at: usize) -> Result<&Lent> {
        self.buffers.get(at).ok_or_else(|| {
            EngineError::CudarcSlice {
                call: self.call.to_owned(),
                buffer: at.to_string(),
                why: format!("is not there: the call touches {}", self.buffers.len()),
            }
            .into()
        })
    }

    fn refused(&self, buffer: &Lent, why: impl Into<String>) -> Error {
        EngineError::CudarcSlice {
            call: self.call.to_owned(),
            buffer: buffer.name.clone(),
            why: why.into(),
        }
        .into()
    }

    fn lend<T: Element>(&self, buffer: &Lent) -> Result<CudarcSlice<'_, T>> {
        let element = size_of::<T>().max(1) as u64;
        let aligned = buffer.address.is_multiple_of(align_of::<T>() as u64);
        if !buffer.bytes.is_multiple_of(element) || !aligned {
            let why = format!(
                "of {} bytes at {:#x} is no slice of {}",
                buffer.bytes,
                buffer.address,
                type_name::<T>()
            );
            return Err(self.refused(buffer, why));
        }
        let len = (buffer.bytes / element) as usize;
        // SAFETY: memory of that many bytes, which outlives the call; it is never freed
        // by the slice, which is leaked. The context tracks nothing, so no event is made.
        let slice = unsafe { self.stream.upgrade_device_ptr::<T>(buffer.address, len) };
        Ok(CudarcSlice {
            slice: ManuallyDrop::new(slice),
            lent: PhantomData,
        })
    }
}

impl<T> Drop for CudarcSlice<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // Not freed: the memory is streamweir's.
        let _ = slice.leak();
    }
}

impl<T> Deref for CudarcSlice<'_, T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T> Deref for CudarcSliceMut<'_, T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.0
    }
}

impl<T> DerefMut for CudarcSliceMut<'_, T> {
    fn deref_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.0.slice
    }
}

impl std::fmt::Debug for CudarcOp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.buffers.iter().map(|buffer| &buffer.name);
        f.debug_struct("CudarcOp")
            .field("call", &self.call)
            .field("buffers", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for CudarcSlice<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudarcSlice")
            .field("len", &self.slice.len())
            .finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for CudarcSliceMut<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}
