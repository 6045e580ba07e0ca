//! Placing buffers one after the other, each into a gap that those placed before
//! leave.

use crate::budget::Meter;
use crate::neighbours::Neighbours;

/// How a gap is chosen among those that are large enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The lowest.
    #[default]
    First,
    /// The tightest, the lowest of several.
    Best,
}

/// Sizes and alignments of the buffers of one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes<'a> {
    pub(crate) bytes: &'a [u64],
    pub(crate) align: &'a [u64],
}

impl Sizes<'_> {
    #[inline]
    pub(crate) fn bytes(&self, at: u32) -> u64 {
        self.bytes[at as usize]
    }

    /// The first place at or above `offset` where `at` may begin. What a
    /// problem holds in all is bounded, so this does not overflow.
    #[inline]
    pub(crate) fn aligned(&self, at: u32, offset: u64) -> u64 {
        offset.next_multiple_of(self.align[at as usize])
    }

    /// The last place at or below `offset` where `at` may begin.
    #[inline]
    pub(crate) fn aligned_down(&self, at: u32, offset: u64) -> u64 {
        offset - offset % self.align[at as usize]
    }

    /// How high a layout is.
    pub(crate) fn height(&self, offsets: &[u64]) -> u64 {
        let ends = offsets.iter().zip(self.bytes).map(|(at, bytes)| at + bytes);
        ends.max().unwrap_or(0)
    }
}

/// A buffer that has no place.
pub(crate) const UNPLACED: u64 = u64::MAX;

/// Bytes that a buffer has: where they begin and end, and whose they are.
pub(crate) type Taken = (u64, u64, u32);

/// A layout in the making.
#[derive(Clone, Debug)]
pub(crate) struct Fit<'a> {
    pub(crate) sizes: Sizes<'a>,
    pub(crate) neighbours: &'a Neighbours<'a>,
    /// Where each buffer begins, or [`UNPLACED`].
    pub(crate) offsets: Vec<u64>,
    /// What the neighbours of one buffer have, lowest first.
    pub(crate) taken: Vec<Taken>,
}

impl<'a> Fit<'a> {
    pub(crate) fn new(sizes: Sizes<'a>, neighbours: &'a Neighbours<'a>) -> Self {
        Self {
            sizes,
            neighbours,
            offsets: vec![UNPLACED; sizes.bytes.len()],
            taken: Vec::new(),
        }
    }

    /// Finds what the placed neighbours of `at` have, and says how many neighbours it has.
    pub(crate) fn look(&mut self, at: u32) -> u64 {
        let (taken, offsets, bytes) = (&mut self.taken, &self.offsets, self.sizes.bytes);
        taken.clear();
        let mut seen = 0;
        self.neighbours.each(at, |other| {
            seen += 1;
            let start = offsets[other as usize];
            if start != UNPLACED {
                taken.push((start, start + bytes[other as usize], other));
            }
        });
        taken.sort_unstable();
        seen
    }

    /// The gap for `at` between what was found by [`look`](Self::look), if there is one
    /// below `limit`.
    pub(crate) fn gap(&self, at: u32, gap: Gap, limit: u64) -> Option<u64> {
        let bytes = self.sizes.bytes(at);
        let (mut free_from, mut least, mut best) = (0, u64::MAX, None);
        for &(start, end, _) in self.taken.iter().chain(&[(limit, limit, 0)]) {
            if start > free_from {
                let from = self.sizes.aligned(at, free_from);
                let room = start.saturating_sub(from);
                if room >= bytes && room < least {
                    (least, best) = (room, Some(from));
                    if gap == Gap::First || room == bytes {
                        break;
                    }
                }
            }
            free_from = free_from.max(end);
        }
        best
    }

    /// Places all buffers in this order and says how high the layout is; `None`,
    /// with the layout unfinished, as soon as it is not lower than `below`, or when the time
    /// is over and `below` says that there is another one.
    pub(crate) fn place_all(
        &mut self,
        order: &[u32],
        gap: Gap,
        below: u64,
        meter: &mut Meter,
    ) -> Option<u64> {
        self.offsets.fill(UNPLACED);
        let mut height = 0;
        for &at in order {
            let seen = self.look(at);
            // There is room above all of them, as the whole is bounded.
            let offset = self.gap(at, gap, UNPLACED - 1)?;
            self.offsets[at as usize] = offset;
            height = height.max(offset + self.sizes.bytes(at));
            if height >= below || (!meter.take(8 + seen) && below < u64::MAX) {
                return None;
            }
        }
        Some(height)
    }
}
