//! Memory of the device and page-locked memory of the host.

use streamweir_trace::ByteRange;

use super::reclaim::{Garbage, Relaxed, Shared};
use crate::driver::{DriverError, DriverResult, ErrorClass};

/// Device memory.
#[derive(Debug)]
pub struct DeviceMemory {
    reclaim: Shared,
    range: ByteRange,
}

impl DeviceMemory {
    /// New memory, with anything in it; `bytes` is not zero.
    ///
    /// # Errors
    /// When there is none left.
    pub fn new(reclaim: &Shared, bytes: u64) -> DriverResult<Self> {
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

    /// Its addresses.
    pub fn range(&self) -> ByteRange {
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
/// # Errors
/// When the driver refuses.
///
/// # Safety
/// `to..to + from.len()` is live device memory that no unfinished work uses.
pub unsafe fn upload(reclaim: &Shared, to: u64, from: &[u8]) -> DriverResult<()> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().copy_to_device(to, from) }
}

/// Copies device bytes to the host and waits.
///
/// # Errors
/// When the driver refuses.
///
/// # Safety
/// `from..from + to.len()` is live device memory that no unfinished work writes.
pub unsafe fn download(reclaim: &Shared, to: &mut [u8], from: u64) -> DriverResult<()> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().copy_to_host(to, from) }
}

/// Page-locked host memory.
#[derive(Debug)]
pub struct HostMemory {
    reclaim: Shared,
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to this owner alone; the device touches it only by
// copies, whose enqueuer keeps the host away meanwhile.
unsafe impl Send for HostMemory {}
// SAFETY: shared access is unsafe, and says that nobody writes meanwhile.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed memory.
    ///
    /// # Errors
    /// When there is none left, and for no bytes.
    pub fn zeroed(reclaim: &Shared, bytes: usize) -> DriverResult<Self> {
        if bytes == 0 {
            return Err(DriverError::of("host_alloc", ErrorClass::InvalidValue)
                .with("memory of no bytes has no place"));
        }
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

    /// Where it begins, as copies name it.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none, which it never is.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What is in it.
    ///
    /// # Safety
    /// While the borrow lasts nobody writes it: neither the host nor a copy.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is ours, initialised, and as long as said; the rest is
        // the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    /// What is in it, to be written by whoever shares it.
    ///
    /// # Safety
    /// While the borrow lasts nobody else reads or writes it: neither the host nor a
    /// copy.
    #[allow(
        clippy::mut_from_ref,
        reason = "the bytes are behind a pointer, and the caller promises to be alone"
    )]
    pub unsafe fn bytes_alone(&self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }

    /// What is in it, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the exclusive borrow makes us the only user, for copies share it.
        unsafe { self.bytes_alone() }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Host(self.address));
    }
}
