//! Capture, fork and join, verified graphs and their replay.
//!
//! This crate brings the pieces together: it drives a device, takes scratch
//! from the pools of `streamweir-alloc`, records what it does as a
//! `streamweir-trace` trace and has `streamweir-verify` prove the graph that
//! the driver made of it.
//!
//! From the top floor down; a module uses only what stands below it:
//!
//! | floor | module | what it owns |
//! | --- | --- | --- |
//! | 5 | [`infer`] | which bytes kernels write, found by running them |
//! | 5 | `capture` | captures: recording, pools, emission, read-back, verification |
//! | 4 | [`audit`] | live graphs of any origin as traces |
//! | 4 | `graph` | verified graphs, replay groups |
//! | 4 | `feed` | inputs and results of a step, in turn with replays |
//! | 3 | `device` | devices, streams, events, persistent buffers, loaded code |
//! | 2 | `error` | what can go wrong, by name |
//! | 1 | [`kernel`](mod@kernel) | signatures with access modes |
//! | 1 | `turns` | which launches wait for which |
//!
//! Below all of them stands `streamweir-hal`, whose owners of handles are the
//! only callers of a driver; [`driver`] lists the rest of it.

// `kernel!` names items by `$crate`, and its tests and examples inside this
// crate by the crate's own name.
extern crate self as streamweir_sched;

pub mod audit;
mod capture;
mod device;
mod error;
mod feed;
mod graph;
pub mod infer;
pub mod kernel;
mod spans;
mod turns;

pub use capture::{
    Arg, Args, Attached, Buffer, Capture, CaptureOptions, Cast, CheckedArgs, Detached, Difference,
    Differential, Dyn, EagerRun, ForeignAddresses, ForeignCall, Joined, Lane, Part, Placement,
    Poison, Readings, Scratch, Seen, Sizing, Stream, Taps, Touch, Verify, VisibleOn, atomics, cast,
    narrow, part, reads, updates, writes,
};
#[doc(hidden)]
pub use capture::{Binder, Place};
pub use device::{
    Damage, Device, DeviceStream, Event, GuardReport, Held, HostTouch, LoadedKernel, Module,
    Persistent, Pinned, Side, Table,
};
pub use error::{EngineError, Error, FeedError, InstrumentError, KernelError, Result};
pub use feed::{Feed, Readback, Staging, Step, StepId};
pub use graph::{Graph, ReplayGroup};
pub use turns::Footprint;
#[doc(hidden)]
pub use turns::{Late, Turn, in_turn};

/// What a device can do: the driver trait with its backends.
///
/// Owners of handles are not here: of those, [`Device`] and what it gives out are
/// what a user holds.
pub mod driver {
    #[cfg(feature = "cuda")]
    pub use streamweir_hal::cuda;
    pub use streamweir_hal::driver::*;
    pub use streamweir_hal::sim;
    #[cfg(feature = "testing")]
    pub use streamweir_hal::testing;
}

pub use streamweir_alloc::{ArenaConfig, Holder, Policy};
pub use streamweir_hal::doctor;

#[cfg(feature = "cuda")]
pub use capture::{CudarcOp, CudarcSlice, CudarcSliceMut};

/// The CUDA bindings whose contexts, streams and memory can be adopted.
#[cfg(feature = "cuda")]
pub use cudarc;
