//! Capture: recording work on several streams into one verified graph.
//!
//! ```text
//! record -> rewrite -> place -> send -> read back -> judge -> instantiate
//! ```
//!
//! A call of the user becomes commands in a [`Recording`](recording), which is a
//! value. [`rewrite`] may put a few more commands beside each. Then every buffer
//! gets a place, a [`sink`] sends the commands to the driver, the driver's graph
//! is read back, and the verifier judges what was recorded over the order that
//! the driver has. [`path`] is this list as code.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`recording`], [`nodes`], [`strand`] | values: commands; the nodes they became; the streams |
//! | [`buffer`], [`scratch`], [`pools`], [`args`], [`host`] | what a command is given |
//! | [`rewrite`] | commands beside commands: poison, taps |
//! | [`plan`] | places and an order for a complete recording |
//! | [`sink`] | the driver: live, planned, attached, eager |
//! | [`recorded`], [`open`], [`recorder`] | a capture in progress, and the cell that it is in |
//! | [`stream`], [`handle`] | what a user holds |
//! | [`begin`], [`attach`], [`eager`], [`sizing`], [`path`] | how each kind begins and ends |
//!
//! In a live capture a command is sent as soon as it is recorded, and a scratch
//! buffer is placed when it is taken; a planned one ([`Placement::Planned`]) does
//! both at the end, over the whole recording. The same closure runs captured
//! either way ([`Device::capture`]), straight on the device ([`Device::eager`]) or
//! inside a capture that an engine began ([`Device::attach`]).
//!
//! A capture belongs to the thread that began it, as CUDA's does: its handles
//! are not `Send`. Scratch buffers are, and may be dropped anywhere. A capture
//! that fails, for whatever reason, leaves the device, its streams and the
//! pools as they were (invariant 8).
//!
//! [`Device::capture`]: crate::Device::capture
//! [`Device::eager`]: crate::Device::eager
//! [`Device::attach`]: crate::Device::attach

mod args;
mod attach;
mod begin;
mod buffer;
mod call;
mod eager;
mod early;
mod handle;
mod lane;
mod nodes;
mod open;
mod options;
mod path;
mod plan;
mod pools;
mod recorded;
mod recorder;
mod recording;
mod rewrite;
mod scratch;
mod sink;
mod sizing;
mod strand;
mod stream;
mod trace;

#[doc(hidden)]
pub use args::Binder;
pub use args::{Arg, Args, CheckedArgs};
pub use attach::{Attached, Detached};
#[doc(hidden)]
pub use buffer::Place;
pub use buffer::{
    Buffer, Cast, Joined, Part, Seen, Touch, atomics, cast, narrow, part, reads, updates, writes,
};
pub use call::{ForeignAddresses, ForeignCall};
pub use eager::EagerRun;
pub use handle::Capture;

pub use lane::{Dyn, Lane, VisibleOn};
pub use options::{CaptureOptions, Placement, Verify};
pub use rewrite::{Difference, Differential, Poison, Readings, Taps};
pub use scratch::Scratch;
pub use sizing::Sizing;
pub use stream::Stream;
#[cfg(feature = "cuda")]
pub use stream::{CudarcOp, CudarcSlice, CudarcSliceMut};
