//! What one slice touched, and how to take it back.

use streamweir_trace::ByteRange;

/// The bytes that one slice read and wrote, with what the writes replaced.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    reads: Vec<ByteRange>,
    writes: Vec<ByteRange>,
    /// First byte and former contents of each write, in the order of writing.
    pub(super) undo: Vec<(u64, Vec<u8>)>,
}

impl Footprint {
    pub(super) fn read(&mut self, address: u64, bytes: u64) {
        note(&mut self.reads, address, bytes);
    }

    pub(super) fn wrote(&mut self, address: u64, former: Vec<u8>) {
        note(&mut self.writes, address, former.len() as u64);
        self.undo.push((address, former));
    }

    /// Whether the two slices touch a byte that at least one of them writes.
    /// If not, they do the same in either order.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
    }
}

fn note(ranges: &mut Vec<ByteRange>, address: u64, bytes: u64) {
    // Access was granted, so the range does not run past the last address.
    let range = ByteRange::new(address, address.saturating_add(bytes));
    match ranges.last_mut() {
        // Kernels walk through memory; a walk is one range.
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

fn meet(some: &[ByteRange], others: &[ByteRange]) -> bool {
    some.iter()
        .any(|range| others.iter().any(|other| range.overlaps(other)))
}
