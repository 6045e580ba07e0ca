//! Code that a driver can load: a CUDA image, or kernels as Rust functions that
//! run one thread block at a time.
//!
//! A Rust kernel reaches memory through its [`SimBlock`] alone, which asks the
//! device that runs it about every access.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;
use streamweir_trace::ByteRange;
use thiserror::Error;

use super::types::{LaunchShape, ParamSlot};

/// Code that a driver can load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ModuleImage {
    /// A cubin, a fatbin or PTX, for a CUDA device.
    Cuda(Vec<u8>),
    /// Rust functions, for the simulated device.
    Sim(Vec<SimKernel>),
}

/// The body of one thread block of a simulated kernel.
pub type SimBody = dyn Fn(&mut SimBlock<'_>) -> Result<(), SimFault> + Send + Sync;

/// A kernel of the simulated device.
///
/// [`run`](Self::run) is called once for each thread block; a call is the
/// smallest step that the simulator interleaves with other work, and it runs to
/// its end.
#[derive(Clone)]
pub struct SimKernel {
    /// The symbol that [`module_function`](crate::driver::ModuleCalls::module_function) looks up.
    pub symbol: &'static str,
    /// Where the kernel expects its parameters.
    pub params: Vec<ParamSlot>,
    /// The body of one thread block.
    pub run: Arc<SimBody>,
}

/// What is said of a symbol that a module does not have: the names that it has.
pub(crate) fn no_kernel(symbol: &str, mut there: Vec<String>) -> String {
    /// The most names.
    const NAMED: usize = 8;
    there.sort_unstable();
    if there.is_empty() {
        return format!("no kernel {symbol}");
    }
    let more = match there.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    there.truncate(NAMED);
    format!(
        "no kernel {symbol}; the module has {}{more}",
        there.join(", ")
    )
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

/// The memory of a device, as its kernels reach it.
pub(crate) trait BlockMemory {
    /// Bytes of one live allocation, of device memory.
    fn load(&self, address: u64, bytes: u64) -> Result<&[u8], SimFault>;

    /// Writes bytes to one live allocation, of device memory.
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), SimFault>;
}

/// What one thread block of a simulated kernel sees.
pub struct SimBlock<'a> {
    pub(crate) index: [u32; 3],
    pub(crate) shape: LaunchShape,
    pub(crate) params: &'a [u8],
    pub(crate) memory: &'a mut dyn BlockMemory,
    /// The line of the first access that failed.
    pub(crate) fault: Cell<Option<&'static Location<'static>>>,
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

    /// The parameter at `offset` in the buffer.
    ///
    /// # Errors
    /// When the kernel has no parameter there, or a shorter one.
    #[track_caller]
    pub fn param<T: Pod>(&self, offset: usize) -> Result<T, SimFault> {
        let end = offset.saturating_add(size_of::<T>());
        let found = self.params.get(offset..end).ok_or_else(|| {
            SimFault::Trap(format!(
                "no parameter of {} bytes at offset {offset}: the buffer has {}",
                size_of::<T>(),
                self.params.len()
            ))
        });
        self.note(found.map(bytemuck::pod_read_unaligned))
    }

    /// `count` elements of device memory from `address` on.
    ///
    /// # Errors
    /// When the bytes are not all in one live allocation, or misaligned. The failure of
    /// the device then names the line that called this, as that of
    /// [`write`](Self::write) does; mark a helper of yours `#[track_caller]` to have its
    /// caller's.
    #[track_caller]
    pub fn read<T: Pod>(&self, address: u64, count: usize) -> Result<&[T], SimFault> {
        if count == 0 {
            // An empty slice has no place in memory whose alignment could matter.
            return Ok(&[]);
        }
        let load = || {
            let bytes = (count as u64)
                .checked_mul(size_of::<T>() as u64)
                .ok_or_else(|| SimFault::OutOfBounds(extent(address, u64::MAX)))?;
            let found = self.memory.load(address, bytes)?;
            bytemuck::try_cast_slice(found).map_err(|_| misaligned::<T>(address, bytes))
        };
        self.note(load())
    }

    /// Writes elements to device memory from `address` on.
    ///
    /// # Errors
    /// As for [`read`](Self::read); nothing is written then.
    #[track_caller]
    pub fn write<T: Pod>(&mut self, address: u64, values: &[T]) -> Result<(), SimFault> {
        let stored = match address.is_multiple_of(align_of::<T>() as u64) {
            true => self.memory.store(address, bytemuck::cast_slice(values)),
            false => Err(misaligned::<T>(address, size_of_val(values) as u64)),
        };
        self.note(stored)
    }

    /// Keeps the line of the first access that failed.
    #[track_caller]
    fn note<R>(&self, accessed: Result<R, SimFault>) -> Result<R, SimFault> {
        if accessed.is_err() && self.fault.get().is_none() {
            self.fault.set(Some(Location::caller()));
        }
        accessed
    }
}

fn misaligned<T>(address: u64, bytes: u64) -> SimFault {
    SimFault::Misaligned(extent(address, bytes), align_of::<T>())
}

/// A range for a message, cut off at the last address.
pub(crate) fn extent(address: u64, bytes: u64) -> ByteRange {
    ByteRange::new(address, address.saturating_add(bytes))
}
