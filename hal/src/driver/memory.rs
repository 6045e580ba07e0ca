//! Memory of the device and of the host, and the copies and fills of it.

use streamweir_trace::ByteRange;

use super::{DriverResult, Pointed, StreamHandle};

/// Memory, and what copies and fills it.
///
/// # Safety
/// An implementation keeps the meaning of every method. Above all, memory that
/// [`mem_alloc`](Self::mem_alloc) or [`mem_map`](Self::mem_map) gave is disjoint from
/// all other live memory, and a copy or a fill touches its operands alone.
pub unsafe trait MemoryCalls {
    /// Allocates `bytes` bytes of device memory, aligned to 256 bytes.
    /// `bytes` is not zero.
    fn mem_alloc(&self, bytes: u64) -> DriverResult<u64>;

    /// Frees memory.
    ///
    /// # Safety
    /// `address` came from [`mem_alloc`](Self::mem_alloc), is freed once, and
    /// no work that uses it is unfinished or will be replayed.
    unsafe fn mem_free(&self, address: u64) -> DriverResult<()>;

    /// In what unit address ranges are reserved and backed with memory, in
    /// bytes; `None` when the device cannot do that.
    fn map_unit(&self) -> DriverResult<Option<u64>>;

    /// Reserves `bytes` addresses, a multiple of the unit and not zero, without
    /// memory behind them. No touch of a stream, so allowed under capture.
    fn range_reserve(&self, bytes: u64) -> DriverResult<u64>;

    /// Gives a reserved range back.
    ///
    /// # Safety
    /// The range came from [`range_reserve`](Self::range_reserve) with this
    /// length, is freed once, and nothing is mapped in it.
    unsafe fn range_free(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// Backs `bytes` bytes of a reserved range with device memory that copies
    /// and kernels may use. Pieces that adjoin are used as one. Both numbers are
    /// multiples of the unit.
    ///
    /// # Safety
    /// The bytes lie in one live range, and nothing is mapped there.
    unsafe fn mem_map(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// Takes the memory of a piece away.
    ///
    /// # Safety
    /// As for [`mem_free`](Self::mem_free), for a piece that
    /// [`mem_map`](Self::mem_map) made with these numbers.
    unsafe fn mem_unmap(&self, address: u64, bytes: u64) -> DriverResult<()>;

    /// The live allocation that holds `address`, from anybody who shares the
    /// context, or `None` when there is none.
    fn mem_range(&self, address: u64) -> DriverResult<Option<ByteRange>>;

    /// The memory that `address` lies in, from anybody who shares the context,
    /// and whether it is the device's; `None` for what the driver does not know.
    fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>>;

    /// Allocates `bytes` bytes of page-locked host memory that copies on a
    /// stream may use. `bytes` is not zero.
    fn host_alloc(&self, bytes: u64) -> DriverResult<*mut u8>;

    /// Frees page-locked host memory.
    ///
    /// # Safety
    /// As for [`mem_free`](Self::mem_free).
    unsafe fn host_free(&self, address: *mut u8) -> DriverResult<()>;

    /// Copies host bytes to the device and waits for the copy.
    ///
    /// # Safety
    /// `to..to + from.len()` is live device memory that no unfinished work uses.
    unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> DriverResult<()>;

    /// Copies device bytes to the host and waits for the copy.
    ///
    /// # Safety
    /// `from..from + to.len()` is live device memory that no unfinished work
    /// writes.
    unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> DriverResult<()>;

    /// Enqueues a copy. Either side is device memory or page-locked host
    /// memory. Host memory is read when the copy runs, at every replay.
    ///
    /// # Safety
    /// The handle is live, and both ranges stay live until the copy, and every
    /// replay of a graph that captures it, has ended.
    unsafe fn copy_async(
        &self,
        stream: StreamHandle,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> DriverResult<()>;

    /// Enqueues a fill of `bytes` bytes with `value`.
    ///
    /// # Safety
    /// As for [`copy_async`](Self::copy_async).
    unsafe fn fill_async(
        &self,
        stream: StreamHandle,
        to: u64,
        value: u8,
        bytes: u64,
    ) -> DriverResult<()>;
}
