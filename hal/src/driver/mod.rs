//! What a device can do: the unsafe trait that every backend implements.
//!
//! The trait is the driver's own vocabulary and nothing above it: memory,
//! streams, events, stream capture, inspection of graphs, modules and
//! launches. It promises no safety. Handles are plain numbers, and passing a
//! handle that the driver has not given, or has taken back, is undefined
//! behaviour on a real device; that is why almost every method is unsafe and
//! why only the owners call them. What the trait does promise is that a failure
//! comes back as a [`DriverError`] which names the call, and that a call which
//! failed has changed nothing but what CUDA itself changes (an illegal call under
//! capture invalidates the capture).
//!
//! What the words of CUDA's documentation leave open is pinned down by one
//! conformance suite (feature `testing`), which runs on every backend.

mod capture;
pub(crate) mod code;
mod error;
mod graph;
mod memory;
mod module;
mod stream;
mod types;

pub use capture::CaptureCalls;
pub use code::ModuleImage;
pub use error::{DriverError, ErrorClass};
pub use graph::GraphCalls;
pub use memory::MemoryCalls;
pub use module::ModuleCalls;
pub use stream::StreamCalls;
pub use types::*;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The result of a driver call.
pub type DriverResult<T> = Result<T, DriverError>;

/// A device, as its driver presents it: five parts of calls, and what the device is.
///
/// All methods may be called from any thread.
///
/// # Safety
///
/// As the parts say. Wrappers that break a part on purpose (the lying one of feature
/// `testing`) may do so only in what they *report*, never in what runs.
pub unsafe trait Driver:
    MemoryCalls
    + StreamCalls
    + CaptureCalls
    + GraphCalls
    + ModuleCalls
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// The implementation itself, for callers that know which one it is. A
    /// wrapper answers with what it wraps.
    fn as_any(&self) -> &dyn Any;
}

/// A driver behind a shared pointer, as everything above the trait holds it.
pub type DynDriver = Arc<dyn Driver>;
