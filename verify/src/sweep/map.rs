//! The bytes of a trace, cut where an access begins or ends.
//!
//! Between two neighbouring cuts all bytes are touched alike, so an address can
//! be a small number: that of its cell. Bytes that nothing writes and of which
//! nothing must be written stay out; most weights do.

use streamweir_trace::{BufferId, ByteRange, Trace};

use crate::accesses::Accesses;

/// Which cells an access covers.
#[derive(Debug)]
pub(crate) struct AddressMap<'a> {
    trace: &'a Trace,
    /// The first byte of each cell, and the end of the last.
    cuts: Vec<u64>,
    /// The cells of each buffer; none for a buffer that stays out.
    cells: Vec<(u32, u32)>,
}

impl<'a> AddressMap<'a> {
    pub(crate) fn new(trace: &'a Trace, accesses: &Accesses<'_>) -> Self {
        let written = written(trace, accesses);
        let mut cuts = Distinct::default();
        let mut cells = vec![(0, 0); trace.buffers.len()];
        for ((buffer, id), cells) in trace.buffers.iter().zip(0..).zip(&mut cells) {
            let life = accesses.life(BufferId(id));
            let matters = life.written || life.needs_write || touches_one(&written, buffer.range);
            if life.count > 0 && matters {
                cuts.add(buffer.range.start);
                cuts.add(buffer.range.end);
                *cells = (0, 1);
            }
        }
        for id in accesses.ids() {
            let (buffer, bytes) = accesses.place(id);
            if cells[buffer.index()].1 > 0 && !bytes.is_empty() {
                let range = trace.buffer(buffer).range;
                if bytes.len() != range.len() {
                    cuts.add(range.start + bytes.start);
                    cuts.add(range.start + bytes.end);
                }
            }
        }
        let mut this = Self {
            trace,
            cuts: cuts.sorted(),
            cells: Vec::new(),
        };
        for (buffer, cells) in trace.buffers.iter().zip(&mut cells) {
            if cells.1 > 0 {
                *cells = this.find(buffer.range);
            }
        }
        this.cells = cells;
        this
    }

    fn find(&self, range: ByteRange) -> (u32, u32) {
        let of = |address| self.cuts.partition_point(|&cut| cut < address) as u32;
        (of(range.start), of(range.end))
    }

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    /// The cells that `bytes` of a buffer cover, counted from its first byte.
    #[inline]
    pub(crate) fn covered(&self, buffer: u32, bytes: ByteRange) -> (u32, u32) {
        let all = self.cells[buffer as usize];
        // In a buffer of one cell there is no shorter access.
        if all.1 - all.0 <= 1 {
            return if bytes.is_empty() { (0, 0) } else { all };
        }
        let range = self.trace.buffers[buffer as usize].range;
        if bytes.len() == range.len() {
            return all;
        }
        if bytes.is_empty() {
            return (0, 0);
        }
        let of = |address| {
            let inside = &self.cuts[all.0 as usize..=all.1 as usize];
            all.0 + inside.partition_point(|&cut| cut < address) as u32
        };
        (of(range.start + bytes.start), of(range.start + bytes.end))
    }

    /// The cells of a buffer.
    pub(crate) fn cells(&self, buffer: u32) -> (u32, u32) {
        self.cells[buffer as usize]
    }
}

/// The bytes of buffers that something writes, as disjoint ranges in order.
fn written(trace: &Trace, accesses: &Accesses<'_>) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = Vec::new();
    let mut seen = Recent::new();
    for (buffer, id) in trace.buffers.iter().zip(0..) {
        let range = buffer.range;
        let life = accesses.life(BufferId(id));
        if life.written && !range.is_empty() && seen.is_new((range.start, range.end)) {
            ranges.push(range);
        }
    }
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    ranges
}

fn touches_one(disjoint: &[ByteRange], range: ByteRange) -> bool {
    let at = disjoint.partition_point(|other| other.end <= range.start);
    disjoint.get(at).is_some_and(|other| other.overlaps(&range))
}

/// Numbers to be sorted, each once. A graph repeats its layers, so most have
/// been seen a moment ago.
#[derive(Default)]
struct Distinct {
    values: Vec<u64>,
    recent: Recent<u64>,
}

impl Distinct {
    fn add(&mut self, value: u64) {
        if self.recent.is_new(value) {
            self.values.push(value);
        }
    }

    fn sorted(mut self) -> Vec<u64> {
        self.values.sort_unstable();
        self.values.dedup();
        self.values
    }
}

/// Remembers one value per slot, so it may call an old value new but never a new
/// one old.
pub(crate) struct Recent<T> {
    slots: Vec<Option<T>>,
}

impl<T: Copy + PartialEq + Mix> Recent<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![None; 1 << SLOT_BITS],
        }
    }

    pub(crate) fn is_new(&mut self, value: T) -> bool {
        let slot = &mut self.slots[(value.mix() >> (64 - SLOT_BITS)) as usize];
        let new = *slot != Some(value);
        *slot = Some(value);
        new
    }
}

impl<T: Copy + PartialEq + Mix> Default for Recent<T> {
    fn default() -> Self {
        Self::new()
    }
}

const SLOT_BITS: u32 = 12;

/// A word whose high bits depend on all of a value.
pub(crate) trait Mix {
    fn mix(self) -> u64;
}

impl Mix for u64 {
    fn mix(self) -> u64 {
        self.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Mix for (u64, u64) {
    fn mix(self) -> u64 {
        (self.0.mix() ^ self.1).mix()
    }
}
