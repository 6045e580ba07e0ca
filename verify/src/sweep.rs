//! Which of many byte ranges overlap: one sweep over sorted ranges.

use streamweir_trace::ByteRange;

/// Calls `pair` once for each two items whose ranges share a byte, the one
/// that starts first in front. `items` are sorted by the start of their range.
///
/// Costs the length of `items` plus the number of pairs.
pub(crate) fn overlapping<T>(
    items: &[T],
    range: impl Fn(&T) -> ByteRange,
    mut pair: impl FnMut(&T, &T),
) {
    let mut open: Vec<usize> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let here = range(item);
        if here.is_empty() {
            continue;
        }
        open.retain(|&earlier| range(&items[earlier]).end > here.start);
        for &earlier in &open {
            pair(&items[earlier], item);
        }
        open.push(at);
    }
}

/// The lowest bytes of `want` that no range of `have` covers. `have` is
/// reordered.
pub(crate) fn first_gap(want: ByteRange, have: &mut [ByteRange]) -> Option<ByteRange> {
    have.sort_unstable();
    let mut from = want.start;
    for range in have.iter().filter(|range| range.overlaps(&want)) {
        if range.start > from {
            return Some(ByteRange::new(from, range.start));
        }
        from = from.max(range.end);
    }
    (from < want.end).then(|| ByteRange::new(from, want.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overlapping_pair_once() {
        let ranges = [(0, 10), (2, 3), (3, 4), (5, 5), (9, 12), (10, 11)]
            .map(|(start, end)| ByteRange::new(start, end));
        let mut found = Vec::new();
        overlapping(
            &ranges,
            |range| *range,
            |a, b| found.push((a.start, b.start)),
        );
        assert_eq!(found, [(0, 2), (0, 3), (0, 9), (9, 10)]);
    }

    #[test]
    fn gaps() {
        let range = ByteRange::new;
        let gap = |have: &[(u64, u64)]| {
            let mut have: Vec<_> = have.iter().map(|&(s, e)| range(s, e)).collect();
            first_gap(range(10, 20), &mut have)
        };
        assert_eq!(gap(&[]), Some(range(10, 20)));
        assert_eq!(gap(&[(15, 30), (0, 15)]), None);
        assert_eq!(gap(&[(12, 30)]), Some(range(10, 12)));
        assert_eq!(gap(&[(0, 12), (14, 20)]), Some(range(12, 14)));
        assert_eq!(gap(&[(0, 18), (10, 11)]), Some(range(18, 20)));
    }
}
