//! Capture, fork and join, verified graphs and their replay.
//!
//! This crate brings the pieces together: it drives a device, takes scratch
//! from the pools of `streamweir-alloc`, records what it does as a
//! `streamweir-trace` trace and has `streamweir-verify` prove the graph that
//! the driver made of it.
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`driver`] | what a device can do: the public parts of `streamweir-hal`, whose owners of handles are the only callers of a driver |
//! | `device` | devices, streams, persistent buffers, loaded code |
//! | [`kernel`](mod@kernel) | signatures with access modes |
//! | `capture` | captures: recording, pools, emission, read-back, verification |
//! | [`audit`] | live graphs of any origin as traces |
//! | [`infer`] | which bytes kernels write, found by running them |
//! | `feed` | inputs and results of a step, in turn with replays |
//! | `graph` | verified graphs, replay groups, taking turns |

// `kernel!` names items by `$crate`, and its tests and examples inside this
// crate by the crate's own name.
extern crate self as streamweir_sched;

pub mod audit;
mod capture;
mod device;
pub mod driver;
mod error;
mod feed;
mod graph;
pub mod infer;
pub mod kernel;
mod turns;

pub use capture::{
    Arg, Args, Attached, Buffer, Capture, CaptureOptions, Cast, CheckedArgs, Detached, Difference,
    Differential, Dyn, EagerRun, ForeignAddresses, ForeignCall, Joined, Lane, Part, Placement,
    Poison, Readings, Scratch, Seen, Stream, Taps, Touch, Verify, VisibleOn, atomics, cast, narrow,
    part, reads, updates, writes,
};
#[doc(hidden)]
pub use capture::{Binder, Place};
pub use device::{
    Damage, Device, DeviceStream, Event, GuardReport, LoadedKernel, Module, Persistent, Pinned,
    Side, Table,
};
pub use error::{Error, Result};
pub use feed::{Feed, Readback, Staging, Step, StepId};
pub use graph::{Graph, ReplayGroup};
pub use turns::Footprint;
#[doc(hidden)]
pub use turns::{Turn, in_turn};

pub use streamweir_alloc::{ArenaConfig, Holder, Policy};
pub use streamweir_hal::doctor;
pub(crate) use streamweir_hal::owned;

/// The CUDA bindings whose contexts, streams and memory can be adopted.
#[cfg(feature = "cuda")]
pub use cudarc;
