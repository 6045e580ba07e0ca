//! Where there is room, by address.
//!
//! A *gap* is a stretch of free chunks side by side, whichever streams may use
//! them. Gaps are kept in the order of their addresses, in leaves of at most
//! [`LEAF`], each of which knows its longest. So the lowest gap that is long
//! enough is found by skipping leaves and reading one of them, and a gap begins,
//! grows and ends at the cost of a search and a move inside a leaf.
//!
//! A gap may be long and yet hold no piece for some stream. So it knows for each
//! stream a bound on the longest piece that the stream may have there.
//! It is lowered when the stream has looked in vain, adds up where gaps become
//! one, stays where a gap loses bytes, and is the whole gap again when the stream
//! has waited for something.

use streamweir_base::ALIGNMENT;

/// The most gaps in one leaf.
const LEAF: usize = 32;

/// The streams for which a gap knows a bound; the others look each time.
const STREAMS: usize = 8;

/// Whole units of the alignment, as a bound counts them.
#[inline]
fn units(bytes: u64) -> u32 {
    (bytes / ALIGNMENT).try_into().unwrap_or(u32::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u64,
    /// Bytes.
    pub(super) len: u64,
    /// The lowest of its chunks.
    pub(super) first: u32,
    /// By stream: units of the alignment that it may have in one piece here, or
    /// more.
    most: [u32; STREAMS],
}

impl Gap {
    /// A gap of one chunk that is open to `streams` (bits).
    #[inline]
    pub(super) fn new(start: u64, len: u64, first: u32, streams: u64) -> Self {
        Self {
            start,
            len,
            first,
            most: std::array::from_fn(|stream| match streams >> stream & 1 {
                1 => units(len),
                _ => 0,
            }),
        }
    }

    /// This gap and the one right above it as one. Pieces that `streams` (bits)
    /// may have on both sides may be one piece then.
    #[inline]
    pub(super) fn with(&self, upper: &Self, streams: u64) -> Self {
        Self {
            len: self.len + upper.len,
            most: std::array::from_fn(|stream| {
                let (lower, upper) = (self.most[stream], upper.most[stream]);
                match streams >> stream & 1 {
                    1 => lower.saturating_add(upper),
                    _ => lower.max(upper),
                }
            }),
            ..*self
        }
    }

    /// The part of the gap from `start`, where the chunk `first` begins, to `end`.
    #[inline]
    pub(super) fn part(&self, start: u64, end: u64, first: u32) -> Self {
        Self {
            start,
            len: end - start,
            first,
            ..*self
        }
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether the stream may have `bytes` bytes here, as far as is known.
    #[inline]
    fn may_hold(&self, bytes: u64, stream: usize) -> bool {
        let bound = |&most: &u32| most >= units(bytes);
        self.len >= bytes && self.most.get(stream).is_none_or(bound)
    }
}

/// The place of a gap; void after the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    leaf: usize,
    at: usize,
}

#[derive(Debug, Default)]
struct Leaf {
    /// The length of the longest.
    longest: u64,
    /// Lowest first. Never empty.
    gaps: Vec<Gap>,
}

impl Leaf {
    fn measure(&mut self) {
        self.longest = self.gaps.iter().map(|gap| gap.len).max().unwrap_or(0);
    }
}

#[derive(Debug, Default)]
pub(super) struct Gaps {
    leaves: Vec<Leaf>,
}

impl Gaps {
    #[inline]
    pub(super) fn get(&self, place: Place) -> Gap {
        self.leaves[place.leaf].gaps[place.at]
    }

    /// The lowest gap that may hold `bytes` bytes for the stream.
    #[inline]
    pub(super) fn lowest(&self, bytes: u64, stream: usize) -> Option<Place> {
        self.find(Place { leaf: 0, at: 0 }, bytes, stream)
    }

    /// The next higher one, after the stream was found to have no more than `most`
    /// bytes in one piece in that place.
    pub(super) fn next(
        &mut self,
        place: Place,
        bytes: u64,
        stream: usize,
        most: u64,
    ) -> Option<Place> {
        let gap = &mut self.leaves[place.leaf].gaps[place.at];
        if let Some(bound) = gap.most.get_mut(stream) {
            *bound = units(most);
        }
        let at = place.at + 1;
        self.find(Place { at, ..place }, bytes, stream)
    }

    /// Forgets what is known about a stream.
    pub(super) fn forget(&mut self, stream: usize) {
        for gap in self.leaves.iter_mut().flat_map(|leaf| &mut leaf.gaps) {
            if let Some(bound) = gap.most.get_mut(stream) {
                *bound = units(gap.len);
            }
        }
    }

    #[inline]
    fn find(&self, from: Place, bytes: u64, stream: usize) -> Option<Place> {
        let mut at = from.at;
        for (leaf, gaps) in self.leaves.iter().enumerate().skip(from.leaf) {
            if gaps.longest >= bytes {
                let mut rest = gaps.gaps[at..].iter();
                if let Some(found) = rest.position(|gap| gap.may_hold(bytes, stream)) {
                    let at = at + found;
                    return Some(Place { leaf, at });
                }
            }
            at = 0;
        }
        None
    }

    /// The gap right above the one in that place, or the lowest of all.
    pub(super) fn above(&self, place: Option<Place>) -> Option<Place> {
        let (leaf, at) = place.map_or((0, 0), |place| (place.leaf, place.at + 1));
        if at < self.leaves.get(leaf)?.gaps.len() {
            return Some(Place { leaf, at });
        }
        let leaf = leaf + 1;
        (leaf < self.leaves.len()).then_some(Place { leaf, at: 0 })
    }

    /// The highest gap that begins at or below `address`.
    pub(super) fn below(&self, address: u64) -> Option<Place> {
        // A leaf is never empty.
        let beyond = |leaf: &Leaf| leaf.gaps[0].start <= address;
        let leaf = self.leaves.partition_point(beyond).checked_sub(1)?;
        let gaps = &self.leaves[leaf].gaps;
        let at = gaps.partition_point(|gap| gap.start <= address) - 1;
        Some(Place { leaf, at })
    }

    /// The gap in that place becomes another one, which lies within the same
    /// neighbours.
    pub(super) fn set(&mut self, place: Place, gap: Gap) {
        let leaf = &mut self.leaves[place.leaf];
        let old = std::mem::replace(&mut leaf.gaps[place.at], gap);
        if gap.len >= leaf.longest {
            leaf.longest = gap.len;
        } else if old.len == leaf.longest {
            leaf.measure();
        }
    }

    /// Adds a gap that overlaps and adjoins none, right above the one in the place
    /// `below`.
    pub(super) fn insert(&mut self, below: Option<Place>, gap: Gap) {
        if self.leaves.is_empty() {
            self.leaves.push(Leaf::default());
        }
        let Place { leaf, at } = below.map_or(Place { leaf: 0, at: 0 }, |below| Place {
            at: below.at + 1,
            ..below
        });
        let into = &mut self.leaves[leaf];
        into.gaps.insert(at, gap);
        into.longest = into.longest.max(gap.len);
        if into.gaps.len() > LEAF {
            let mut upper = Leaf {
                longest: 0,
                gaps: into.gaps.split_off(LEAF / 2),
            };
            into.measure();
            upper.measure();
            self.leaves.insert(leaf + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, place: Place) {
        let leaf = &mut self.leaves[place.leaf];
        let old = leaf.gaps.remove(place.at);
        if leaf.gaps.is_empty() {
            self.leaves.remove(place.leaf);
        } else if old.len == leaf.longest {
            leaf.measure();
        }
    }

    /// All gaps, lowest first.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = Gap> {
        self.leaves
            .iter()
            .flat_map(|leaf| leaf.gaps.iter().copied())
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn gap(start: u64, units: u64) -> Gap {
        Gap::new(start, units * ALIGNMENT, start as u32, u64::MAX)
    }

    #[test]
    fn what_a_stream_looked_for_in_vain_is_remembered_until_it_is_forgotten() {
        let mut gaps = Gaps::default();
        gaps.insert(None, gap(0, 8));
        let bytes = 6 * ALIGNMENT;
        let place = gaps.lowest(bytes, 1).expect("long enough");
        assert_eq!(gaps.next(place, bytes, 1, bytes - ALIGNMENT), None);
        assert_eq!(gaps.lowest(bytes, 1), None);
        assert_eq!(gaps.lowest(bytes - ALIGNMENT, 1), Some(place));
        for stream in [0, STREAMS, STREAMS + 1] {
            assert_eq!(gaps.lowest(bytes, stream), Some(place), "{stream}");
        }
        gaps.forget(0);
        assert_eq!(gaps.lowest(bytes, 1), None);
        gaps.forget(1);
        assert_eq!(gaps.lowest(bytes, 1), Some(place));
        assert_eq!(gaps.lowest(9 * ALIGNMENT, 1), None, "longer than the gap");
    }

    /// Stream 0 may have all of both, stream 1 the upper one alone, and 2 neither.
    #[test]
    fn where_gaps_become_one_pieces_may_and_bounds_add_up() {
        let lower = Gap::new(0, 3 * ALIGNMENT, 0, 0b001);
        let upper = Gap::new(lower.end(), 5 * ALIGNMENT, 1, 0b011);
        let mut gaps = Gaps::default();
        gaps.insert(None, lower.with(&upper, 0b011));
        for (stream, most) in [(0, 8), (1, 5), (STREAMS, 8)] {
            assert!(gaps.lowest(most * ALIGNMENT, stream).is_some(), "{stream}");
            let more = (most + 1) * ALIGNMENT;
            assert_eq!(gaps.lowest(more, stream), None, "{stream}");
        }
        assert_eq!(gaps.lowest(ALIGNMENT, 2), None);
        let apart = lower.with(&upper, 0);
        assert!(!apart.may_hold(6 * ALIGNMENT, 0) && apart.may_hold(5 * ALIGNMENT, 0));
    }

    /// The index beside a sorted list that is searched from end to end.
    #[test]
    fn it_finds_what_a_list_finds() {
        let mut gaps = Gaps::default();
        let mut list: Vec<Gap> = Vec::new();
        let mut rng = StdRng::seed_from_u64(7);
        let mut random = |below: u64| rng.random_range(0..below);
        for round in 0..6_000 {
            let start = random(1000) * 100 * ALIGNMENT;
            let place = gaps.below(start);
            let at = list.partition_point(|gap| gap.start <= start);
            assert_eq!(
                place.map(|place| gaps.get(place)),
                at.checked_sub(1).map(|at| list[at])
            );
            // It grows for the first half and shrinks in the second.
            let adds = random(10) < if round < 3_000 { 7 } else { 3 };
            match place {
                Some(place) if gaps.get(place).start == start => {
                    let at = at - 1;
                    if adds {
                        list[at].len = (1 + random(90)) * ALIGNMENT;
                        gaps.set(place, list[at]);
                    } else {
                        gaps.remove(place);
                        list.remove(at);
                    }
                }
                Some(place) if !adds => {
                    gaps.remove(place);
                    list.remove(at - 1);
                }
                _ => {
                    list.insert(at, gap(start, 1 + random(90)));
                    gaps.insert(place, list[at]);
                }
            }
            // A stream for which nothing is remembered.
            let (bytes, stream) = ((1 + random(95)) * ALIGNMENT, STREAMS);
            let mut found = gaps.lowest(bytes, stream);
            for wanted in list.iter().filter(|gap| gap.len >= bytes) {
                assert_eq!(found.map(|place| gaps.get(place)), Some(*wanted));
                found = found.and_then(|place| gaps.next(place, bytes, stream, 0));
            }
            assert_eq!(found, None);
        }
        assert!(gaps.iter().eq(list));
        let mut place = None;
        for gap in gaps.iter() {
            place = gaps.above(place);
            assert_eq!(place.map(|place| gaps.get(place)), Some(gap));
        }
        assert_eq!((place, gaps.above(place)), (gaps.below(u64::MAX), None));
    }
}
