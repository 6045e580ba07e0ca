//! The bytes of one pool: which chunk a request gets, and what becomes of one that
//! comes back.
//!
//! A free chunk carries `need`: the clock that a frontier must have reached before
//! the bytes may be used again (see [`Pools`](super::Pools) for what that clock is
//! and why it is enough). It is *open*, part of a [gap](super::gaps), when some
//! stream may use it, and [deferred](super::deferred) until then.
//!
//! # Which bytes
//! A request takes the lowest bytes that are free in one piece for its stream.
//! The piece may span several chunks of a gap, each with a need of its own: they
//! are taken as one and what is left over keeps its need. Nothing has to be merged
//! for it, and so no bytes are locked behind the need of their neighbours. Low
//! addresses fill up and stay full, high ones come to be free in large pieces; on
//! logs of several streams that reserves a fifth to a third less than the best
//! fit does. Where there is no such piece, what is free at the end of the pool is
//! made longer.
//!
//! # Merging
//! A merged chunk needs what both parts needed. Neighbours merge when exactly the
//! same streams may use them, so no stream loses bytes by it.

use streamweir_trace::{ByteRange, StreamId};

use super::chunks::{ChunkState, Chunks};
use super::deferred::Deferred;
use super::gaps::{Gap, Gaps, Place};
use crate::arena::{Span, Tail};
use crate::clocks::{Clock, Clocks};

/// Who may have the bytes of a space.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    /// This stream alone.
    One(StreamId),
    /// All streams of the capture.
    All,
}

#[derive(Debug)]
pub(super) struct Space {
    whose: Whose,
    chunks: Chunks,
    gaps: Gaps,
    deferred: Deferred,
}

/// Chunks side by side that hold a request.
struct Fit {
    place: Place,
    first: u32,
    last: u32,
}

impl Space {
    pub(super) fn new(whose: Whose) -> Self {
        Self {
            whose,
            chunks: Chunks::default(),
            gaps: Gaps::default(),
            deferred: Deferred::default(),
        }
    }

    /// The frontiers of the streams that may have the bytes.
    #[inline]
    fn frontiers<'a>(&self, clocks: &'a Clocks) -> &'a [Clock] {
        match self.whose {
            Whose::One(stream) => std::slice::from_ref(clocks.frontier(stream)),
            Whose::All => clocks.frontiers(),
        }
    }

    /// The stream's number among those that may have the bytes.
    #[inline]
    fn number(&self, stream: StreamId) -> usize {
        match self.whose {
            Whose::One(_) => 0,
            Whose::All => stream.index(),
        }
    }

    /// The lowest `bytes` bytes that the stream may use, as a chunk.
    pub(super) fn take(&mut self, stream: StreamId, bytes: u64, clocks: &Clocks) -> Option<u32> {
        let Fit { place, first, last } = self.lowest(stream, bytes, clocks)?;
        let gap = self.gaps.get(place);
        let start = self.range(first).start;
        let end = start + bytes;
        if end < self.range(last).end {
            self.chunks.cut(last, end);
        }
        while self.range(first).end < end {
            self.chunks.absorb(first);
        }
        let taken = self.chunks.get_mut(first);
        taken.enter(ChunkState::Used);
        taken.need = Clock::default();
        let above = gap.part(end, gap.end(), taken.above);
        let below = gap.part(gap.start, start, gap.first);
        match (below.len > 0, above.len > 0) {
            (false, false) => self.gaps.remove(place),
            (false, true) => self.gaps.set(place, above),
            (true, false) => self.gaps.set(place, below),
            (true, true) => {
                self.gaps.set(place, below);
                self.gaps.insert(Some(place), above);
            }
        }
        Some(first)
    }

    fn lowest(&mut self, stream: StreamId, bytes: u64, clocks: &Clocks) -> Option<Fit> {
        let (frontier, stream) = (clocks.frontier(stream), self.number(stream));
        let mut next = self.gaps.lowest(bytes, stream);
        while let Some(place) = next {
            match self.lowest_in(&self.gaps.get(place), bytes, frontier) {
                Ok((first, last)) => return Some(Fit { place, first, last }),
                Err(most) => next = self.gaps.next(place, bytes, stream, most),
            }
        }
        None
    }

    /// The first and the last chunk of the lowest bytes in a gap, or how many bytes
    /// there are in one piece at most.
    #[inline]
    fn lowest_in(&self, gap: &Gap, bytes: u64, frontier: &Clock) -> Result<(u32, u32), u64> {
        let (mut first, mut start) = (gap.first, gap.start);
        let (mut at, mut most) = (gap.first, 0);
        loop {
            let chunk = self.chunks.get(at);
            let end = chunk.range.end;
            // Two selections and no branch, which would be foreseen wrongly at
            // every other chunk.
            let usable = chunk.need.within(frontier);
            first = if usable { first } else { chunk.above };
            start = if usable { start } else { end };
            if end - start >= bytes {
                return Ok((first, at));
            }
            most = most.max(end - start);
            let rest = gap.end() - start;
            if rest < bytes {
                return Err(most.max(rest));
            }
            at = chunk.above;
        }
    }

    pub(super) fn range(&self, chunk: u32) -> ByteRange {
        self.chunks.get(chunk).range
    }

    /// Takes back a chunk. Its bytes may be used again by what has reached `need`.
    pub(super) fn give(&mut self, chunk: u32, need: Clock, clocks: &Clocks) {
        let streams = self.streams(&need, clocks);
        let given = self.chunks.get_mut(chunk);
        given.need = need;
        if streams != 0 {
            self.open(chunk, streams, clocks);
        } else {
            given.enter(ChunkState::Waits);
            let noted = self.chunks.noted(chunk);
            self.deferred.push(&self.chunks, noted);
        }
    }

    /// To be called when `stream` has waited for something, or is new: opens what
    /// was deferred and its frontier has reached, and lets it look everywhere.
    pub(super) fn open_reached(&mut self, stream: StreamId, clocks: &Clocks) {
        let (frontier, stream) = (clocks.frontier(stream), self.number(stream));
        self.gaps.forget(stream);
        while let Some(chunk) = (self.deferred).next_reached(stream, frontier, &self.chunks) {
            let streams = self.streams(&self.chunks.get(chunk).need, clocks);
            self.open(chunk, streams, clocks);
        }
    }

    /// What the arena has granted.
    pub(super) fn granted(&self) -> impl Iterator<Item = ByteRange> {
        self.chunks.runs().map(|(span, _)| span.range)
    }

    /// Adds bytes that nothing in this capture has used.
    pub(super) fn add(&mut self, granted: Span, clocks: &Clocks) {
        let chunk = self.chunks.add(granted);
        self.give(chunk, Clock::default(), clocks);
    }

    /// What the stream may use at the ends of what was granted.
    pub(super) fn tails(&self, stream: StreamId, clocks: &Clocks) -> Vec<Tail> {
        let frontier = clocks.frontier(stream);
        let tail = |(span, last): (Span, u32)| {
            let end = span.range.end;
            let (mut start, mut at) = (end, last);
            while let Some(open) = self.chunks.open(at) {
                let chunk = self.chunks.get(open);
                if !chunk.need.within(frontier) {
                    break;
                }
                (start, at) = (chunk.range.start, chunk.below);
            }
            Tail {
                segment: span.segment,
                range: ByteRange::new(start, end),
            }
        };
        self.chunks.runs().map(tail).collect()
    }

    /// Makes a free chunk, which `streams` may use, part of a gap.
    fn open(&mut self, chunk: u32, streams: u64, clocks: &Clocks) {
        let opened = self.chunks.get_mut(chunk);
        opened.enter(ChunkState::Open);
        opened.streams = streams;
        let (range, below, above) = (opened.range, opened.below, opened.above);
        let (below, above) = (self.chunks.open(below), self.chunks.open(above));
        let lower = self.gaps.below(range.start);
        let alone = Gap::new(range.start, range.len(), chunk, streams);
        let upper = above.and_then(|_| self.gaps.above(lower));
        match (below.and(lower), upper) {
            (None, None) => self.gaps.insert(lower, alone),
            (None, Some(upper)) => {
                let gap = alone.with(&self.gaps.get(upper), streams);
                self.gaps.set(upper, gap);
            }
            (Some(lower), None) => {
                let gap = self.gaps.get(lower).with(&alone, streams);
                self.gaps.set(lower, gap);
            }
            (Some(lower), Some(upper)) => {
                let gap = self.gaps.get(lower).with(&alone, streams);
                let gap = gap.with(&self.gaps.get(upper), streams);
                self.gaps.remove(upper);
                self.gaps.set(lower, gap);
            }
        }
        if above.is_some_and(|above| self.is_open_to(above, streams, clocks)) {
            self.merge(chunk);
        }
        if let Some(below) = below
            && self.is_open_to(below, streams, clocks)
        {
            self.merge(below);
        }
    }

    /// Whether exactly these streams may use the chunk.
    fn is_open_to(&mut self, chunk: u32, streams: u64, clocks: &Clocks) -> bool {
        let known = self.chunks.get(chunk);
        // What a stream has reached it has reached for good.
        if known.streams & !streams != 0 {
            return false;
        }
        let now = self.streams(&known.need, clocks);
        self.chunks.get_mut(chunk).streams = now;
        now == streams
    }

    /// The streams that have reached `need`, as bits. The last bit stands for all
    /// streams from there on; taking them for one costs reuse at worst.
    fn streams(&self, need: &Clock, clocks: &Clocks) -> u64 {
        let mut streams = 0;
        for (stream, frontier) in self.frontiers(clocks).iter().enumerate() {
            streams |= u64::from(need.within(frontier)) << stream.min(63);
        }
        streams
    }

    /// Makes an open chunk one with the open chunk right above.
    fn merge(&mut self, lower: u32) {
        let need = self.chunks.absorb(lower);
        self.chunks.get_mut(lower).need.join(&need);
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests;
