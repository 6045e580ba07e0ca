//! A set of bytes, as few ranges as it takes.

use crate::range::ByteRange;

/// Bytes, kept as ranges that neither overlap nor touch, in order.
///
/// Two sets of the same bytes are equal, in whatever pieces they were put
/// together.
///
/// ```
/// use streamweir_trace::{ByteRange, RangeSet};
///
/// let range = ByteRange::new;
/// let read: RangeSet = [range(8, 16), range(0, 4), range(4, 6)].into_iter().collect();
/// assert_eq!(read.as_slice(), [range(0, 6), range(8, 16)]);
/// assert_eq!(read.bytes(), 14);
/// assert!(read.covers(&range(9, 16)) && !read.covers(&range(5, 9)));
/// assert_eq!(read.gaps(range(2, 20)).collect::<Vec<_>>(), [range(6, 8), range(16, 20)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RangeSet {
    ranges: Vec<ByteRange>,
}

impl RangeSet {
    /// No byte at all.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranges, in order of address.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// Whether the set holds no byte.
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many bytes the set holds.
    pub fn bytes(&self) -> u64 {
        // Disjoint parts of 64 bits of addresses.
        self.ranges.iter().map(ByteRange::len).sum()
    }

    /// Adds bytes. Costs a search and the move of the ranges behind it; to build
    /// a set of many ranges at once, collect them.
    pub fn insert(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|own| own.end < range.start);
        let to = from + self.ranges[from..].partition_point(|own| own.start <= range.end);
        let joined = match &self.ranges[from..to] {
            [] => range,
            [first, ..] => ByteRange {
                start: first.start.min(range.start),
                end: self.ranges[to - 1].end.max(range.end),
            },
        };
        self.ranges.splice(from..to, [joined]);
    }

    /// Takes bytes out.
    pub fn remove(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|own| own.end <= range.start);
        let to = from + self.ranges[from..].partition_point(|own| own.start < range.end);
        let mut left: Vec<ByteRange> = Vec::new();
        if let [first, ..] = self.ranges[from..to] {
            let last = self.ranges[to - 1];
            let before = ByteRange {
                start: first.start,
                end: range.start.max(first.start),
            };
            let behind = ByteRange {
                start: range.end.min(last.end),
                end: last.end,
            };
            left.extend([before, behind].into_iter().filter(|part| !part.is_empty()));
        }
        self.ranges.splice(from..to, left);
    }

    /// Whether the byte at `address` is in the set.
    pub fn contains_byte(&self, address: u64) -> bool {
        let at = self.ranges.partition_point(|own| own.end <= address);
        (self.ranges.get(at)).is_some_and(|own| own.contains_byte(address))
    }

    /// Whether every byte of `range` is in the set.
    pub fn covers(&self, range: &ByteRange) -> bool {
        self.gaps(*range).next().is_none()
    }

    /// Whether a byte of `range` is in the set.
    pub fn overlaps(&self, range: &ByteRange) -> bool {
        self.shared(*range).next().is_some()
    }

    /// The parts of `range` that are in the set, in order.
    pub fn shared(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let at = self.ranges.partition_point(|own| own.end <= range.start);
        self.ranges[at..]
            .iter()
            .map_while(move |own| own.intersect(&range))
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let mut from = range.start;
        let end = ByteRange {
            start: range.end,
            end: range.end,
        };
        self.shared(range).chain([end]).filter_map(move |own| {
            let gap = ByteRange {
                start: from,
                end: own.start,
            };
            from = own.end;
            (!gap.is_empty()).then_some(gap)
        })
    }
}

impl FromIterator<ByteRange> for RangeSet {
    fn from_iter<I: IntoIterator<Item = ByteRange>>(ranges: I) -> Self {
        let mut all: Vec<ByteRange> = ranges.into_iter().filter(|r| !r.is_empty()).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            if joined {
                last.end = last.end.max(next.end);
            }
            joined
        });
        Self { ranges: all }
    }
}

impl Extend<ByteRange> for RangeSet {
    fn extend<I: IntoIterator<Item = ByteRange>>(&mut self, ranges: I) {
        let own = std::mem::take(&mut self.ranges);
        *self = own.into_iter().chain(ranges).collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
        let range = (0_u64..24, 0_u64..6).prop_map(|(at, len)| ByteRange::new(at, at + len));
        prop::collection::vec(range, 0..8)
    }

    fn has(ranges: &[ByteRange], byte: u64) -> bool {
        ranges.iter().any(|range| range.contains_byte(byte))
    }

    proptest! {
        /// Byte by byte, and in one form however the set came about.
        #[test]
        fn the_same_answers_as_a_list_of_bytes(put in ranges(), taken in ranges(), of in ranges()) {
            let collected: RangeSet = put.iter().copied().collect();
            let mut grown = RangeSet::new();
            put.iter().for_each(|&range| grown.insert(range));
            prop_assert_eq!(&collected, &grown);
            let mut set = RangeSet::new();
            set.extend(put.iter().copied());
            taken.iter().for_each(|&range| set.remove(range));
            let inside = |byte: u64| has(&put, byte) && !has(&taken, byte);
            for byte in 0..32 {
                prop_assert_eq!(set.contains_byte(byte), inside(byte));
            }
            prop_assert_eq!(set.bytes(), (0..32).filter(|&byte| inside(byte)).count() as u64);
            prop_assert!(set.as_slice().windows(2).all(|pair| pair[0].end < pair[1].start));
            for range in of {
                let bytes = range.start..range.end;
                prop_assert_eq!(set.covers(&range), bytes.clone().all(inside));
                prop_assert_eq!(set.overlaps(&range), bytes.clone().any(inside));
                let shared: Vec<ByteRange> = set.shared(range).collect();
                let gaps: Vec<ByteRange> = set.gaps(range).collect();
                for byte in 0..32 {
                    let wanted = range.contains_byte(byte);
                    prop_assert_eq!(has(&shared, byte), wanted && inside(byte));
                    prop_assert_eq!(has(&gaps, byte), wanted && !inside(byte));
                }
            }
        }
    }

    #[test]
    fn the_ends_of_all_addresses() {
        let all = ByteRange::new(0, u64::MAX);
        let mut set: RangeSet = [all, all].into_iter().collect();
        assert_eq!(set.bytes(), u64::MAX);
        set.remove(ByteRange::new(1, u64::MAX));
        assert_eq!(
            set.gaps(all).collect::<Vec<_>>(),
            [ByteRange::new(1, u64::MAX)]
        );
    }
}
