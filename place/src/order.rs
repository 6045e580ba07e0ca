//! Orders in which buffers are placed. Which one is good depends on the problem,
//! and trying one is cheap, so all are tried.

use std::cmp::Reverse;

use crate::lives::Lives;
use crate::neighbours::Neighbours;
use crate::section::Sections;

/// What buffers are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Size,
    Area,
    ContentionSize,
    WeightSize,
    Length,
    Weight,
    ContentionLength,
    Degree,
    Begin,
}

/// All orders, those that have proved best first.
pub(crate) const ORDERS: [Order; 9] = [
    Order::Size,
    Order::Area,
    Order::ContentionSize,
    Order::WeightSize,
    Order::Length,
    Order::Weight,
    Order::ContentionLength,
    Order::Degree,
    Order::Begin,
];

impl Order {
    /// All buffers in this order, or `None` when it takes a list of neighbours and there is
    /// none. Ties are broken by the number of the buffer: an order is a function of the
    /// problem.
    pub(crate) fn sort(
        self,
        lives: &Lives,
        bytes: &[u64],
        neighbours: &Neighbours<'_>,
    ) -> Option<Vec<u32>> {
        let span = |at: u32| lives.span(at as usize).unwrap_or_default();
        let length = |at: u32| u64::from(span(at).1 - span(at).0) + 1;
        let size = |at: u32| bytes[at as usize];
        let area = |at: u32| u128::from(size(at)) * u128::from(length(at));
        let contention = || Sections::new(lives).contention(bytes);
        let count = bytes.len();
        Some(match self {
            Self::Size => sorted(count, |at| Reverse((size(at), length(at)))),
            Self::Area => sorted(count, |at| Reverse((area(at), size(at)))),
            Self::Length => sorted(count, |at| Reverse((length(at), size(at)))),
            Self::Begin => sorted(count, |at| (span(at).0, Reverse(size(at)))),
            Self::ContentionSize => {
                let most = contention();
                sorted(count, |at| {
                    Reverse((most[at as usize], size(at), length(at)))
                })
            }
            Self::ContentionLength => {
                let most = contention();
                sorted(count, |at| {
                    Reverse((most[at as usize], length(at), size(at)))
                })
            }
            Self::WeightSize | Self::Weight | Self::Degree => {
                let list = neighbours.list()?;
                // What lies in the way of a buffer.
                let weight = |at: u32| -> u128 {
                    let others = list.of_item(at).iter();
                    others.map(|&other| u128::from(size(other))).sum()
                };
                match self {
                    Self::WeightSize => sorted(count, |at| {
                        Reverse((weight(at) * u128::from(size(at)), length(at)))
                    }),
                    Self::Weight => sorted(count, |at| Reverse((weight(at), size(at)))),
                    _ => sorted(count, |at| Reverse((list.of_item(at).len(), size(at)))),
                }
            }
        })
    }
}

fn sorted<K: Ord>(count: usize, key: impl Fn(u32) -> K) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_cached_key(|&at| (key(at), at));
    order
}
