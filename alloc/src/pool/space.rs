//! The bytes of one pool, cut into chunks.
//!
//! Chunks tile the spans that the arena granted. A free chunk carries `need`:
//! the clock that a frontier must have reached before the bytes may be used
//! again (see [`Pools`](super::Pools) for what that clock is and why it is
//! enough). Every chunk lies in one doubly linked list by address, every free
//! chunk in one by size.
//!
//! # Merging
//! A merged chunk needs what both parts needed, so merging early can lock
//! bytes that are free to use behind some that are not. Therefore neighbours
//! merge on a free only when both are within the frontier of the stream that
//! frees, where nothing is lost for that stream; the rest waits for the next
//! request that finds no room ([`Space::coalesce`]), which merges what is
//! within the frontier that asks.

use streamweir_trace::ByteRange;

use super::bins::{Bins, NONE, bin_of};
use crate::arena::Span;
use crate::clocks::Clock;

#[derive(Debug)]
struct Chunk {
    range: ByteRange,
    /// Neighbours by address inside the run.
    below: u32,
    above: u32,
    /// Neighbours in the bin, when free.
    prev: u32,
    next: u32,
    free: bool,
    need: Clock,
}

/// Granted bytes without a gap, inside one segment.
#[derive(Debug)]
struct Run {
    granted: Span,
    /// The lowest chunk. It keeps its id: a merge keeps the lower of the two.
    first: u32,
}

#[derive(Debug, Default)]
pub(super) struct Space {
    chunks: Vec<Chunk>,
    /// Ids of chunks that a merge has swallowed.
    spare: Vec<u32>,
    runs: Vec<Run>,
    bins: Bins,
}

impl Space {
    /// The best fit for `bytes` that a stream with this frontier may use.
    pub(super) fn take(&mut self, bytes: u64, frontier: &Clock) -> Option<u32> {
        let mut bin = bin_of(bytes);
        loop {
            bin = self.bins.occupied_from(bin)?;
            if let Some(chunk) = self.best_in(bin, bytes, frontier) {
                self.unlink(chunk);
                self.split(chunk, bytes);
                return Some(chunk);
            }
            bin += 1;
        }
    }

    #[inline]
    fn best_in(&self, bin: usize, bytes: u64, frontier: &Clock) -> Option<u32> {
        let mut best = None;
        let mut least = u64::MAX;
        let mut at = self.bins.head(bin);
        while at != NONE {
            let chunk = &self.chunks[at as usize];
            let len = chunk.range.len();
            if len >= bytes && len < least && chunk.need.within(frontier) {
                best = Some(at);
                least = len;
                if len == bytes {
                    break;
                }
            }
            at = chunk.next;
        }
        best
    }

    pub(super) fn range(&self, chunk: u32) -> ByteRange {
        self.chunks[chunk as usize].range
    }

    /// Takes a chunk back. Its bytes may be used again by what has reached
    /// `need`; `frontier` is that of the stream that it was taken on.
    pub(super) fn give(&mut self, mut chunk: u32, need: Clock, frontier: &Clock) {
        let reached = need.within(frontier);
        let freed = &mut self.chunks[chunk as usize];
        freed.need = need;
        freed.free = true;
        let (below, above) = (freed.below, freed.above);
        if reached {
            if self.is_free_within(above, frontier) {
                self.unlink(above);
                self.swallow(chunk, above);
            }
            if self.is_free_within(below, frontier) {
                self.unlink(below);
                self.swallow(below, chunk);
                chunk = below;
            }
        }
        self.link(chunk);
    }

    /// Adds bytes that nothing in this capture has used.
    pub(super) fn add(&mut self, granted: Span) {
        let adjoining = self.runs.iter().position(|run| {
            run.granted.segment == granted.segment && run.granted.range.end == granted.range.start
        });
        let chunk = self.insert(granted.range, NONE, NONE, Clock::default());
        match adjoining {
            None => self.runs.push(Run {
                granted,
                first: chunk,
            }),
            Some(run) => {
                self.runs[run].granted.range.end = granted.range.end;
                let mut last = self.runs[run].first;
                while self.chunks[last as usize].above != NONE {
                    last = self.chunks[last as usize].above;
                }
                self.chunks[last as usize].above = chunk;
                self.chunks[chunk as usize].below = last;
            }
        }
        self.link(chunk);
    }

    /// Merges all neighbours that are free within `frontier`; whether there were
    /// any.
    pub(super) fn coalesce(&mut self, frontier: &Clock) -> bool {
        let mut merged = false;
        for run in 0..self.runs.len() {
            let mut at = self.runs[run].first;
            while at != NONE {
                let above = self.chunks[at as usize].above;
                if self.is_free_within(at, frontier) && self.is_free_within(above, frontier) {
                    self.unlink(at);
                    self.unlink(above);
                    self.swallow(at, above);
                    self.link(at);
                    merged = true;
                } else {
                    at = above;
                }
            }
        }
        merged
    }

    fn is_free_within(&self, chunk: u32, frontier: &Clock) -> bool {
        self.chunks
            .get(chunk as usize)
            .is_some_and(|chunk| chunk.free && chunk.need.within(frontier))
    }

    /// Cuts a chunk that is in no bin down to `bytes` and marks it used; what is
    /// left over becomes a free chunk above it, with the same need.
    fn split(&mut self, chunk: u32, bytes: u64) {
        let taken = &mut self.chunks[chunk as usize];
        taken.free = false;
        let need = std::mem::take(&mut taken.need);
        let (range, above) = (taken.range, taken.above);
        if range.len() == bytes {
            return;
        }
        let cut = range.start + bytes;
        taken.range.end = cut;
        let rest = self.insert(ByteRange::new(cut, range.end), chunk, above, need);
        self.chunks[chunk as usize].above = rest;
        if above != NONE {
            self.chunks[above as usize].below = rest;
        }
        self.link(rest);
    }

    /// Makes `lower` the union of itself and the chunk right above it. Both are
    /// free and in no bin.
    fn swallow(&mut self, lower: u32, upper: u32) {
        let gone = &mut self.chunks[upper as usize];
        let (end, above) = (gone.range.end, gone.above);
        gone.free = false;
        let need = std::mem::take(&mut gone.need);
        let kept = &mut self.chunks[lower as usize];
        kept.range.end = end;
        kept.above = above;
        kept.need.join(&need);
        if above != NONE {
            self.chunks[above as usize].below = lower;
        }
        self.spare.push(upper);
    }

    fn insert(&mut self, range: ByteRange, below: u32, above: u32, need: Clock) -> u32 {
        let chunk = Chunk {
            range,
            below,
            above,
            prev: NONE,
            next: NONE,
            free: true,
            need,
        };
        if let Some(id) = self.spare.pop() {
            self.chunks[id as usize] = chunk;
            return id;
        }
        // No overflow: each block splits off one chunk at most, and the pools
        // stop at 2^32 - 1 blocks; each span adds one, of 256 bytes or more.
        self.chunks.push(chunk);
        (self.chunks.len() - 1) as u32
    }

    fn link(&mut self, chunk: u32) {
        let bin = bin_of(self.range(chunk).len());
        let head = self.bins.head(bin);
        let linked = &mut self.chunks[chunk as usize];
        linked.prev = NONE;
        linked.next = head;
        if head != NONE {
            self.chunks[head as usize].prev = chunk;
        }
        self.bins.set_head(bin, chunk);
    }

    fn unlink(&mut self, chunk: u32) {
        let unlinked = &self.chunks[chunk as usize];
        let (prev, next, len) = (unlinked.prev, unlinked.next, unlinked.range.len());
        if prev == NONE {
            self.bins.set_head(bin_of(len), next);
        } else {
            self.chunks[prev as usize].next = next;
        }
        if next != NONE {
            self.chunks[next as usize].prev = prev;
        }
    }
}
