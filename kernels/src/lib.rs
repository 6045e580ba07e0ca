//! CUDA kernels of the DeepSeek-V4 decode path: signatures with access modes,
//! run-time compilation and CPU twins.
//!
//! One kernel is three things that stay together: its CUDA source in `cuda/`,
//! its signature with launch shape in [`dsv4`], and its CPU twin beside the
//! signature, which calls [`reference`](mod@reference). The geometry of the
//! pools that kernels touch is a [`layout`], the table of rotary embedding comes
//! from [`rope`]; [`compile`] turns sources into
//! cubins and remembers them.

pub mod compile;
#[cfg(feature = "testing")]
pub mod conformance;
mod constants;
mod dims;
pub mod dsv4;
pub mod gemm;
pub mod layout;
pub mod reference;
pub mod rope;

pub use dims::DimensionError;
