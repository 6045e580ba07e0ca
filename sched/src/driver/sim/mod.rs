//! A device on the CPU.

mod kernel;
mod memory;

pub use kernel::{SimBlock, SimBody, SimFault, SimKernel};
