//! Free chunks that one stream may not use yet, by what they wait for.
//!
//! Frontiers only grow, so a chunk is looked at again only when the frontier
//! passes an index that it waits for. What was noted of a chunk is void when it
//! has begun another life since.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chunks::Noted;
use crate::clocks::Clock;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By stream: what waits for an index on it, the lowest first.
    heaps: Vec<BinaryHeap<Reverse<(u32, Noted)>>>,
    entries: usize,
    /// The frontier that all entries are beyond.
    seen: Clock,
}

impl Waiting {
    /// Notes a chunk that waits for `missing`, an index on a stream.
    pub(super) fn note(&mut self, noted: Noted, missing: (usize, u32)) {
        let (stream, index) = missing;
        if stream >= self.heaps.len() {
            self.heaps.resize_with(stream + 1, BinaryHeap::new);
        }
        self.heaps[stream].push(Reverse((index, noted)));
        self.entries += 1;
    }

    /// How many entries there are, void ones included.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Forgets the entries that are void.
    pub(super) fn keep(&mut self, lives: impl Fn(Noted) -> bool) {
        for heap in &mut self.heaps {
            heap.retain(|&Reverse((_, noted))| lives(noted));
        }
        self.entries = self.heaps.iter().map(BinaryHeap::len).sum();
    }

    /// An entry whose index `frontier` has reached, if there is one left.
    #[inline]
    pub(super) fn next_reached(&mut self, frontier: &Clock) -> Option<Noted> {
        if self.entries == 0 || self.seen == *frontier {
            return None;
        }
        for (stream, heap) in self.heaps.iter_mut().enumerate() {
            if let Some(&Reverse((index, noted))) = heap.peek()
                && index <= frontier.at(stream)
            {
                heap.pop();
                self.entries -= 1;
                return Some(noted);
            }
        }
        self.seen.clone_from(frontier);
        None
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use streamweir_trace::StreamId;

    use super::*;
    use crate::clocks::Position;

    fn frontier(indices: [u32; 3]) -> Clock {
        let mut clock = Clock::default();
        for (stream, index) in (0..).map(StreamId).zip(indices) {
            clock.raise(Position { stream, index });
        }
        clock
    }

    #[test]
    fn a_chunk_comes_out_once_and_when_its_index_is_reached() {
        let mut waiting = Waiting::default();
        waiting.note((1, 0), (2, 5));
        waiting.note((2, 0), (2, 3));
        waiting.note((3, 0), (0, 1));
        assert_eq!(waiting.next_reached(&frontier([0, 9, 2])), None);
        let now = frontier([0, 9, 4]);
        assert_eq!(waiting.next_reached(&now), Some((2, 0)));
        assert_eq!(waiting.next_reached(&now), None);
        let then = frontier([1, 9, 5]);
        let mut both = [(); 2].map(|()| waiting.next_reached(&then));
        both.sort_unstable();
        assert_eq!(both, [Some((1, 0)), Some((3, 0))]);
        assert_eq!((waiting.next_reached(&then), waiting.entries()), (None, 0));
    }

    #[test]
    fn a_note_after_a_fruitless_look_is_not_overlooked() {
        let mut waiting = Waiting::default();
        waiting.note((1, 0), (0, 2));
        assert_eq!(waiting.next_reached(&frontier([1, 0, 0])), None);
        waiting.note((2, 0), (1, 1));
        assert_eq!(waiting.next_reached(&frontier([1, 1, 0])), Some((2, 0)));
    }

    #[test]
    fn void_entries_are_forgotten() {
        let mut waiting = Waiting::default();
        for chunk in 0..10 {
            waiting.note((chunk, chunk % 2), (0, 1));
        }
        waiting.keep(|(_, life)| life == 1);
        assert_eq!(waiting.entries(), 5);
    }
}
