//! The bytes of one pool, cut into chunks.
//!
//! Chunks tile the spans that the arena granted. A free chunk carries `need`:
//! the clock that a frontier must have reached before the bytes may be used
//! again (see [`Pools`](super::Pools) for what that clock is and why it is
//! enough). Every chunk lies in one doubly linked list by address. A free chunk
//! that some stream may use lies in one by size, too. One that none may use is
//! [`Waiting`], under the first thing that is missing, with each stream that
//! comes into question: the one that had it and those that used it. The first of
//! them to get there brings it back into the lists.
//!
//! # Merging
//! A merged chunk needs what both parts needed, so merging early can lock
//! bytes that are free to use behind some that are not. Therefore neighbours
//! merge on a free only when both are within the frontier of the stream that
//! frees, where nothing is lost for that stream; the rest waits for the next
//! request that finds no room ([`Space::coalesce`]), which merges what is
//! within the frontier that asks.

use streamweir_trace::{ByteRange, StreamId};

use super::bins::{Bins, NONE, bin_of};
use super::waiting::{Noted, Waiting};
use crate::arena::Span;
use crate::clocks::{Clock, Clocks};

#[derive(Debug)]
struct Chunk {
    range: ByteRange,
    /// Neighbours by address inside the run.
    below: u32,
    above: u32,
    run: u32,
    /// Neighbours in the bin, when free.
    prev: u32,
    next: u32,
    state: ChunkState,
    /// Whether the chunk is among the seams of its space.
    seam: bool,
    /// Changes whenever the state does: what was noted in an earlier life is
    /// void.
    life: u32,
    need: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// A block's.
    Used,
    /// Free, and in its bin.
    Binned,
    /// Free, and no stream is known that may use it.
    Waits,
}

impl Chunk {
    fn is_free(&self) -> bool {
        self.state != ChunkState::Used
    }

    fn enter(&mut self, state: ChunkState) {
        self.state = state;
        self.life = self.life.wrapping_add(1);
    }
}

/// Granted bytes without a gap, inside one segment.
#[derive(Debug)]
struct Run {
    granted: Span,
    /// The highest chunk.
    last: u32,
}

#[derive(Debug)]
pub(super) struct Space {
    /// Whether streams other than the one that had a chunk may have it, too.
    shared: bool,
    chunks: Vec<Chunk>,
    /// Ids of chunks that a merge has swallowed.
    spare: Vec<u32>,
    runs: Vec<Run>,
    bins: Bins,
    /// By stream.
    waiting: Vec<Waiting>,
    /// Free chunks that had a free chunk right above when one of the two became
    /// free: what a request that finds no room may merge.
    seams: Vec<u32>,
}

impl Space {
    /// A space of one stream, or one shared by all streams of a capture.
    pub(super) fn new(shared: bool) -> Self {
        Self {
            shared,
            chunks: Vec::new(),
            spare: Vec::new(),
            runs: Vec::new(),
            bins: Bins::default(),
            waiting: Vec::new(),
            seams: Vec::new(),
        }
    }

    /// The best fit for `bytes` that the stream may use.
    pub(super) fn take(&mut self, stream: StreamId, bytes: u64, clocks: &Clocks) -> Option<u32> {
        let frontier = clocks.frontier(stream);
        self.settle(stream, frontier);
        let found = self.best(bytes, frontier);
        if found.is_none() && self.coalesce(frontier) {
            return self.best(bytes, frontier);
        }
        found
    }

    fn best(&mut self, bytes: u64, frontier: &Clock) -> Option<u32> {
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

    /// Takes back a chunk that was taken on `stream` and used by `users`. Its
    /// bytes may be used again by what has reached `need`.
    pub(super) fn give(
        &mut self,
        mut chunk: u32,
        stream: StreamId,
        users: &Clock,
        need: Clock,
        clocks: &Clocks,
    ) {
        let frontier = clocks.frontier(stream);
        if need.within(frontier) {
            let freed = &mut self.chunks[chunk as usize];
            freed.need = need;
            let (below, above) = (freed.below, freed.above);
            if self.is_free_within(above, frontier) {
                self.unlink(above);
                self.swallow(chunk, above);
            }
            if self.is_free_within(below, frontier) {
                self.unlink(below);
                self.swallow(below, chunk);
                chunk = below;
            }
            self.link(chunk);
            return;
        }
        let shared = self.shared;
        let others = || users.streams().filter(|&user| shared && user != stream);
        if others().any(|user| need.within(clocks.frontier(user))) {
            self.chunks[chunk as usize].need = need;
            self.link(chunk);
            return;
        }
        self.chunks[chunk as usize].enter(ChunkState::Waits);
        for candidate in std::iter::once(stream).chain(others()) {
            if let Some(missing) = need.first_beyond(clocks.frontier(candidate)) {
                self.note(candidate, chunk, missing);
            }
        }
        self.chunks[chunk as usize].need = need;
        self.note_seams(chunk);
    }

    fn note(&mut self, stream: StreamId, chunk: u32, missing: (usize, u32)) {
        let at = stream.index();
        if at >= self.waiting.len() {
            self.waiting.resize_with(at + 1, Waiting::default);
        }
        let waiting = &mut self.waiting[at];
        // Void entries go before they outnumber the chunks there are, so that a
        // stream that reaches nothing costs no memory per free.
        if waiting.entries() > 64 + 2 * self.chunks.len() {
            waiting.keep(|noted| waits(&self.chunks, noted));
        }
        waiting.note((chunk, self.chunks[chunk as usize].life), missing);
    }

    /// Brings back what waited for something that the stream has reached since.
    #[inline]
    fn settle(&mut self, stream: StreamId, frontier: &Clock) {
        while let Some(waiting) = self.waiting.get_mut(stream.index())
            && let Some(noted) = waiting.next_reached(frontier)
        {
            if !waits(&self.chunks, noted) {
                continue;
            }
            let (chunk, _) = noted;
            match self.chunks[chunk as usize].need.first_beyond(frontier) {
                Some(missing) => waiting.note(noted, missing),
                None => self.link(chunk),
            }
        }
    }

    /// What the arena has granted.
    pub(super) fn granted(&self) -> impl Iterator<Item = ByteRange> {
        self.runs.iter().map(|run| run.granted.range)
    }

    /// Adds bytes that nothing in this capture has used.
    pub(super) fn add(&mut self, granted: Span) {
        let adjoining = self.runs.iter().position(|run| {
            run.granted.segment == granted.segment && run.granted.range.end == granted.range.start
        });
        let run = adjoining.unwrap_or(self.runs.len());
        let chunk = self.insert(granted.range, run as u32, Clock::default());
        match adjoining {
            None => self.runs.push(Run {
                granted,
                last: chunk,
            }),
            Some(run) => {
                let run = &mut self.runs[run];
                run.granted.range.end = granted.range.end;
                let below = std::mem::replace(&mut run.last, chunk);
                self.chunks[below as usize].above = chunk;
                self.chunks[chunk as usize].below = below;
            }
        }
        self.link(chunk);
    }

    /// For a request that found no room: merges all neighbours that are free
    /// within `frontier`, and brings back what waits for nothing beyond it
    /// though none of the streams that it waits with has come by. Whether there
    /// was anything of either.
    #[cold]
    fn coalesce(&mut self, frontier: &Clock) -> bool {
        let mut found = false;
        if self.shared {
            let reached: Vec<u32> = (self.waiting.iter().flat_map(Waiting::noted))
                .filter(|&noted| waits(&self.chunks, noted))
                .map(|(chunk, _)| chunk)
                .filter(|&chunk| self.chunks[chunk as usize].need.within(frontier))
                .collect();
            for chunk in reached {
                // Noted with several streams, it comes up several times.
                if self.chunks[chunk as usize].state == ChunkState::Waits {
                    self.link(chunk);
                    found = true;
                }
            }
        }
        let mut seams = std::mem::take(&mut self.seams);
        seams.retain(|&lower| {
            while self.is_seam(lower) {
                let upper = self.chunks[lower as usize].above;
                if !self.is_free_within(lower, frontier) || !self.is_free_within(upper, frontier) {
                    return true;
                }
                self.unlink(lower);
                self.unlink(upper);
                self.swallow(lower, upper);
                self.link(lower);
                found = true;
            }
            self.chunks[lower as usize].seam = false;
            false
        });
        // What linking has noted meanwhile stands behind.
        seams.append(&mut self.seams);
        self.seams = seams;
        found
    }

    /// Whether the chunk and the one right above it are both free.
    fn is_seam(&self, lower: u32) -> bool {
        let chunk = &self.chunks[lower as usize];
        chunk.is_free() && self.is_free(chunk.above)
    }

    fn is_free(&self, chunk: u32) -> bool {
        self.chunks.get(chunk as usize).is_some_and(Chunk::is_free)
    }

    /// Notes the seams between a chunk that has become free and its neighbours.
    fn note_seams(&mut self, chunk: u32) {
        let Chunk { below, above, .. } = self.chunks[chunk as usize];
        for (lower, other) in [(chunk, above), (below, below)] {
            if self.is_free(other) && !self.chunks[lower as usize].seam {
                self.chunks[lower as usize].seam = true;
                self.seams.push(lower);
            }
        }
    }

    fn is_free_within(&self, chunk: u32, frontier: &Clock) -> bool {
        self.chunks
            .get(chunk as usize)
            .is_some_and(|chunk| chunk.is_free() && chunk.need.within(frontier))
    }

    /// Cuts a chunk that is in no bin down to `bytes` and marks it used; what is
    /// left over becomes a free chunk above it, with the same need.
    fn split(&mut self, chunk: u32, bytes: u64) {
        let taken = &mut self.chunks[chunk as usize];
        taken.enter(ChunkState::Used);
        let need = std::mem::take(&mut taken.need);
        let (range, above, run) = (taken.range, taken.above, taken.run);
        if range.len() == bytes {
            return;
        }
        let cut = range.start + bytes;
        taken.range.end = cut;
        let rest = self.insert(ByteRange::new(cut, range.end), run, need);
        self.chunks[rest as usize].below = chunk;
        self.chunks[rest as usize].above = above;
        self.chunks[chunk as usize].above = rest;
        self.set_below(above, rest, run);
        self.link(rest);
    }

    /// Makes `lower` the union of itself and the chunk right above it, of which
    /// neither is in a bin.
    fn swallow(&mut self, lower: u32, upper: u32) {
        let gone = &mut self.chunks[upper as usize];
        let (end, above, run) = (gone.range.end, gone.above, gone.run);
        gone.enter(ChunkState::Used);
        let need = std::mem::take(&mut gone.need);
        let kept = &mut self.chunks[lower as usize];
        kept.range.end = end;
        kept.above = above;
        kept.need.join(&need);
        self.set_below(above, lower, run);
        self.spare.push(upper);
    }

    /// `lower` is now the chunk right below `upper`, or the highest of its run.
    fn set_below(&mut self, upper: u32, lower: u32, run: u32) {
        match upper {
            NONE => self.runs[run as usize].last = lower,
            upper => self.chunks[upper as usize].below = lower,
        }
    }

    /// A chunk in no bin, with no neighbours.
    fn insert(&mut self, range: ByteRange, run: u32, need: Clock) -> u32 {
        let mut chunk = Chunk {
            range,
            below: NONE,
            above: NONE,
            prev: NONE,
            next: NONE,
            run,
            state: ChunkState::Used,
            seam: false,
            life: 0,
            need,
        };
        if let Some(id) = self.spare.pop() {
            chunk.life = self.chunks[id as usize].life;
            chunk.seam = self.chunks[id as usize].seam;
            self.chunks[id as usize] = chunk;
            return id;
        }
        // No overflow: each block splits off one chunk at most, and the pools
        // stop at 2^32 - 1 blocks; each span adds one, of 256 bytes or more.
        self.chunks.push(chunk);
        (self.chunks.len() - 1) as u32
    }

    /// Puts a chunk that is in no bin into one, where requests see it.
    fn link(&mut self, chunk: u32) {
        let bin = bin_of(self.range(chunk).len());
        let head = self.bins.head(bin);
        let linked = &mut self.chunks[chunk as usize];
        linked.enter(ChunkState::Binned);
        linked.prev = NONE;
        linked.next = head;
        if head != NONE {
            self.chunks[head as usize].prev = chunk;
        }
        self.bins.set_head(bin, chunk);
        self.note_seams(chunk);
    }

    /// Takes a free chunk out of its bin, if it is in one.
    fn unlink(&mut self, chunk: u32) {
        let unlinked = &self.chunks[chunk as usize];
        if unlinked.state != ChunkState::Binned {
            return;
        }
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

fn waits(chunks: &[Chunk], (chunk, life): Noted) -> bool {
    let chunk = &chunks[chunk as usize];
    chunk.state == ChunkState::Waits && chunk.life == life
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use super::*;
    use crate::arena::{Arena, ArenaConfig, Backing, BackingError};

    #[derive(Debug)]
    struct Addresses;

    impl Backing for Addresses {
        fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
            Ok(ByteRange::new(1 << 20, (1 << 20) + bytes))
        }

        fn release(&self, _segment: ByteRange) {}
    }

    /// main takes blocks, side reads them, main frees them.
    fn with_waiting(shared: bool) -> (Space, Clocks, StreamId, StreamId) {
        let arena = Arena::new(
            "test",
            std::sync::Arc::new(Addresses),
            ArenaConfig::default(),
        );
        let view = arena.open();
        let mut space = Space::new(shared);
        let mut clocks = Clocks::default();
        let (main, side) = (clocks.add_stream(), clocks.add_stream());
        let Ok(span) = view.grant(512 << 10) else {
            panic!("the arena is open")
        };
        space.add(span);
        let chunks: Vec<u32> = (0..64)
            .map(|_| space.take(main, 8192, &clocks).expect("room"))
            .collect();
        clocks.wait_for(side, main);
        for chunk in chunks {
            let mut users = Clock::default();
            users.raise(clocks.record(main).expect("room"));
            users.raise(clocks.record(side).expect("room"));
            space.give(chunk, main, &users, users.clone(), &clocks);
        }
        (space, clocks, main, side)
    }

    #[test]
    fn a_request_does_not_see_what_waits() {
        for shared in [false, true] {
            let (mut space, mut clocks, main, side) = with_waiting(shared);
            assert_eq!(space.bins.occupied_from(0), None);
            assert_eq!(space.take(main, 8192, &clocks), None);
            assert_eq!(space.bins.occupied_from(0), None);
            clocks.wait_for(main, side);
            assert!(space.take(main, 8192, &clocks).is_some());
        }
    }

    #[test]
    fn what_waited_merges_when_it_comes_back() {
        for shared in [false, true] {
            let (mut space, mut clocks, main, side) = with_waiting(shared);
            clocks.wait_for(main, side);
            assert!(space.take(main, 512 << 10, &clocks).is_some());
        }
    }

    #[test]
    fn notes_of_a_stream_that_reaches_nothing_do_not_pile_up() {
        let (mut space, mut clocks, main, side) = with_waiting(true);
        for _ in 0..2000 {
            clocks.wait_for(side, main);
            clocks.wait_for(main, side);
            let chunk = space.take(main, 8192, &clocks).expect("all came back");
            let mut users = Clock::default();
            users.raise(clocks.record(main).expect("room"));
            users.raise(clocks.record(side).expect("room"));
            space.give(chunk, main, &users, users.clone(), &clocks);
        }
        // Nothing is asked for on side, so what was noted there stays.
        let bound = 2 * (64 + 2 * space.chunks.len());
        assert!(space.waiting.iter().map(Waiting::entries).sum::<usize>() <= bound);
    }
}
