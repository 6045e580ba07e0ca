//! The bytes of a trace, cut where an access begins or ends.
//!
//! Between two neighbouring cuts all bytes are touched alike, so an address can
//! be a small number: that of its cell. Bytes that nothing writes and of which
//! nothing must be written stay out; most weights do.
//!
//! # What it costs
//! One sort of the distinct addresses. Whoever adds an address is told its
//! number among those added, so that its place in the sorted order is looked up
//! afterwards and not searched for.

use streamweir_trace::{ByteRange, RangeSet, Trace};

use super::Accesses;
use super::life::Life;

/// Where the cells are. Which of them a buffer covers is said by its
/// [`Life`].
#[derive(Debug)]
pub(crate) struct AddressMap {
    /// The first byte of each cell, and the end of the last.
    cuts: Vec<u64>,
}

impl AddressMap {
    /// The map of a trace, whose buffers are told their cells.
    pub(crate) fn new(trace: &Trace, accesses: &mut Accesses<'_>) -> Self {
        let mut inside: Vec<bool> = (trace.buffers.iter().zip(accesses.lives()))
            .map(|(buffer, life)| {
                let at_stake = life.placed || life.count > 0 && life.needs_write;
                life.written || at_stake && !buffer.range.is_empty()
            })
            .collect();
        let this = Self::of(trace, accesses, &inside);
        // Most buffers that are only read share no byte with a written one.
        let mut more = false;
        let written = this.written(accesses.lives());
        let lives = accesses.lives().iter().zip(&mut inside);
        for (buffer, (life, inside)) in trace.buffers.iter().zip(lives) {
            if life.count > 0 && !*inside && written.overlaps(&buffer.range) {
                (*inside, more) = (true, true);
            }
        }
        match more {
            true => Self::of(trace, accesses, &inside),
            false => this,
        }
    }

    /// The map of the buffers that are `inside`.
    fn of(trace: &Trace, accesses: &mut Accesses<'_>, inside: &[bool]) -> Self {
        let mut places = Places::default();
        for &id in accesses.partial() {
            let (buffer, bytes) = accesses.place(id);
            if inside[buffer.index()] {
                let base = trace.buffer(buffer).range.start;
                places.add(base + bytes.start);
                places.add(base + bytes.end);
            }
        }
        let lives = accesses.lives_mut().iter_mut().zip(inside);
        for (buffer, (life, _)) in trace.buffers.iter().zip(lives).filter(|(_, (_, at))| **at) {
            life.cells = (places.add(buffer.range.start), places.add(buffer.range.end));
        }
        let (cuts, rank) = places.sorted();
        let lives = accesses.lives_mut().iter_mut().zip(inside);
        for (life, _) in lives.filter(|(_, inside)| **inside) {
            let (from, to) = life.cells;
            life.cells = (rank[from as usize], rank[to as usize]);
        }
        Self { cuts }
    }

    /// The bytes of buffers that something writes.
    fn written(&self, lives: &[Life]) -> RangeSet {
        // How many such buffers begin at each cell, less those that end there.
        let mut change = vec![0_i32; self.cuts.len() + 1];
        for life in lives.iter().filter(|life| life.written) {
            change[life.cells.0 as usize] += 1;
            change[life.cells.1 as usize] -= 1;
        }
        let mut open = 0;
        let held = self.cuts.windows(2).zip(change).filter(|(_, change)| {
            open += change;
            open > 0
        });
        held.map(|(cell, _)| ByteRange::new(cell[0], cell[1]))
            .collect()
    }

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    /// The first byte of a cell; for the number of cells, the end of the last.
    pub(crate) fn cut(&self, cell: usize) -> u64 {
        self.cuts[cell]
    }

    /// The cells that `bytes` of a buffer cover, which are counted from its first
    /// byte; `all` are those of the buffer.
    #[inline]
    pub(crate) fn covered(&self, all: (u32, u32), bytes: ByteRange) -> (u32, u32) {
        if bytes.is_empty() {
            return (0, 0);
        }
        // In a buffer of one cell there is no shorter access.
        if all.1 - all.0 <= 1 {
            return all;
        }
        let start = self.cuts[all.0 as usize];
        if self.cuts[all.1 as usize] - start == bytes.len() {
            return all;
        }
        self.part(all, ByteRange::new(start + bytes.start, start + bytes.end))
    }

    fn part(&self, all: (u32, u32), bytes: ByteRange) -> (u32, u32) {
        let inside = &self.cuts[all.0 as usize..=all.1 as usize];
        let of = |address| all.0 + inside.partition_point(|&cut| cut < address) as u32;
        (of(bytes.start), of(bytes.end))
    }
}

/// Addresses to be sorted, each of which keeps the number that it was added as.
/// A graph repeats its layers, so most have been seen a moment ago and have a
/// number; one that has been forgotten gets another, and the two the same rank.
struct Places {
    values: Vec<u64>,
    /// One address for each slot, and its number.
    recent: Vec<(u64, u32)>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            recent: vec![(0, u32::MAX); 1 << SLOT_BITS],
        }
    }
}

impl Places {
    #[inline]
    fn add(&mut self, value: u64) -> u32 {
        let slot = &mut self.recent[(value.mix() >> (64 - SLOT_BITS)) as usize];
        if *slot == (value, slot.1) && slot.1 != u32::MAX {
            return slot.1;
        }
        let number = self.values.len() as u32;
        *slot = (value, number);
        self.values.push(value);
        number
    }

    /// The distinct values in order, and for each number its place among them.
    fn sorted(self) -> (Vec<u64>, Vec<u32>) {
        let mut numbered: Vec<(u64, u32)> = self.values.iter().copied().zip(0..).collect();
        numbered.sort_unstable_by_key(|&(value, _)| value);
        let mut rank = vec![0; numbered.len()];
        let mut distinct: Vec<u64> = Vec::with_capacity(numbered.len());
        for (value, number) in numbered {
            if distinct.last() != Some(&value) {
                distinct.push(value);
            }
            rank[number as usize] = distinct.len() as u32 - 1;
        }
        (distinct, rank)
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
