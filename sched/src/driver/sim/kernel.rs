//! Kernels of the simulated device: Rust functions that run one thread block
//! at a time.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use streamweir_trace::ByteRange;
use thiserror::Error;

use super::memory::Memory;
use crate::driver::{LaunchShape, ParamSlot};

/// The body of one thread block of a simulated kernel.
pub type SimBody = dyn Fn(&mut SimBlock<'_>) -> Result<(), SimFault> + Send + Sync;

/// A kernel of the simulated device.
///
/// [`run`](Self::run) is called once for each thread block; a call is the
/// smallest step that the simulator interleaves with other work, and it runs to
/// its end.
#[derive(Clone)]
pub struct SimKernel {
    /// The symbol that [`Driver::module_function`](crate::driver::Driver::module_function) looks up.
    pub symbol: &'static str,
    /// Where the kernel expects its parameters.
    pub params: Vec<ParamSlot>,
    /// The body of one thread block.
    pub run: Arc<SimBody>,
}

impl fmt::Debug for SimKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimKernel")
            .field("symbol", &self.symbol)
            .finish_non_exhaustive()
    }
}

/// A kernel of the simulated device touched memory that it may not touch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimFault {
    /// No live allocation holds all of these bytes.
    #[error("access to {0}, which no live allocation holds")]
    OutOfBounds(ByteRange),
    /// The address is no multiple of the element's alignment.
    #[error("access to {0} is not aligned to {1} bytes")]
    Misaligned(ByteRange, usize),
    /// The kernel itself refused to go on.
    #[error("{0}")]
    Trap(String),
}

/// What one thread block of a simulated kernel sees.
pub struct SimBlock<'a> {
    pub(super) index: [u32; 3],
    pub(super) shape: LaunchShape,
    pub(super) params: &'a [u8],
    pub(super) memory: &'a mut Memory,
}

impl SimBlock<'_> {
    /// The block's place in the grid.
    pub fn index(&self) -> [u32; 3] {
        self.index
    }

    /// The shape of the launch.
    pub fn shape(&self) -> LaunchShape {
        self.shape
    }

    /// The raw parameter buffer.
    pub fn params(&self) -> &[u8] {
        self.params
    }

    /// `count` elements of device memory from `address` on.
    ///
    /// # Errors
    /// When the bytes are not all in one live allocation, or misaligned.
    pub fn read<T: Pod>(&self, address: u64, count: usize) -> Result<&[T], SimFault> {
        self.memory.read(address, count)
    }

    /// Writes elements to device memory from `address` on.
    ///
    /// # Errors
    /// As for [`read`](Self::read); nothing is written then.
    pub fn write<T: Pod>(&mut self, address: u64, values: &[T]) -> Result<(), SimFault> {
        self.memory.write(address, values)
    }
}
