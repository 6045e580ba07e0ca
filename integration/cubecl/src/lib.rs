//! cubecl's buffers in graphs of streamweir.
//!
//! Both work on the device's primary context: cubecl retains it when a client is
//! made, `streamweir::Device::cuda` when a device is opened. So an address of
//! cubecl's is good for a kernel of streamweir's, and nothing is copied.
//!
//! # What stays closed
//!
//! cubecl 0.10 gives a buffer's address ([`ComputeClient::get_resource`]) and
//! nothing else of CUDA's: its streams are private, made non-blocking, one for
//! each `StreamId`; its events ("fences") are private too. An event of
//! streamweir's cannot stand in cubecl's order, and the legacy default stream
//! does not stand between the two either, for non-blocking streams pass it. What
//! is left to join them is the host:
//!
//! - [`cubecl_to_graph`] waits until cubecl has done what the calling thread
//!   asked of it, so that a replay after it sees it;
//! - [`graph_to_cubecl`] waits for a stream with replays, so that what cubecl is
//!   asked for next comes after them.
//!
//! A step between two kernels of cubecl's costs two such waits. Within the graph
//! nothing waits for the host. What cubecl cannot do either: record its kernels
//! into a capture of streamweir's, or be attached to, for both need its stream.
//! (From 0.11 on cubecl captures graphs of its own; its stream and graph stay as
//! private.)

use std::any::Any;
use std::sync::Arc;

use cubecl_core::client::ComputeClient;
use cubecl_core::future::block_on;
use cubecl_core::server::{Handle, ServerError};
use cubecl_cuda::CudaRuntime;
use streamweir::kernel::Element;
use streamweir::{Device, DeviceStream, Persistent};
use thiserror::Error;

/// A client of cubecl's CUDA runtime.
pub type Client = ComputeClient<CudaRuntime>;

/// Why the two do not come together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InteropError {
    /// cubecl failed.
    #[error("cubecl: {doing}: {error:?}")]
    Cubecl {
        /// At what.
        doing: String,
        /// Its error.
        error: ServerError,
    },
    /// A buffer is no whole number of elements.
    #[error(
        "cubecl's buffer \"{buffer}\" has {bytes} bytes, which is no whole number of elements of \
         {element} bytes: register it with the element type that it was made for"
    )]
    PartElement {
        /// The name that it was to have.
        buffer: String,
        /// Its size.
        bytes: u64,
        /// The size of an element.
        element: usize,
    },
    /// streamweir refused.
    #[error(transparent)]
    Streamweir(#[from] streamweir::Error),
}

/// A buffer of cubecl's as a persistent buffer. It and every graph that touches
/// it hold the handle, so cubecl's pool gives the bytes to nobody else.
///
/// # Errors
/// When cubecl has no such buffer any more, it is empty or no whole number of
/// elements, or it overlaps one that is registered already.
///
/// # Safety
/// The client is one of the CUDA device that `device` is, and kernels of cubecl's
/// that use the buffer are joined with replays by [`cubecl_to_graph`] and
/// [`graph_to_cubecl`].
pub unsafe fn persistent<T: Element>(
    device: &Device,
    client: &Client,
    name: &str,
    handle: &Handle,
) -> Result<Persistent<T>, InteropError> {
    let resource = client
        .get_resource(handle.clone())
        .map_err(|error| InteropError::Cubecl {
            doing: format!("the address of buffer \"{name}\""),
            error,
        })?;
    let (address, bytes) = (resource.resource().ptr, resource.resource().size);
    let element = size_of::<T>();
    if !bytes.is_multiple_of(element as u64) {
        return Err(InteropError::PartElement {
            buffer: name.to_owned(),
            bytes,
            element,
        });
    }
    let keep: Arc<dyn Any + Send + Sync> = Arc::new(handle.clone());
    let len = bytes as usize / element;
    // SAFETY: the address is cubecl's for the bytes of this handle, which is
    // kept; the order of work on it is the caller's promise.
    Ok(unsafe { Persistent::from_raw(device, address, len, name, keep) }?)
}

/// Join point: what the calling thread has asked of cubecl has been done.
///
/// # Errors
/// What cubecl reports, failures of earlier kernels among it.
pub fn cubecl_to_graph(client: &Client) -> Result<(), InteropError> {
    block_on(client.sync()).map_err(|error| InteropError::Cubecl {
        doing: "waiting for its kernels".to_owned(),
        error,
    })
}

/// Join point: the replays on `stream` have been done.
///
/// # Errors
/// When work on the stream failed.
pub fn graph_to_cubecl(stream: &DeviceStream) -> Result<(), InteropError> {
    Ok(stream.synchronize()?)
}
