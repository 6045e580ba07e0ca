//! cuBLAS in captures: a handle and a workspace for each captured stream.
//!
//! A handle of cuBLAS has a stream and a workspace, and `cublasSetStream` puts the
//! workspace back to one that all streams of the handle share: two captured streams
//! that use one handle, or set the workspace before the stream, run on the same bytes at
//! replay. Here each captured stream has a handle of its own, made before any capture,
//! and every call sets the stream and then the workspace, which is scratch of that stream.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use streamweir_sched::cudarc::cublas::result::{self as blas, CublasError};
use streamweir_sched::cudarc::cublas::sys;
use streamweir_sched::{Device, ForeignCall, Lane, Stream, Touch};

use super::{GemmError, loaded};

/// What a workspace's address is a multiple of, in bytes: the library's wish.
const ALIGNMENT: usize = 256;

/// Handles of cuBLAS, one for each captured stream that they were made for.
///
/// A library's product without a handle is [`Gemm`](super::Gemm); this is for programs
/// that call cuBLAS itself, and for the routines that cuBLASLt does not have.
#[derive(Clone)]
pub struct Cublas {
    handles: BTreeMap<String, Arc<Handle>>,
}

/// A handle, in whose context the device works.
struct Handle {
    /// One call at a time: the stream and the workspace are state of the handle.
    handle: Mutex<sys::cublasHandle_t>,
    // The context that it belongs to lives as long as this.
    _device: Device,
}

// SAFETY: the library lets a handle be used on any thread, by one at a time, which the
// lock sees to.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        let handle = mem::replace(
            self.handle
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner),
            std::ptr::null_mut(),
        );
        // SAFETY: made by `new`, and nothing uses it any more. A failure at the end of a
        // process has nobody to tell.
        let _ = unsafe { blas::destroy_handle(handle) };
    }
}

impl Cublas {
    /// A handle for each captured stream of these names, `main` for the origin unless its
    /// capture calls it otherwise. Outside of any capture, for the library allocates.
    ///
    /// # Errors
    /// When libcublas is not found or does not start, the device is not one of CUDA, or
    /// inside a capture.
    pub fn new<'n>(
        device: &Device,
        streams: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, GemmError> {
        let backend = device.info().backend;
        if backend != streamweir_sched::driver::Backend::Cuda {
            return Err(GemmError::Backend(backend));
        }
        if !loaded::is_present("cublas") {
            return Err(GemmError::NoCublas);
        }
        let handle = |name: &str| -> Result<_, GemmError> {
            let made = device.prepare(|_| {
                blas::create_handle().map_err(|error: CublasError| GemmError::Library {
                    call: "cublasCreate",
                    status: error.to_string(),
                })
            })?;
            let handle = Handle {
                handle: Mutex::new(made),
                _device: device.clone(),
            };
            Ok((name.to_owned(), Arc::new(handle)))
        };
        Ok(Self {
            handles: streams.into_iter().map(handle).collect::<Result<_, _>>()?,
        })
    }

    /// Records calls of cuBLAS: `enqueue` is given the stream's handle, with its stream
    /// and a workspace of so many bytes set, and the addresses of the touched buffers. The
    /// graph keeps the handle. NVIDIA recommends 4 MiB of workspace, and 32 MiB on Hopper.
    ///
    /// Serves every kind of capture; a planned one makes the call when it is emitted. That
    /// kernels which the library starts early wait for what they follow is taken for
    /// granted, and listed so.
    ///
    /// # Errors
    /// [`GemmError::NoHandle`] when no handle was made for the stream; otherwise as
    /// [`foreign_call`](Stream::foreign_call).
    ///
    /// # Safety
    /// The calls touch the buffers as declared and no other memory but the workspace;
    /// they leave the stream and the workspace of the handle as they are, and pointers to
    /// scalars point to the host.
    #[track_caller]
    pub unsafe fn call<L: Lane>(
        &self,
        stream: &Stream<L>,
        name: &str,
        touches: &[Touch<'_, L>],
        workspace: usize,
        enqueue: impl FnOnce(sys::cublasHandle_t, &[u64]) -> Result<(), CublasError> + 'static,
    ) -> Result<(), GemmError> {
        let captured = stream.name();
        let Some(handle) = self.handles.get(&captured).cloned() else {
            return Err(GemmError::NoHandle {
                stream: captured,
                has: self.handles.keys().cloned().collect(),
            });
        };
        // Never none: without one the handle would use what its streams share.
        let workspace = workspace.max(ALIGNMENT);
        let call = ForeignCall::new(name, touches)
            .stateless()
            // As those of cuBLASLt, which it calls.
            .waits()
            .keep(handle.clone())
            .workspace(workspace, ALIGNMENT);
        // SAFETY: the caller's promise; the workspace is the call's own.
        let recorded = unsafe {
            stream.foreign_call(call, move |raw, at| {
                let guard = handle.handle.lock().unwrap_or_else(PoisonError::into_inner);
                blas::set_stream(*guard, raw.0 as sys::cudaStream_t)?;
                // After the stream: setting that puts the workspace back.
                let own = at.workspace.ok_or("the call has no workspace")?;
                sys::cublasSetWorkspace_v2(*guard, own as *mut c_void, workspace).result()?;
                Ok(enqueue(*guard, at.touched)?)
            })
        };
        Ok(recorded?)
    }
}

impl fmt::Debug for Cublas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cublas")
            .field("streams", &self.handles.keys())
            .finish()
    }
}
