//! The memory of the simulated device: bytes behind addresses.
//!
//! Device addresses start far above any address of the host, so that one
//! number says which side a copy touches; page-locked host memory is real
//! memory at its real address. Addresses are never given out twice, and a gap
//! lies behind every allocation: an access that is stale, or one byte too
//! long, finds nothing and faults. Memory is zero when it is allocated, which
//! no real device promises.

pub(super) mod reserve;

use std::alloc::{Layout, alloc_zeroed, dealloc};
#[cfg(feature = "testing")]
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ptr::NonNull;

use streamweir_trace::ByteRange;

#[cfg(feature = "testing")]
use super::footprint::Footprint;
use crate::driver::Pointed;
use crate::driver::code::{BlockMemory, SimFault, extent};
use reserve::Pieces;

/// What CUDA aligns allocations to.
const ALIGN: u64 = 256;

/// What the host aligns a block to: enough for every element type, and no more
/// than an allocator gives untouched zeroed pages for.
const HOST_ALIGN: usize = 16;

/// The first device address: above the 47 bits of a host address.
const BASE: u64 = 1 << 48;

/// All allocations of one simulated device.
#[derive(Debug)]
pub(super) struct Memory {
    device: BTreeMap<u64, Block>,
    host: BTreeMap<u64, Block>,
    next: u64,
    used: u64,
    limit: u64,
    /// What the slice that runs touches, while an exploration wants to know.
    #[cfg(feature = "testing")]
    log: Option<RefCell<Footprint>>,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            device: BTreeMap::new(),
            host: BTreeMap::new(),
            next: BASE,
            used: 0,
            limit,
            #[cfg(feature = "testing")]
            log: None,
        }
    }

    /// From here on notes what is touched.
    #[cfg(feature = "testing")]
    pub(super) fn begin_log(&mut self) {
        self.log = Some(RefCell::default());
    }

    /// What was touched since [`begin_log`](Self::begin_log).
    #[cfg(feature = "testing")]
    pub(super) fn end_log(&mut self) -> Footprint {
        self.log.take().map(RefCell::into_inner).unwrap_or_default()
    }

    /// Puts back what logged writes replaced. Memory that has been freed since
    /// has nothing to put back.
    #[cfg(feature = "testing")]
    pub(super) fn take_back(&mut self, undo: &[(u64, Vec<u8>)]) {
        for (address, former) in undo.iter().rev() {
            if let Ok(to) = self.locate(*address, former.len() as u64) {
                // SAFETY: `locate` gave the start of as many bytes of a live
                // block, and `former` is outside all blocks. Host memory may be
                // in use by the host only as far as the caller of `copy_async`
                // promised that it is not.
                unsafe { std::ptr::copy_nonoverlapping(former.as_ptr(), to, former.len()) };
            }
        }
    }

    /// A copy of bytes of device or host memory; none where it is not live.
    #[cfg(feature = "testing")]
    pub(super) fn fetch(&self, address: u64, bytes: u64) -> Vec<u8> {
        match self.locate(address, bytes) {
            // SAFETY: `locate` gave the start of as many initialised bytes of a
            // live block. As for host memory, see `take_back`.
            Ok(start) => unsafe { std::slice::from_raw_parts(start, bytes as usize) }.to_vec(),
            Err(_) => Vec::new(),
        }
    }

    #[cfg(feature = "testing")]
    fn log_read(&self, address: u64, bytes: u64) {
        if let Some(log) = &self.log {
            log.borrow_mut().read(address, bytes);
        }
    }

    #[cfg(not(feature = "testing"))]
    fn log_read(&self, _address: u64, _bytes: u64) {}

    #[cfg(not(feature = "testing"))]
    fn log_write(&self, _address: u64, _bytes: u64) {}

    /// To be called before the write.
    #[cfg(feature = "testing")]
    fn log_write(&self, address: u64, bytes: u64) {
        if let Some(log) = &self.log {
            log.borrow_mut().wrote(address, self.fetch(address, bytes));
        }
    }

    /// Allocates device memory; `None` when the limit or the host's memory does
    /// not allow it.
    pub(super) fn alloc(&mut self, bytes: u64) -> Option<u64> {
        if bytes > self.limit - self.used {
            return None;
        }
        let address = self.next;
        let next = bytes
            .checked_next_multiple_of(ALIGN)?
            .checked_add(address + ALIGN)?;
        self.device.insert(address, Block::zeroed(bytes)?);
        self.next = next;
        self.used += bytes;
        Some(address)
    }

    /// Frees device memory; `false` when nothing was allocated at `address`.
    pub(super) fn free(&mut self, address: u64) -> bool {
        let Entry::Occupied(entry) = self.device.entry(address) else {
            return false;
        };
        if entry.get().pieces.is_some() {
            return false;
        }
        let block = entry.remove();
        self.used -= block.bytes;
        true
    }

    pub(super) fn host_alloc(&mut self, bytes: u64) -> Option<*mut u8> {
        let block = Block::zeroed(bytes)?;
        let start = block.start.as_ptr();
        self.host.insert(start as u64, block);
        Some(start)
    }

    pub(super) fn host_free(&mut self, address: u64) -> bool {
        self.host.remove(&address).is_some()
    }

    /// The device allocation that holds `address`.
    pub(super) fn range(&self, address: u64) -> Option<ByteRange> {
        let (&start, block) = self.device.range(..=address).next_back()?;
        let (offset, bytes) = match &block.pieces {
            None => (0, block.bytes),
            Some(pieces) => pieces.piece(address - start)?,
        };
        let range = ByteRange::from_len(start + offset, bytes)?;
        range.contains_byte(address).then_some(range)
    }

    /// The allocation that holds `address`, of the device or of the host.
    pub(super) fn pointer(&self, address: u64) -> Option<Pointed> {
        let device = address >= BASE;
        let side = if device { &self.device } else { &self.host };
        let (&start, block) = side.range(..=address).next_back()?;
        let range = ByteRange::from_len(start, block.bytes)?;
        range
            .contains_byte(address)
            .then_some(Pointed { range, device })
    }

    /// The numbers of device allocations, their bytes and host allocations.
    pub(super) fn live(&self) -> (usize, u64, usize) {
        let device = self.device.values();
        let pieces = device.map(|block| block.pieces.as_ref().map_or(1, Pieces::count));
        (pieces.sum(), self.used, self.host.len())
    }

    /// Whether all of these bytes lie in one live allocation, of the device or
    /// of page-locked host memory.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        self.locate(address, bytes).is_ok()
    }

    /// Device memory as bytes.
    pub(super) fn device_bytes(&self, address: u64, bytes: u64) -> Result<&[u8], SimFault> {
        if bytes == 0 {
            return Ok(&[]);
        }
        let start = find(&self.device, address, bytes)?;
        // SAFETY: `find` gave the start of as many initialised bytes of a live
        // block, and every writer of device memory needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(start, bytes as usize) })
    }

    /// Copies bytes between any two places.
    pub(super) fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), SimFault> {
        if bytes == 0 {
            return Ok(());
        }
        let source = self.locate(from, bytes)?;
        let target = self.locate(to, bytes)?;
        self.log_read(from, bytes);
        self.log_write(to, bytes);
        // SAFETY: both are starts of as many bytes of live blocks; `copy` allows
        // them to overlap. Host memory may be in use by the host only as far as
        // the caller of `copy_async` promised that it is not.
        unsafe { std::ptr::copy(source, target, bytes as usize) };
        Ok(())
    }

    /// Fills device bytes.
    pub(super) fn fill(&mut self, to: u64, value: u8, bytes: u64) -> Result<(), SimFault> {
        if bytes == 0 {
            return Ok(());
        }
        let target = find(&self.device, to, bytes)?;
        self.log_write(to, bytes);
        // SAFETY: the start of as many bytes of a live block, which `&mut self`
        // gives exclusive access to.
        unsafe { std::ptr::write_bytes(target, value, bytes as usize) };
        Ok(())
    }

    fn locate(&self, address: u64, bytes: u64) -> Result<*mut u8, SimFault> {
        let side = if address >= BASE {
            &self.device
        } else {
            &self.host
        };
        find(side, address, bytes)
    }
}

/// The place of `bytes` bytes from `address` on, all inside one block.
fn find(blocks: &BTreeMap<u64, Block>, address: u64, bytes: u64) -> Result<*mut u8, SimFault> {
    blocks
        .range(..=address)
        .next_back()
        .and_then(|(start, block)| {
            let offset = address - start;
            let end = offset.checked_add(bytes)?;
            // Inside the block, so the offset fits the host's address space.
            let live = end <= block.bytes && block.holds(offset, bytes);
            live.then(|| block.start.as_ptr().wrapping_add(offset as usize))
        })
        .ok_or_else(|| SimFault::OutOfBounds(extent(address, bytes)))
}

impl BlockMemory for Memory {
    fn load(&self, address: u64, bytes: u64) -> Result<&[u8], SimFault> {
        let found = self.device_bytes(address, bytes)?;
        self.log_read(address, bytes);
        Ok(found)
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), SimFault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let to = find(&self.device, address, bytes.len() as u64)?;
        self.log_write(address, bytes.len() as u64);
        // SAFETY: `find` gave the start of as many bytes of a live block, and
        // `&mut self` is the only way to device memory; `bytes` is outside it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }
}

/// One allocation.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    bytes: u64,
    layout: Layout,
    /// What is mapped of a reserved range; none for an allocation.
    pieces: Option<Pieces>,
}

// SAFETY: a block owns its bytes, and hands them out only through `Memory`.
unsafe impl Send for Block {}

impl Block {
    /// Whether all of these bytes, which are inside the block, have memory.
    fn holds(&self, offset: u64, bytes: u64) -> bool {
        self.pieces
            .as_ref()
            .is_none_or(|pieces| pieces.hold(offset, bytes))
    }

    fn zeroed(bytes: u64) -> Option<Self> {
        let size = usize::try_from(bytes).ok().filter(|&size| size > 0)?;
        let layout = Layout::from_size_align(size, HOST_ALIGN).ok()?;
        // SAFETY: the size is not zero. Zeroed pages cost nothing until used.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self {
            start,
            bytes,
            layout,
            pieces: None,
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed` with this layout, freed here alone.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
