//! The heaviest antichain of a small partial order.
//!
//! By the weighted form of Dilworth's theorem its weight is the least flow that
//! covers each item by as many chains as it weighs, which is the sum of all
//! weights less the greatest flow from the items, as ends, to the items, as
//! beginnings, over the pairs of the order.

use std::collections::VecDeque;

/// The greatest weight of a set of items of which no two are ordered. `before`
/// is a strict partial order.
pub(super) fn heaviest(weights: &[u64], before: impl Fn(usize, usize) -> bool) -> u64 {
    let count = weights.len();
    let follows: Vec<Vec<usize>> = (0..count)
        .map(|a| (0..count).filter(|&b| a != b && before(a, b)).collect())
        .collect();
    let mut flow = Flow {
        left: weights.to_vec(),
        right: weights.to_vec(),
        sent: vec![vec![0; count]; count],
    };
    let mut total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    while let Some(more) = flow.augment(&follows) {
        total -= u128::from(more);
    }
    u64::try_from(total).unwrap_or(u64::MAX)
}

/// A flow between two copies of the items.
struct Flow {
    /// What each end may still send, and each beginning still take.
    left: Vec<u64>,
    right: Vec<u64>,
    /// What is sent from each end to each beginning.
    sent: Vec<Vec<u64>>,
}

impl Flow {
    /// Sends more along a shortest path that has room, or `None` when there is
    /// no such path. Shortest paths make the number of rounds a matter of the
    /// number of items alone, whatever they weigh.
    fn augment(&mut self, follows: &[Vec<usize>]) -> Option<u64> {
        let count = self.left.len();
        // From which end a beginning was reached, and back from which
        // beginning an end.
        let mut to_right: Vec<Option<usize>> = vec![None; count];
        let mut to_left: Vec<Option<usize>> = vec![None; count];
        let mut open: VecDeque<usize> = (0..count).filter(|&a| self.left[a] > 0).collect();
        let mut seen: Vec<bool> = self.left.iter().map(|&room| room > 0).collect();
        let mut found = None;
        'search: while let Some(a) = open.pop_front() {
            for &b in &follows[a] {
                if to_right[b].is_some() {
                    continue;
                }
                to_right[b] = Some(a);
                if self.right[b] > 0 {
                    found = Some(b);
                    break 'search;
                }
                for back in 0..count {
                    if self.sent[back][b] > 0 && !seen[back] {
                        seen[back] = true;
                        to_left[back] = Some(b);
                        open.push_back(back);
                    }
                }
            }
        }
        let end = found?;
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut more = self.right[end];
        let mut b = end;
        let start = loop {
            let a = to_right[b]?;
            path.push((a, b));
            match to_left[a] {
                Some(back) => {
                    more = more.min(self.sent[a][back]);
                    b = back;
                }
                None => break a,
            }
        };
        more = more.min(self.left[start]);
        for &(a, b) in &path {
            self.sent[a][b] += more;
            if let Some(back) = to_left[a] {
                self.sent[a][back] -= more;
            }
        }
        self.left[start] -= more;
        self.right[end] -= more;
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All subsets.
    fn slow(weights: &[u64], before: impl Fn(usize, usize) -> bool) -> u64 {
        let count = weights.len();
        (0_u32..1 << count)
            .filter(|set| {
                let has = |i: usize| set >> i & 1 == 1;
                (0..count).all(|a| (0..count).all(|b| !(has(a) && has(b) && before(a, b))))
            })
            .map(|set| {
                (0..count)
                    .filter(|i| set >> i & 1 == 1)
                    .map(|i| weights[i])
                    .sum()
            })
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn agrees_with_all_subsets() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..400 {
            let count = 1 + next(9) as usize;
            let weights: Vec<u64> = (0..count).map(|_| next(12)).collect();
            let density = 1 + next(6);
            let mut row = |a: usize| -> Vec<bool> {
                (0..count).map(|b| a < b && next(8) < density).collect()
            };
            let mut order: Vec<Vec<bool>> = (0..count).map(&mut row).collect();
            for via in 0..count {
                let onward = order[via].clone();
                for from in order.iter_mut().filter(|from| from[via]) {
                    from.iter_mut().zip(&onward).for_each(|(to, on)| *to |= on);
                }
            }
            let before = |a: usize, b: usize| order[a][b];
            assert_eq!(
                heaviest(&weights, before),
                slow(&weights, before),
                "{weights:?} {order:?}"
            );
        }
    }
}
