//! Owners of driver objects: the only place that calls the driver.
//!
//! Every handle of the driver has one owner here, and nothing above this
//! module sees a handle without holding its owner. That is the invariant the
//! `unsafe` blocks of this folder lean on: *a handle that an owner gives to the
//! driver is live, because only the owner's drop gives it up*.
//!
//! Dropping an owner calls nothing. The handle goes to the device's
//! [`Reclaim`], which releases it at a safe point: outside any capture of the
//! thread, once the work that may use it has ended. So a drop never
//! synchronises, never fails and never breaks a capture, on whichever thread
//! it happens.
//!
//! Calls that CUDA counts as potentially unsafe under capture (allocation,
//! synchronisation, queries) are made in relaxed mode ([`Relaxed`]), so that
//! they never break a capture which another thread has begun in global mode.

mod backing;
mod event;
mod graph;
mod memory;
mod module;
mod reclaim;
mod stream;

pub(crate) use backing::DeviceBacking;
pub(crate) use event::OwnedEvent;
pub(crate) use graph::{GraphView, OwnedExec, OwnedGraph};
pub(crate) use memory::{DeviceMemory, HostMemory, download, upload};
pub(crate) use module::{FunctionRef, OwnedModule};
pub(crate) use reclaim::{Fence, Fences, Garbage, Reclaim, Relaxed, Shared};
pub(crate) use stream::OwnedStream;
