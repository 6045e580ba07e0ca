//! The blocks that a caching allocator gave out: one life each.
//!
//! The allocator's record is in host order and holds only what happened during
//! the capture. A block that is freed without having been given out, and one
//! that is held at the end and was never given out, were there before.

use std::collections::HashMap;

use streamweir_trace::ByteRange;
use streamweir_trace::dump::{AllocAction, Dump, Pool};

/// The segments of a dump by address.
#[derive(Debug)]
struct Segments {
    sorted: Vec<(ByteRange, Pool)>,
    known: bool,
}

impl Segments {
    fn of(dump: &Dump) -> Self {
        let segments = dump.known_segments().iter();
        let mut sorted: Vec<_> = segments
            .map(|segment| (segment.range, segment.pool))
            .collect();
        sorted.sort_unstable();
        Self {
            sorted,
            known: dump.segments.is_some(),
        }
    }

    /// The pool of an address. Memory that the allocator no longer holds serves
    /// whoever gets it from the driver.
    fn pool(&self, address: u64) -> Pool {
        let after = self
            .sorted
            .partition_point(|(range, _)| range.start <= address);
        let segment = after.checked_sub(1).map(|at| self.sorted[at]);
        match segment.filter(|(range, _)| range.contains_byte(address)) {
            Some((_, pool)) => pool,
            None if self.known => Pool::General,
            None => Pool::Unknown,
        }
    }
}

/// One life of a block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) range: ByteRange,
    /// The handle of the stream whose pool it came from.
    pub(super) stream: u64,
    /// The event that gave it out; `None` when that was before the capture.
    pub(super) given: Option<usize>,
    /// The event by which its owner dropped it.
    pub(super) dropped: Option<usize>,
    /// The event after which its bytes could be given out again.
    pub(super) freed: Option<usize>,
    /// What the memory that it lies in serves.
    pub(super) pool: Pool,
}

/// The blocks, and which of them each event is about.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) all: Vec<Block>,
    pub(super) of_event: Vec<Option<usize>>,
}

impl Blocks {
    pub(super) fn of(dump: &Dump) -> Self {
        let segments = Segments::of(dump);
        let mut all: Vec<Block> = Vec::new();
        let mut held: HashMap<u64, usize> = HashMap::new();
        let mut of_event = vec![None; dump.known_events().len()];
        for (at, event) in dump.known_events().iter().enumerate() {
            let given = (event.action == AllocAction::Alloc).then_some(at);
            let start = event.range.start;
            let new = || Block {
                range: event.range,
                stream: event.stream,
                given,
                dropped: None,
                freed: None,
                pool: segments.pool(start),
            };
            let block = match (event.action, held.get(&start)) {
                (AllocAction::Other, _) => continue,
                (AllocAction::FreeRequested | AllocAction::FreeCompleted, Some(&block)) => block,
                _ => {
                    all.push(new());
                    held.insert(start, all.len() - 1);
                    all.len() - 1
                }
            };
            of_event[at] = Some(block);
            match event.action {
                AllocAction::FreeRequested => all[block].dropped = Some(at),
                AllocAction::FreeCompleted => {
                    all[block].dropped.get_or_insert(at);
                    all[block].freed = Some(at);
                    held.remove(&start);
                }
                AllocAction::Alloc | AllocAction::Other => {}
            }
        }
        for segment in dump.known_segments() {
            for block in segment.blocks.iter().filter(|block| block.active) {
                if !block.range.is_empty() && !held.contains_key(&block.range.start) {
                    all.push(Block {
                        range: block.range,
                        stream: segment.stream,
                        given: None,
                        dropped: None,
                        freed: None,
                        pool: segment.pool,
                    });
                }
            }
        }
        Self { all, of_event }
    }
}

impl Block {
    /// Whether the owner of memory that is older than the capture let go of it
    /// while the capture went on, to a pool from which anyone may take it.
    pub(super) fn abandoned(&self) -> bool {
        self.given.is_none() && self.dropped.is_some() && self.pool == Pool::General
    }

    /// Whether it was given out during the capture of memory that anyone may take
    /// once its owner lets go, so that nothing keeps it for the graph.
    pub(super) fn unkept(&self) -> bool {
        self.given.is_some() && self.pool == Pool::General
    }
}
