#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | | |
//! | --- | --- |
//! | [`Device`], [`Capture`], [`Stream`], [`Scratch`], [`Persistent`], [`Graph`], [`ReplayGroup`] | what an engine holds |
//! | [`Sizing`] | what its buckets will reserve, before they are captured |
//! | [`Feed`], [`Staging`], [`Readback`] | inputs and results of a step, in turn with replays |
//! | [`kernel!`], [`kernel`](mod@kernel) | declaring kernels with their access modes, and their CPU twins |
//! | [`lanes!`], [`VisibleOn`], [`Joined`] | streams with types: a missing join is a compile error |
//! | [`driver`] | the driver trait with its backends: CUDA and the simulated device; with feature `testing`, the conformance suite and drivers that fail or lie |
//! | [`verify`](mod@verify) | the verifier: rules, reports, fixes, certificates and their checker |
//! | [`audit`], [`infer`] | live graphs of any origin, and which bytes their kernels write |
//! | [`trace`](mod@trace) | the record of a capture, and its file format |
//! | [`alloc`](mod@alloc) | scratch pools, arena and registry, for engines that only want those |
//! | [`place`](mod@place) | placement of a whole recording at once, and the floors below it |
//! | [`kernels`](mod@kernels) | kernels of a sparse-attention layer, and their compilation at run time |
//! | [`doctor`] | what of CUDA is there, and where it was looked for |

// What an engine holds.
pub use streamweir_sched::{
    Capture, CaptureOptions, Device, DeviceStream, Event, Graph, Held, LoadedKernel, Module,
    Persistent, Pinned, ReplayGroup, Scratch, Sizing, Stream, Table,
};

// Inputs and results of a step, in turn with replays.
pub use streamweir_sched::{Feed, Readback, Staging, Step, StepId};

// How a capture is made, and what becomes of it.
pub use streamweir_sched::{
    ArenaConfig, Attached, Detached, EagerRun, Footprint, Holder, Placement, Policy, Side, Verify,
};

// What went wrong.
pub use streamweir_sched::{EngineError, Error, FeedError, InstrumentError, KernelError, Result};

// What a launch, a copy or a call of a library takes.
pub use streamweir_sched::{
    Arg, Args, Buffer, Cast, CheckedArgs, ForeignAddresses, ForeignCall, HostTouch, Part, Touch,
    atomics, cast, narrow, part, reads, updates, writes,
};

// Streams with types, and what one sees of another.
pub use streamweir_sched::{Dyn, Joined, Lane, Seen, VisibleOn, lanes};

// Instruments: what a capture can be made to show.
pub use streamweir_sched::{Damage, Difference, Differential, GuardReport, Poison, Readings, Taps};

// Declaring kernels: the macro, and the module of what it makes.
pub use streamweir_sched::kernel;

pub use streamweir_sched::{audit, doctor, driver, infer};

pub use streamweir_alloc as alloc;
pub use streamweir_kernels as kernels;
pub use streamweir_place as place;
pub use streamweir_trace as trace;
pub use streamweir_verify as verify;

// Ops over cudarc's streams and slices.
#[cfg(feature = "cuda")]
pub use streamweir_sched::{CudarcOp, CudarcSlice, CudarcSliceMut};

// The CUDA bindings whose contexts, streams and memory can be adopted.
#[cfg(feature = "cuda")]
pub use streamweir_sched::cudarc;
