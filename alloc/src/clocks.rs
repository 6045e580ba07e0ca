//! Chain clocks: which nodes happen before what a stream records next.
//!
//! A captured stream is a chain: each of its nodes depends on the one before.
//! So the set of nodes that happen before something is known from one number
//! for each stream, the last index on that chain. A [`Clock`] is those numbers.
//!
//! The frontier of a stream is the clock of the next node it would record.
//!
//! | operation | effect on frontiers |
//! | --- | --- |
//! | record on `s` | the entry of `s` in its own frontier goes up by one |
//! | fork, join, wait | the waiting frontier becomes the entry-wise maximum of both |
//!
//! Frontiers are *closed*: when a frontier holds a node it holds all that
//! happens before the node, because the entry for a node enters only together
//! with the rest of the clock it had. The proof of the pools leans on this. They
//! also only grow, so what a frontier has reached once, it has reached for good.
//!
//! Clocks of different captures mean different chains and are never compared;
//! whoever keeps a [`Clock`] (an event) remembers which capture it is of.

use std::fmt;

use streamweir_trace::{NodeId, StreamId};

/// Streams whose entries stand in the clock itself. Captures of engines fork two
/// to six streams; more spill to the heap.
const INLINE: usize = 8;

/// For each captured stream the last index on it that is reached; a stream
/// without an entry counts as 0, nothing reached.
#[derive(Clone, Default)]
pub struct Clock {
    low: [u32; INLINE],
    /// Those of the streams beyond, if one of them has any.
    rest: Option<Box<[u32]>>,
}

/// A node by its place on its stream's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The stream.
    pub stream: StreamId,
    /// Counts from 1; 0 stands before the first node.
    pub index: u32,
}

impl Clock {
    /// The last index reached on `stream`.
    #[inline]
    pub fn get(&self, stream: StreamId) -> u32 {
        self.at(stream.index())
    }

    /// The last index reached on the stream with this number.
    #[inline]
    pub(crate) fn at(&self, stream: usize) -> u32 {
        match self.low.get(stream) {
            Some(&index) => index,
            None => self.rest().get(stream - INLINE).copied().unwrap_or(0),
        }
    }

    #[inline]
    fn rest(&self) -> &[u32] {
        self.rest.as_deref().unwrap_or_default()
    }

    /// The first stream, by number, on which this clock reaches further than
    /// `other`, and the index that it reaches there.
    pub(crate) fn first_beyond(&self, other: &Self) -> Option<(usize, u32)> {
        (0..INLINE + self.rest().len())
            .map(|stream| (stream, self.at(stream)))
            .find(|&(stream, index)| index > other.at(stream))
    }

    /// Whether the node at `position` is reached.
    #[inline]
    pub fn reaches(&self, position: Position) -> bool {
        self.get(position.stream) >= position.index
    }

    /// Whether all that this clock reaches is reached by `other` too.
    #[inline]
    pub fn within(&self, other: &Self) -> bool {
        let mut within = true;
        for (mine, theirs) in self.low.iter().zip(&other.low) {
            within &= mine <= theirs;
        }
        // Not `&&`, which would make a branch of what nobody can foresee.
        within & (self.rest.is_none() || self.rest_within(other))
    }

    #[cold]
    fn rest_within(&self, other: &Self) -> bool {
        let theirs = other.rest().iter().copied().chain(std::iter::repeat(0));
        self.rest()
            .iter()
            .zip(theirs)
            .all(|(&mine, theirs)| mine <= theirs)
    }

    /// Reaches all that either of the two reached.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        for (mine, &theirs) in self.low.iter_mut().zip(&other.low) {
            *mine = (*mine).max(theirs);
        }
        if other.rest.is_some() {
            self.join_rest(other);
        }
    }

    #[cold]
    fn join_rest(&mut self, other: &Self) {
        for (mine, &theirs) in self
            .spilled(other.rest().len())
            .iter_mut()
            .zip(other.rest())
        {
            *mine = (*mine).max(theirs);
        }
    }

    /// Reaches the node at `position` (and its predecessors on the chain).
    #[inline]
    pub(crate) fn raise(&mut self, position: Position) {
        let at = position.stream.index();
        let entry = match self.low.get_mut(at) {
            Some(entry) => entry,
            None => &mut self.spilled(at - INLINE + 1)[at - INLINE],
        };
        *entry = (*entry).max(position.index);
    }

    /// The entries beyond, as many as these or more.
    #[cold]
    fn spilled(&mut self, count: usize) -> &mut [u32] {
        let mut rest = std::mem::take(&mut self.rest)
            .unwrap_or_default()
            .into_vec();
        rest.resize(count.max(rest.len()), 0);
        self.rest.insert(rest.into_boxed_slice())
    }
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        self.within(other) && other.within(self)
    }
}

impl Eq for Clock {}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.low.iter().chain(self.rest()).enumerate();
        f.debug_map()
            .entries(
                entries
                    .filter(|&(_, &index)| index > 0)
                    .map(|(at, index)| (StreamId::at(at), index)),
            )
            .finish()
    }
}

/// The frontiers of the streams of one capture. Streams are known to exist: the
/// pools check ids before they come here.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    frontiers: Vec<Clock>,
    nodes: u32,
}

impl Clocks {
    pub(crate) fn add_stream(&mut self) -> StreamId {
        self.frontiers.push(Clock::default());
        StreamId::at(self.frontiers.len() - 1)
    }

    /// Nodes recorded so far, over all streams: the id of the next one.
    pub(crate) fn nodes(&self) -> NodeId {
        NodeId(self.nodes)
    }

    pub(crate) fn frontier(&self, stream: StreamId) -> &Clock {
        &self.frontiers[stream.index()]
    }

    /// The frontiers of all streams, by number.
    #[inline]
    pub(crate) fn frontiers(&self) -> &[Clock] {
        &self.frontiers
    }

    /// One node on `stream`, or `None` when the capture has 2^32 - 1 of them.
    pub(crate) fn record(&mut self, stream: StreamId) -> Option<Position> {
        self.nodes = self.nodes.checked_add(1)?;
        let frontier = &mut self.frontiers[stream.index()];
        // No overflow: a chain is no longer than the count just checked.
        let index = frontier.get(stream) + 1;
        let position = Position { stream, index };
        frontier.raise(position);
        Some(position)
    }

    /// `stream` continues after all that `clock` reaches, and its own chain.
    pub(crate) fn wait(&mut self, stream: StreamId, clock: &Clock) {
        self.frontiers[stream.index()].join(clock);
    }

    /// `waiting` continues after all that the frontier of `on` reaches.
    pub(crate) fn wait_for(&mut self, waiting: StreamId, on: StreamId) {
        if let Ok([waiting, on]) = self
            .frontiers
            .get_disjoint_mut([waiting.index(), on.index()])
        {
            waiting.join(on);
        }
        // A stream that waits for itself gains nothing.
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use super::*;

    fn at(stream: u32, index: u32) -> Position {
        Position {
            stream: StreamId(stream),
            index,
        }
    }

    #[test]
    fn a_child_sees_the_parent_up_to_the_fork_only() {
        let mut clocks = Clocks::default();
        let (main, side) = (clocks.add_stream(), clocks.add_stream());
        let before = clocks.record(main).unwrap();
        clocks.wait_for(side, main);
        let after = clocks.record(main).unwrap();
        assert!(clocks.frontier(side).reaches(before));
        assert!(!clocks.frontier(side).reaches(after));
    }

    #[test]
    fn a_second_fork_keeps_the_childs_own_chain() {
        let mut clocks = Clocks::default();
        let (main, side) = (clocks.add_stream(), clocks.add_stream());
        clocks.wait_for(side, main);
        let own = clocks.record(side).unwrap();
        clocks.record(main).unwrap();
        clocks.wait_for(side, main);
        assert!(clocks.frontier(side).reaches(own));
        assert_eq!(clocks.record(side).unwrap(), at(1, 2));
    }

    #[test]
    fn order_is_transitive_over_a_third_stream() {
        let mut clocks = Clocks::default();
        let [a, b, c] = [(); 3].map(|()| clocks.add_stream());
        let first = clocks.record(a).unwrap();
        clocks.wait_for(b, a);
        clocks.record(b).unwrap();
        clocks.wait_for(c, b);
        assert!(clocks.frontier(c).reaches(first));
        assert!(!clocks.frontier(a).reaches(at(1, 1)));
    }

    #[test]
    fn streams_beyond_the_inline_entries_count_too() {
        let mut clocks = Clocks::default();
        let streams: Vec<_> = (0..INLINE + 3).map(|_| clocks.add_stream()).collect();
        let (first, last) = (streams[0], streams[INLINE + 2]);
        let node = clocks.record(last).unwrap();
        let event = clocks.frontier(last).clone();
        assert!(!event.within(clocks.frontier(first)));
        clocks.wait(first, &event);
        assert!(event.within(clocks.frontier(first)));
        assert!(clocks.frontier(first).reaches(node));
        assert!(!clocks.frontier(streams[INLINE + 1]).reaches(node));
    }

    #[test]
    fn clocks_are_equal_when_they_reach_the_same() {
        let mut spilled = Clock::default();
        spilled.raise(at(20, 0));
        assert_eq!(spilled, Clock::default());
        spilled.raise(at(20, 1));
        assert_ne!(spilled, Clock::default());
        assert_eq!(format!("{spilled:?}"), "{s20: 1}");
    }
}
