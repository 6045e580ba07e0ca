//! Owners of driver objects: the only place that calls the driver.
//!
//! Every handle of the driver has one owner here. That is the invariant the
//! `unsafe` blocks of this folder lean on: *a handle that an owner gives to the
//! driver is live, because only the owner's drop gives it up, and it is a handle
//! of that driver*, because an owner that is passed to another one's safe method
//! has to be of the same [`Reclaim`]. Numbers that come from elsewhere (the handle
//! of an engine's stream, a node of a graph, an address) are taken by `unsafe`
//! methods alone.
//!
//! Dropping an owner calls nothing. The handle goes to the device's
//! [`Reclaim`], which releases it at a safe point: outside any capture of the
//! thread, once the work that may use it has ended. So a drop never
//! synchronises, never fails and never breaks a capture, on whichever thread
//! it happens.
//!
//! Calls that CUDA counts as potentially unsafe under capture (allocation,
//! synchronisation, queries) are made in relaxed mode, so that they never break a
//! capture which another thread has begun in global mode.

#[cfg(feature = "cuda")]
mod adopt;
mod backing;
mod event;
mod graph;
mod memory;
mod module;
mod reclaim;
mod stream;

#[cfg(feature = "cuda")]
pub use adopt::Adopter;
pub use backing::{DeviceBacking, map_unit};
pub use event::OwnedEvent;
pub use graph::{GraphView, OwnedExec, OwnedGraph, node_attributes};
pub use memory::{DeviceMemory, HostMemory, download, upload};
pub use module::{FunctionRef, OwnedModule};
pub use reclaim::{Fence, Fences, Reclaim, Shared};
pub use stream::{OwnedStream, capture_info};
