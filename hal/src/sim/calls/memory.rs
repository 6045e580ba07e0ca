//! Memory of the device and of the host.

use streamweir_trace::{ByteRange, CopyNode, FillNode};

use super::super::SimDriver;
use super::super::memory::reserve;
use super::super::work::Work;
use crate::driver::code::BlockMemory;
use crate::driver::{DriverResult, ErrorClass, MemoryCalls, Pointed, StreamHandle};

// SAFETY: addresses are never given out twice, and each touch is checked against what lives.
unsafe impl MemoryCalls for SimDriver {
    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64> {
        self.call("cuMemAlloc", |device| {
            device.potentially_unsafe()?;
            if bytes == 0 {
                return Err(device.fail(ErrorClass::InvalidValue).with("zero bytes"));
            }
            device.memory.alloc(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes"))
            })
        })
    }

    unsafe fn mem_free(&self, address: u64) -> DriverResult<()> {
        self.release("cuMemFree", |device| {
            device.potentially_unsafe()?;
            if device.memory.free(address) {
                return Ok(());
            }
            Err(device
                .fail(ErrorClass::InvalidValue)
                .with(format!("no allocation starts at {address:#x}")))
        })
    }

    fn map_unit(&self) -> DriverResult<Option<u64>> {
        self.call("cuMemGetAllocationGranularity", |_| Ok(Some(reserve::UNIT)))
    }

    fn range_reserve(&self, bytes: u64) -> DriverResult<u64> {
        self.call("cuMemAddressReserve", |device| {
            if bytes == 0 || !bytes.is_multiple_of(reserve::UNIT) {
                let fail = device.fail(ErrorClass::InvalidValue);
                return Err(fail.with(format!("{bytes} bytes")));
            }
            device.memory.reserve(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes of addresses"))
            })
        })
    }

    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.release("cuMemAddressFree", |device| {
            if device.memory.unreserve(address, bytes) {
                return Ok(());
            }
            let fail = device.fail(ErrorClass::InvalidValue);
            Err(fail.with(format!("no idle range of {bytes} bytes at {address:#x}")))
        })
    }

    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.call("cuMemMap", |device| {
            device.potentially_unsafe()?;
            let mapped = device.memory.map(address, bytes);
            mapped.map_err(|refusal| {
                let class = match refusal {
                    reserve::Refusal::Invalid => ErrorClass::InvalidValue,
                    reserve::Refusal::OutOfMemory => ErrorClass::OutOfMemory,
                };
                let fail = device.fail(class);
                fail.with(format!("{bytes} bytes at {address:#x}"))
            })
        })
    }

    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()> {
        self.release("cuMemUnmap", |device| {
            device.potentially_unsafe()?;
            if device.memory.unmap(address, bytes) {
                return Ok(());
            }
            let fail = device.fail(ErrorClass::InvalidValue);
            Err(fail.with(format!(
                "nothing of {bytes} bytes is mapped at {address:#x}"
            )))
        })
    }

    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>> {
        self.call("cuMemGetAddressRange", |device| {
            Ok(device.memory.range(address))
        })
    }

    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>> {
        self.call("cuPointerGetAttributes", |device| {
            Ok(device.memory.pointer(address))
        })
    }

    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8> {
        self.call("cuMemHostAlloc", |device| {
            device.potentially_unsafe()?;
            if bytes == 0 {
                return Err(device.fail(ErrorClass::InvalidValue).with("zero bytes"));
            }
            device.memory.host_alloc(bytes).ok_or_else(|| {
                device
                    .fail(ErrorClass::OutOfMemory)
                    .with(format!("{bytes} bytes of host memory"))
            })
        })
    }

    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()> {
        self.release("cuMemFreeHost", |device| {
            device.potentially_unsafe()?;
            if device.memory.host_free(address as u64) {
                return Ok(());
            }
            Err(device
                .fail(ErrorClass::InvalidValue)
                .with(format!("no allocation starts at {address:?}")))
        })
    }

    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()> {
        self.call("cuMemcpyHtoD", |device| {
            device.memory.store(to, from).map_err(|fault| {
                device
                    .fail(ErrorClass::InvalidValue)
                    .with(fault.to_string())
            })
        })
    }

    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()> {
        self.call("cuMemcpyDtoH", |device| {
            match device.memory.device_bytes(from, to.len() as u64) {
                Ok(bytes) => to.copy_from_slice(bytes),
                Err(fault) => {
                    return Err(device
                        .fail(ErrorClass::InvalidValue)
                        .with(fault.to_string()));
                }
            }
            Ok(())
        })
    }

    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()> {
        self.call("cuMemcpyAsync", |device| {
            device.capture_of(stream)?;
            if bytes == 0 {
                return Ok(());
            }
            for address in [to, from] {
                if !device.memory.holds(address, bytes) {
                    return Err(device
                        .fail(ErrorClass::InvalidValue)
                        .with(format!("{bytes} bytes from {address:#x} on")));
                }
            }
            device.submit(stream, Work::Copy(CopyNode::linear(to, from, bytes)))
        })
    }

    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()> {
        self.call("cuMemsetD8Async", |device| {
            device.capture_of(stream)?;
            if bytes == 0 {
                return Ok(());
            }
            if device.memory.device_bytes(to, bytes).is_err() {
                return Err(device
                    .fail(ErrorClass::InvalidValue)
                    .with(format!("{bytes} bytes from {to:#x} on")));
            }
            device.submit(stream, Work::Fill(FillNode::linear(to, bytes, value)))
        })
    }
}
