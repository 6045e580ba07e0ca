//! Address ranges that are backed with memory piece by piece.
//!
//! A range is one block of the host's memory, of which only the mapped pieces
//! may be touched: an access may run from one piece into the next, and faults
//! where there is none.

use std::collections::BTreeMap;

use super::{ALIGN, Block, Memory};

/// What a piece's start and length are multiples of.
pub(in super::super) const UNIT: u64 = 4096;

/// The mapped pieces of a range: offset and length.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    mapped: BTreeMap<u64, u64>,
    /// No piece has reached further; what is behind has never been written.
    touched: u64,
}

/// Why a piece cannot be mapped.
pub(in super::super) enum Refusal {
    /// Not inside a reserved range, not in units, or mapped already.
    Invalid,
    /// The device has no such memory left.
    OutOfMemory,
}

impl Pieces {
    /// Whether all of these bytes are mapped.
    pub(super) fn hold(&self, offset: u64, bytes: u64) -> bool {
        let end = offset + bytes;
        let Some((&start, &len)) = self.mapped.range(..=offset).next_back() else {
            return false;
        };
        let mut mapped_to = start + len;
        while mapped_to < end {
            match self.mapped.get(&mapped_to) {
                Some(len) if mapped_to > offset => mapped_to += len,
                _ => return false,
            }
        }
        mapped_to > offset
    }

    /// The piece that holds a byte.
    pub(super) fn piece(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &len) = self.mapped.range(..=offset).next_back()?;
        (offset < start + len).then_some((start, len))
    }

    pub(super) fn count(&self) -> usize {
        self.mapped.len()
    }
}

impl Memory {
    /// Reserves a range; `None` when the host has no addresses left.
    pub(in super::super) fn reserve(&mut self, bytes: u64) -> Option<u64> {
        let address = self.next.checked_next_multiple_of(UNIT)?;
        let next = address.checked_add(bytes)?.checked_add(ALIGN)?;
        let mut block = Block::zeroed(bytes)?;
        block.pieces = Some(Pieces::default());
        self.device.insert(address, block);
        self.next = next;
        Some(address)
    }

    /// Gives a range back in which nothing is mapped; `false` when there is no
    /// such range.
    pub(in super::super) fn unreserve(&mut self, address: u64, bytes: u64) -> bool {
        let free = self.device.get(&address).is_some_and(|block| {
            block.bytes == bytes && block.pieces.as_ref().is_some_and(|p| p.count() == 0)
        });
        if free {
            self.device.remove(&address);
        }
        free
    }

    /// Backs a part of a range with zeroed memory.
    pub(in super::super) fn map(&mut self, address: u64, bytes: u64) -> Result<(), Refusal> {
        let in_units = address.is_multiple_of(UNIT) && bytes.is_multiple_of(UNIT) && bytes > 0;
        let (&start, block) = self
            .device
            .range_mut(..=address)
            .next_back()
            .filter(|_| in_units)
            .ok_or(Refusal::Invalid)?;
        let (offset, length) = (address - start, block.bytes);
        let pieces = block.pieces.as_mut().ok_or(Refusal::Invalid)?;
        let end = offset.checked_add(bytes).ok_or(Refusal::Invalid)?;
        let before = pieces.mapped.range(..end).next_back();
        if end > length || before.is_some_and(|(start, len)| start + len > offset) {
            return Err(Refusal::Invalid);
        }
        if bytes > self.limit - self.used {
            return Err(Refusal::OutOfMemory);
        }
        let stale = pieces.touched.min(end).saturating_sub(offset);
        pieces.touched = pieces.touched.max(end);
        pieces.mapped.insert(offset, bytes);
        self.used += bytes;
        // SAFETY: the piece lies inside the block, which `&mut self` gives
        // exclusive access to.
        unsafe {
            block
                .start
                .as_ptr()
                .add(offset as usize)
                .write_bytes(0, stale as usize)
        };
        Ok(())
    }

    /// Takes the memory of a piece away; `false` when no such piece is mapped.
    pub(in super::super) fn unmap(&mut self, address: u64, bytes: u64) -> bool {
        let Some((&start, block)) = self.device.range_mut(..=address).next_back() else {
            return false;
        };
        let Some(pieces) = &mut block.pieces else {
            return false;
        };
        if pieces.mapped.get(&(address - start)) != Some(&bytes) {
            return false;
        }
        pieces.mapped.remove(&(address - start));
        self.used -= bytes;
        true
    }

    /// How many ranges are reserved.
    pub(in super::super) fn reservations(&self) -> usize {
        let blocks = self.device.values();
        blocks.filter(|block| block.pieces.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(memory: &mut Memory, address: u64, units: u64) -> bool {
        memory.map(address, units * UNIT).is_ok()
    }

    #[test]
    fn only_mapped_bytes_may_be_touched() {
        let mut memory = Memory::new(1 << 20);
        let start = memory.reserve(4 * UNIT).unwrap();
        assert!(!memory.holds(start, 1));
        assert!(mapped(&mut memory, start, 1) && mapped(&mut memory, start + UNIT, 2));
        assert!(memory.holds(start + UNIT - 4, 8), "across two pieces");
        assert!(memory.holds(start, 3 * UNIT));
        assert!(!memory.holds(start + 1, 3 * UNIT), "one byte too far");
        assert!(memory.unmap(start, UNIT));
        assert!(!memory.holds(start + UNIT - 4, 8));
        assert!(memory.holds(start + UNIT, 2 * UNIT));
        assert_eq!(memory.range(start), None);
        assert_eq!(memory.live(), (1, 2 * UNIT, 0));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let mut memory = Memory::new(4 * UNIT);
        let start = memory.reserve(8 * UNIT).unwrap();
        assert!(mapped(&mut memory, start + UNIT, 2));
        for (at, units) in [(1, 1), (2, 1), (0, 2), (2, 2), (8, 1), (7, 2)] {
            assert!(!mapped(&mut memory, start + at * UNIT, units), "{at}");
        }
        assert!(memory.map(start, UNIT / 2).is_err());
        let refusal = memory.map(start + 3 * UNIT, 3 * UNIT);
        assert!(matches!(refusal, Err(Refusal::OutOfMemory)));
        assert!(!memory.unmap(start + UNIT, UNIT), "not the whole piece");
        assert!(!memory.unreserve(start, 8 * UNIT), "something is mapped");
        assert!(!memory.free(start), "no allocation");
        assert!(memory.unmap(start + UNIT, 2 * UNIT));
        assert!(!memory.unreserve(start, UNIT));
        assert!(memory.unreserve(start, 8 * UNIT));
        assert_eq!(memory.live(), (0, 0, 0));
    }

    #[test]
    fn memory_that_is_mapped_anew_is_zero() {
        let mut memory = Memory::new(1 << 20);
        let start = memory.reserve(2 * UNIT).unwrap();
        assert!(mapped(&mut memory, start, 2));
        memory.fill(start, 7, 2 * UNIT).unwrap();
        assert!(memory.unmap(start, 2 * UNIT));
        assert!(mapped(&mut memory, start, 1));
        let bytes = memory.device_bytes(start, UNIT).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}
