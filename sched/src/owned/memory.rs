//! Memory of the device and page-locked memory of the host.

use streamweir_trace::ByteRange;

use super::{Garbage, Relaxed, Shared};
use crate::driver::{DriverError, DriverResult, ErrorClass};

/// Device memory.
pub(crate) struct DeviceMemory {
    reclaim: Shared,
    range: ByteRange,
}

impl DeviceMemory {
    pub(crate) fn new(reclaim: &Shared, bytes: u64) -> DriverResult<Self> {
        let _relaxed = Relaxed::enter(reclaim)?;
        let address = reclaim.driver().mem_alloc(bytes)?;
        let range = ByteRange::from_len(address, bytes).ok_or_else(|| {
            DriverError::of("mem_alloc", ErrorClass::InvalidValue).with(format!(
                "{bytes} bytes at {address:#x} end past the address space"
            ))
        })?;
        Ok(Self {
            reclaim: reclaim.clone(),
            range,
        })
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Memory(self.range.start));
    }
}

/// Copies host bytes to device memory and waits.
///
/// # Safety
/// `to..to + from.len()` is live device memory that no unfinished work uses.
pub(crate) unsafe fn upload(reclaim: &Shared, to: u64, from: &[u8]) -> DriverResult<()> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().copy_to_device(to, from) }
}

/// Copies device bytes to the host and waits.
///
/// # Safety
/// `from..from + to.len()` is live device memory that no unfinished work writes.
pub(crate) unsafe fn download(reclaim: &Shared, to: &mut [u8], from: u64) -> DriverResult<()> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().copy_to_host(to, from) }
}

/// Page-locked host memory.
pub(crate) struct HostMemory {
    reclaim: Shared,
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to this owner alone; the device reads it only by
// copies whose safety contract keeps the host from writing meanwhile.
unsafe impl Send for HostMemory {}
// SAFETY: shared access is reading alone.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed memory; `bytes` is not zero.
    pub(crate) fn zeroed(reclaim: &Shared, bytes: usize) -> DriverResult<Self> {
        let _relaxed = Relaxed::enter(reclaim)?;
        let address = reclaim.driver().host_alloc(bytes as u64)?;
        // SAFETY: the driver has just given these bytes to us alone.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self {
            reclaim: reclaim.clone(),
            address,
            bytes,
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is ours, initialised, and as long as said.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive borrow makes us the only user.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Host(self.address));
    }
}
