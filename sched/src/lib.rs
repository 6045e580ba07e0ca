//! Capture, fork and join, verified graphs and their replay.

// `kernel!` names items by `$crate`, and its tests and examples inside this
// crate by the crate's own name.
extern crate self as streamweir_sched;

pub mod doctor;
pub mod driver;
pub mod kernel;

/// The CUDA bindings whose contexts, streams and memory can be adopted.
#[cfg(feature = "cuda")]
pub use cudarc;
