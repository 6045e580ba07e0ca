#![doc = include_str!("../README.md")]

pub use streamweir_alloc as alloc;
pub use streamweir_kernels as kernels;
pub use streamweir_sched::*;
pub use streamweir_trace as trace;
pub use streamweir_verify as verify;
