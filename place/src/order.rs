//! Orders in which buffers are placed. Which one is good depends on the problem,
//! and trying one is cheap, so all are tried.

use std::cmp::Reverse;

use crate::conflict::Conflicts;
use crate::lives::Lives;

/// The orders, each of all buffers, those that have proved best first. Ties are
/// broken by the number of the buffer: an order is a function of the problem.
pub(crate) fn portfolio(lives: &Lives, bytes: &[u64], conflicts: &Conflicts) -> Vec<Vec<u32>> {
    let all: Vec<u32> = (0..bytes.len() as u32).collect();
    let span = |at: u32| lives.span(at as usize).unwrap_or_default();
    let length = |at: u32| u64::from(span(at).1 - span(at).0) + 1;
    let size = |at: u32| bytes[at as usize];
    let area = |at: u32| u128::from(size(at)) * u128::from(length(at));
    // What lies in the way of a buffer, and the most that does at one moment.
    let weight: Vec<u128> = all
        .iter()
        .map(|&at| {
            let others = conflicts.of_item(at).iter();
            others.map(|&other| u128::from(size(other))).sum()
        })
        .collect();
    let weight = |at: u32| weight[at as usize];
    let contention = crate::section::Sections::new(lives).contention(bytes);
    let contention = |at: u32| contention[at as usize];
    let degree = |at: u32| conflicts.of_item(at).len();

    fn sorted<K: Ord>(all: &[u32], key: impl Fn(u32) -> K) -> Vec<u32> {
        let mut order = all.to_vec();
        order.sort_by_cached_key(|&at| (key(at), at));
        order
    }
    vec![
        sorted(&all, |at| Reverse((size(at), length(at)))),
        sorted(&all, |at| Reverse((area(at), size(at)))),
        sorted(&all, |at| Reverse((contention(at), size(at), length(at)))),
        sorted(&all, |at| {
            Reverse((weight(at) * u128::from(size(at)), length(at)))
        }),
        sorted(&all, |at| Reverse((length(at), size(at)))),
        sorted(&all, |at| Reverse((weight(at), size(at)))),
        sorted(&all, |at| Reverse((contention(at), length(at), size(at)))),
        sorted(&all, |at| Reverse((degree(at), size(at)))),
        sorted(&all, |at| (span(at).0, Reverse(size(at)))),
    ]
}
