//! The trait, call by call.
//!
//! Each method enters the context, makes one call and says in its error what
//! it was about. Where one call of CUDA does not keep the trait's promise, the
//! method says why there are two.

mod capture;
mod graph;
mod memory;
mod module;
mod stream;

use std::any::Any;

use super::CudaDriver;
use crate::driver::{DeviceInfo, Driver};

// SAFETY: the parts keep what they promise, each where it is.
unsafe impl Driver for CudaDriver {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
