//! Placing buffers one after the other, each into a gap that those placed before
//! leave.

use crate::conflict::Conflicts;

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
}

/// A buffer that has no place.
pub(crate) const UNPLACED: u64 = u64::MAX;

/// A layout in the making.
#[derive(Clone, Debug)]
pub(crate) struct Fit<'a> {
    pub(crate) sizes: Sizes<'a>,
    pub(crate) conflicts: &'a Conflicts,
    /// Where each buffer begins, or [`UNPLACED`].
    pub(crate) offsets: Vec<u64>,
    taken: Vec<(u64, u64)>,
}

impl<'a> Fit<'a> {
    pub(crate) fn new(sizes: Sizes<'a>, conflicts: &'a Conflicts) -> Self {
        Self {
            sizes,
            conflicts,
            offsets: vec![UNPLACED; sizes.bytes.len()],
            taken: Vec::new(),
        }
    }

    /// Places `at` and says where it ends.
    pub(crate) fn place(&mut self, at: u32, gap: Gap) -> u64 {
        self.place_among(at, gap, |_| true)
    }

    /// Places `at` as if, of those that are placed, there were only the ones
    /// that `counts` admits; says where it ends.
    #[inline]
    pub(crate) fn place_among(&mut self, at: u32, gap: Gap, counts: impl Fn(u32) -> bool) -> u64 {
        let taken = &mut self.taken;
        taken.clear();
        for &other in self.conflicts.of_item(at) {
            let start = self.offsets[other as usize];
            if start != UNPLACED && counts(other) {
                taken.push((start, start + self.sizes.bytes(other)));
            }
        }
        taken.sort_unstable();
        let bytes = self.sizes.bytes(at);
        let (mut free_from, mut least, mut best) = (0, u64::MAX, None);
        for &(start, end) in &*taken {
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
        let offset = best.unwrap_or_else(|| self.sizes.aligned(at, free_from));
        self.offsets[at as usize] = offset;
        offset + bytes
    }

    /// Places all buffers in this order and says how high the layout is; `None`,
    /// with the layout unfinished, as soon as it is not lower than `below`.
    pub(crate) fn place_all(&mut self, order: &[u32], gap: Gap, below: u64) -> Option<u64> {
        self.offsets.fill(UNPLACED);
        let mut height = 0;
        for &at in order {
            height = height.max(self.place(at, gap));
            if height >= below {
                return None;
            }
        }
        Some(height)
    }
}
