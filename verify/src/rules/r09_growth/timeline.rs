//! Half-open intervals of small numbers, walked in order.
//!
//! The intervals that begin or end at one place hang together in a list, so the
//! walk costs O(places + intervals), whatever their order is.

const NONE: u32 = u32::MAX;

/// What a walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    End,
    Begin,
}

/// Hands the ends of all intervals to `seen` in order: where, of which one, and
/// which end of it. At one place those that end come before those that begin.
/// No interval ends after `places`; an empty one is not met.
pub(super) fn walk(
    places: usize,
    intervals: impl Iterator<Item = (u32, u32)>,
    mut seen: impl FnMut(usize, usize, Change),
) {
    let mut at_place = vec![[NONE; 2]; places + 1];
    let mut next: Vec<[u32; 2]> = Vec::with_capacity(intervals.size_hint().0);
    for (number, (from, to)) in (0..).zip(intervals) {
        next.push(match from < to {
            true => [
                std::mem::replace(&mut at_place[to as usize][0], number),
                std::mem::replace(&mut at_place[from as usize][1], number),
            ],
            false => [NONE; 2],
        });
    }
    for (place, heads) in at_place.into_iter().enumerate() {
        for (which, change) in [Change::End, Change::Begin].into_iter().enumerate() {
            let mut number = heads[which];
            while number != NONE {
                seen(place, number as usize, change);
                number = next[number as usize][which];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_in_order_and_before_what_begins_there() {
        let mut met = Vec::new();
        let intervals = [(2, 4), (0, 2), (2, 3), (3, 3), (1, 2)];
        walk(4, intervals.into_iter(), |place, which, change| {
            met.push((place, change == Change::Begin, which));
        });
        let order: Vec<_> = met
            .iter()
            .map(|&(place, begins, _)| (place, begins))
            .collect();
        assert!(order.is_sorted(), "{met:?}");
        met.sort_unstable();
        let mut expected = Vec::new();
        for (which, (from, to)) in intervals
            .into_iter()
            .enumerate()
            .filter(|(_, (from, to))| from < to)
        {
            expected.extend([(from as usize, true, which), (to as usize, false, which)]);
        }
        expected.sort_unstable();
        assert_eq!(met, expected);
    }
}
