//! The deferred index: free chunks that no stream may use yet.
//!
//! A frontier reaches what others have recorded only when its stream waits for
//! something: a fork, a join, an event. So that is when a stream looks at what
//! is deferred, and requests never do. Each stream reads the log of chunks that
//! were deferred since it last waited, and keeps those that it may not use under
//! the first index that it lacks ([`Waiting`]). Whichever stream gets there
//! first opens the chunk for all; what the others have noted is void then.

use super::chunks::{Chunks, Noted};
use super::waiting::Waiting;
use crate::clocks::Clock;

#[derive(Debug, Default)]
struct Watch {
    waiting: Waiting,
    /// How much of the log the stream has read.
    read: usize,
}

#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// In the order they were deferred.
    log: Vec<Noted>,
    /// By stream.
    watches: Vec<Watch>,
}

impl Deferred {
    /// Defers a chunk that is within no frontier and waits in this life.
    pub(super) fn push(&mut self, chunks: &Chunks, noted: Noted) {
        self.log.push(noted);
        // So a capture that never joins keeps no entry for each of its frees,
        // and each entry pays for the walk over two.
        if self.log.len() > 64 + 2 * chunks.len() {
            self.compact(chunks);
        }
    }

    /// Forgets of the log what is void or read by all.
    fn compact(&mut self, chunks: &Chunks) {
        let read_by_all = self.watches.iter().map(|watch| watch.read).min();
        let read_by_all = read_by_all.unwrap_or(0);
        let mut kept = 0;
        let mut reads: Vec<usize> = vec![0; self.watches.len()];
        for at in 0..self.log.len() {
            let noted = self.log[at];
            if at < read_by_all || chunks.waits(noted).is_none() {
                continue;
            }
            self.log[kept] = noted;
            kept += 1;
            for (read, watch) in reads.iter_mut().zip(&self.watches) {
                *read += usize::from(at < watch.read);
            }
        }
        self.log.truncate(kept);
        for (watch, read) in self.watches.iter_mut().zip(reads) {
            watch.read = read;
        }
    }

    /// A chunk that the stream's frontier has reached since the last call, if
    /// there is one left. The caller opens it before it asks again.
    pub(super) fn next_reached(
        &mut self,
        stream: usize,
        frontier: &Clock,
        chunks: &Chunks,
    ) -> Option<u32> {
        if stream >= self.watches.len() {
            self.watches.resize_with(stream + 1, Watch::default);
        }
        let watch = &mut self.watches[stream];
        loop {
            let noted = match self.log.get(watch.read) {
                Some(&noted) => {
                    watch.read += 1;
                    noted
                }
                None => watch.waiting.next_reached(frontier)?,
            };
            let Some(need) = chunks.waits(noted) else {
                continue;
            };
            let Some(missing) = need.first_beyond(frontier) else {
                return Some(noted.0);
            };
            // Void entries go before they outnumber the chunks there are, so
            // that a stream that reaches nothing costs no memory per free.
            if watch.waiting.entries() > 64 + 2 * chunks.len() {
                watch.waiting.keep(|noted| chunks.waits(noted).is_some());
            }
            watch.waiting.note(noted, missing);
        }
    }

    /// How many entries there are, void ones included.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        let waiting = self.watches.iter().map(|watch| watch.waiting.entries());
        self.log.len() + waiting.sum::<usize>()
    }
}
