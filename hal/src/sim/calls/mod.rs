//! The simulated device as a [`Driver`]: which check each call makes first.

mod capture;
mod graph;
mod memory;
mod module;
mod stream;

use std::any::Any;

use super::SimDriver;
use crate::driver::{DeviceInfo, Driver};

// SAFETY: the parts keep what they promise, each where it is.
unsafe impl Driver for SimDriver {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
