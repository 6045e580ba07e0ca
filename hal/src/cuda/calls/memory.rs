//! Memory of the device and of the host.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;
use streamweir_trace::ByteRange;

use super::super::handle::Raw;
use super::super::{CudaDriver, capture, mapping};
use crate::driver::{CaptureMode, DriverResult, ErrorClass, MemoryCalls, Pointed, StreamHandle};

/// The stream that synchronous copies run on.
const LEGACY_STREAM: sys::CUstream = ptr::null_mut();

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver keeps allocations disjoint, and copies and fills touch their operands.
unsafe impl MemoryCalls for CudaDriver {
    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64> {
        let _current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.library.cuMemAlloc(&raw mut address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of device memory")))?;
        Ok(address)
    }

    unsafe fn mem_free(&self, address: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemFree(address) }
            .map_err(|error| error.with(format!("device memory at {address:#x}")))
    }

    fn map_unit(&self) -> DriverResult<Option<u64>> {
        let _current = self.context.enter()?;
        mapping::unit(self.library, self.info.ordinal)
    }

    fn range_reserve(&self, bytes: u64) -> DriverResult<u64> {
        let _current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library
                .cuMemAddressReserve(&raw mut address, bytes as usize, 0, 0, 0)
        }
        .map_err(|error| error.with(format!("{bytes} bytes of addresses")))?;
        Ok(address)
    }

    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemAddressFree(address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of addresses at {address:#x}")))
    }

    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { mapping::map(self.library, self.info.ordinal, address, bytes) }
            .map_err(|error| error.with(format!("{bytes} bytes of memory at {address:#x}")))
    }

    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemUnmap(address, bytes as usize) }
            .map_err(|error| error.with(format!("{bytes} bytes of memory at {address:#x}")))
    }

    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>> {
        let _current = self.context.enter()?;
        let (mut base, mut size) = (0, 0);
        // SAFETY: the pointers are to locals; the address is looked up, not used.
        let found = unsafe {
            self.library
                .cuMemGetAddressRange(&raw mut base, &raw mut size, address)
        };
        match found {
            Ok(()) => Ok(ByteRange::from_len(base, size as u64)),
            Err(error)
                if matches!(error.class, ErrorClass::NotFound | ErrorClass::InvalidValue) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.with(format!("address {address:#x}"))),
        }
    }

    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>> {
        use sys::CUpointer_attribute as Attribute;

        const DEVICE: u32 = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
        let _current = self.context.enter()?;
        let (mut start, mut size, mut memory): (u64, usize, u32) = (0, 0, 0);
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        ];
        let mut values = [
            (&raw mut start).cast::<c_void>(),
            (&raw mut size).cast(),
            (&raw mut memory).cast(),
        ];
        // SAFETY: each value has the size of its attribute; the address is
        // looked up, not used. For one that the driver does not know the call
        // succeeds and leaves zeros.
        let asked = unsafe {
            self.library.cuPointerGetAttributes(
                attributes.len() as u32,
                attributes.as_mut_ptr(),
                values.as_mut_ptr(),
                address,
            )
        };
        match asked {
            Ok(()) => Ok((size > 0)
                .then(|| ByteRange::from_len(start, size as u64))
                .flatten()
                .map(|range| Pointed {
                    range,
                    device: memory == DEVICE,
                })),
            Err(error)
                if matches!(error.class, ErrorClass::NotFound | ErrorClass::InvalidValue) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.with(format!("address {address:#x}"))),
        }
    }

    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8> {
        let _current = self.context.enter()?;
        let mut address = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library.cuMemHostAlloc(
                &raw mut address,
                bytes as usize,
                sys::CU_MEMHOSTALLOC_PORTABLE,
            )
        }
        .map_err(|error| error.with(format!("{bytes} bytes of page-locked host memory")))?;
        Ok(address.cast())
    }

    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuMemFreeHost(address.cast()) }
            .map_err(|error| error.with(format!("host memory at {address:p}")))
    }

    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()> {
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // CUDA returns from a copy out of pageable memory once the bytes are
        // staged; they may still be on their way when a stream that does not
        // wait for the legacy one reads them. The copy is allowed under capture
        // and the wait for it is not, though it touches no capturing stream.
        let former = capture::exchange_mode(self.library, CaptureMode::Relaxed)?;
        // SAFETY: by the caller; the slice is readable.
        let copied = unsafe {
            self.library
                .cuMemcpyHtoD(to, from.as_ptr().cast(), from.len())
                .and_then(|()| self.library.cuStreamSynchronize(LEGACY_STREAM))
        };
        let restored = capture::exchange_mode(self.library, former);
        copied
            .and(restored.map(drop))
            .map_err(|error| error.with(format!("{} bytes to {to:#x}", from.len())))
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()> {
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // SAFETY: by the caller; the slice is writable.
        unsafe {
            self.library
                .cuMemcpyDtoH(to.as_mut_ptr().cast(), from, to.len())
        }
        .map_err(|error| error.with(format!("{} bytes from {from:#x}", to.len())))
    }

    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller. Host and device addresses are told apart by the
        // driver: they share one address space.
        unsafe {
            self.library
                .cuMemcpyAsync(to, from, bytes as usize, stream.raw())
        }
        .map_err(|error| error.with(format!("{bytes} bytes from {from:#x} to {to:#x}")))
    }

    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuMemsetD8Async(to, value, bytes as usize, stream.raw())
        }
        .map_err(|error| error.with(format!("{bytes} bytes at {to:#x}")))
    }
}
