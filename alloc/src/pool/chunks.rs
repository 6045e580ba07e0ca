//! The tiling of a pool's bytes.
//!
//! Chunks tile the spans that the arena granted; each has links to its
//! neighbours by address. Spans that adjoin inside one segment make one *run*;
//! links do not lead out of a run, because a block lies in one segment. This file
//! keeps the tiling whole and knows neither streams nor sizes.

use streamweir_trace::ByteRange;

use crate::arena::Span;
use crate::clocks::Clock;

/// "No chunk", as a link.
pub(super) const NONE: u32 = u32::MAX;

/// Some bytes of a pool, in one piece.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) range: ByteRange,
    /// Neighbours by address inside the run.
    pub(super) below: u32,
    pub(super) above: u32,
    run: u32,
    state: ChunkState,
    /// Changes whenever the state does: what was noted in an earlier life is
    /// void.
    life: u32,
    /// What a frontier must have reached before the bytes may be used again.
    pub(super) need: Clock,
    /// While it is open: streams whose frontiers have, as bits. Others may have
    /// come to since.
    pub(super) streams: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// A block's.
    Used,
    /// Free, and some stream may use it: part of a gap.
    Open,
    /// Free, and no stream may use it yet: in the deferred index.
    Waits,
}

/// A chunk, and the life that it was noted in.
pub(super) type Noted = (u32, u32);

/// Granted bytes without a break, inside one segment.
#[derive(Debug)]
struct Run {
    granted: Span,
    /// The highest chunk.
    last: u32,
}

/// The chunks of a pool.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    all: Vec<Chunk>,
    /// Ids of chunks that another one has absorbed.
    spare: Vec<u32>,
    runs: Vec<Run>,
}

impl Chunk {
    #[inline]
    pub(super) fn enter(&mut self, state: ChunkState) {
        self.state = state;
        self.life = self.life.wrapping_add(1);
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.state == ChunkState::Open
    }
}

impl Chunks {
    #[inline]
    pub(super) fn get(&self, chunk: u32) -> &Chunk {
        &self.all[chunk as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, chunk: u32) -> &mut Chunk {
        &mut self.all[chunk as usize]
    }

    /// The chunk behind a link, if it is one that some stream may use.
    #[inline]
    pub(super) fn open(&self, link: u32) -> Option<u32> {
        (self.all.get(link as usize)?.is_open()).then_some(link)
    }

    /// How many there are, ids that are spare included.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The chunk, in its present life.
    pub(super) fn noted(&self, chunk: u32) -> Noted {
        (chunk, self.get(chunk).life)
    }

    /// What the chunk needs, if it still waits in the life that it was noted in.
    #[inline]
    pub(super) fn waits(&self, (chunk, life): Noted) -> Option<&Clock> {
        let chunk = self.get(chunk);
        (chunk.state == ChunkState::Waits && chunk.life == life).then_some(&chunk.need)
    }

    /// What the arena has granted, and the highest chunk of it.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Span, u32)> {
        self.runs.iter().map(|run| (run.granted, run.last))
    }

    /// Adds bytes that nothing in this capture has used: a chunk that counts as
    /// used, with no need.
    pub(super) fn add(&mut self, granted: Span) -> u32 {
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
                self.get_mut(below).above = chunk;
                self.get_mut(chunk).below = below;
            }
        }
        chunk
    }

    /// Cuts the chunk at `address`, inside it. What lies above becomes a chunk of
    /// its own, in the same state, with the same need and streams.
    pub(super) fn cut(&mut self, chunk: u32, address: u64) {
        let lower = self.get_mut(chunk);
        let rest = ByteRange::new(address, lower.range.end);
        lower.range.end = address;
        let (above, run, state) = (lower.above, lower.run, lower.state);
        let (need, streams) = (lower.need.clone(), lower.streams);
        let rest = self.insert(rest, run, need);
        let upper = self.get_mut(rest);
        upper.state = state;
        upper.streams = streams;
        upper.below = chunk;
        upper.above = above;
        self.get_mut(chunk).above = rest;
        self.set_below(above, rest, run);
    }

    /// Makes the chunk the union of itself and the one right above, whose need is
    /// returned. The state stays that of the lower one.
    pub(super) fn absorb(&mut self, lower: u32) -> Clock {
        let upper = self.get(lower).above;
        let gone = self.get_mut(upper);
        let (end, above, run) = (gone.range.end, gone.above, gone.run);
        gone.enter(ChunkState::Used);
        let need = std::mem::take(&mut gone.need);
        let kept = self.get_mut(lower);
        kept.range.end = end;
        kept.above = above;
        self.set_below(above, lower, run);
        self.spare.push(upper);
        need
    }

    /// `lower` is now the chunk right below `upper`, or the highest of its run.
    fn set_below(&mut self, upper: u32, lower: u32, run: u32) {
        match upper {
            NONE => self.runs[run as usize].last = lower,
            upper => self.get_mut(upper).below = lower,
        }
    }

    /// A chunk that counts as used, with no neighbours.
    fn insert(&mut self, range: ByteRange, run: u32, need: Clock) -> u32 {
        let mut chunk = Chunk {
            range,
            below: NONE,
            above: NONE,
            run,
            state: ChunkState::Used,
            life: 0,
            need,
            streams: 0,
        };
        if let Some(id) = self.spare.pop() {
            let spare = self.get_mut(id);
            chunk.life = spare.life;
            *spare = chunk;
            return id;
        }
        // No overflow: each block cuts off one chunk at most, and the pools stop
        // at 2^32 - 1 blocks; each span adds one, of 256 bytes or more.
        self.all.push(chunk);
        (self.all.len() - 1) as u32
    }
}
