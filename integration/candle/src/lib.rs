//! candle's device, stream and tensors in streamweir, and a layer on two streams
//! as an op of candle's.
//!
//! - [`Engine`] adopts the context and the stream of a candle device. Replays
//!   run on candle's own stream, so candle's ops before and after them are in
//!   order, with nothing to wait for.
//! - [`Engine::persistent`] takes a tensor where it lies. The buffer, and each
//!   graph that touches it, holds the tensor.
//! - [`DecodeOp`] runs the layers of a [`Model`] on two streams, with scratch from
//!   tagged pools: eagerly, in order with candle's stream, or as a part of the
//!   capture that is in progress on it. [`DecodeOp::capture`] makes a graph of
//!   our own from the same code.
//!
//! # The device
//!
//! `candle_core::Device::new_cuda` works on the per-thread default stream, which
//! is another stream on each thread and cannot be adopted:
//! `new_cuda_with_stream` gives a device with a stream of its own. Before tensors
//! are made for a capture, `CudaDevice::disable_event_tracking` keeps cudarc's
//! events out of it.

mod batch;
mod engine;
mod error;
mod layer;
mod model;
mod op;
mod random;
mod sizes;
mod upload;

pub use batch::Batch;
pub use engine::Engine;
pub use error::{Error, Result};
pub use model::Model;
pub use op::DecodeOp;
pub use sizes::Sizes;
