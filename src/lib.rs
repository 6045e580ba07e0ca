#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | | |
//! | --- | --- |
//! | [`Device`], [`Capture`], [`Stream`], [`Scratch`], [`Persistent`], [`Graph`], [`ReplayGroup`] | what an engine holds: everything of the scheduler stands at the root |
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

pub use streamweir_alloc as alloc;
pub use streamweir_kernels as kernels;
pub use streamweir_place as place;
pub use streamweir_sched::*;
pub use streamweir_trace as trace;
pub use streamweir_verify as verify;
