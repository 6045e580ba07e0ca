//! The buffers of a dump: each block that something refers to becomes one.

use std::collections::HashMap;

use streamweir_trace::dump::{Dump, Pool};
use streamweir_trace::{
    AllocPoint, Buffer, BufferId, BufferKind, ByteRange, NodeId, NodeKind, Reserved, Stream,
    StreamId, Trace,
};

use crate::accesses::known::{Known, KnownMemory, Life, Memory};
use crate::accesses::words::of_param;
use crate::audit::align::Alignment;
use crate::audit::blocks::{Block, Blocks};
use crate::audit::graph::Operand;

/// The streams of a trace by their handles.
#[derive(Debug, Default)]
pub(super) struct Streams(HashMap<u64, StreamId>);

impl Streams {
    /// The stream with this handle. The first one asked for is the origin. All
    /// have been joined: the driver ends no capture otherwise.
    pub(super) fn get(&mut self, trace: &mut Trace, handle: u64) -> StreamId {
        *self.0.entry(handle).or_insert_with(|| {
            let name = format!("stream {handle:#x}");
            let mut stream = match trace.streams.is_empty() {
                true => Stream::origin(name),
                false => Stream::forked(name, StreamId(0)),
            };
            stream.end.joined = true;
            trace.add_stream(stream)
        })
    }
}

/// The blocks of a dump as buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    /// For each block its buffer; `None` when nothing refers to it, and when
    /// its owner has let go of it.
    pub(super) of_block: Vec<Option<BufferId>>,
    /// What an address means at a node of which nothing is logged.
    pub(super) known: KnownMemory,
    /// What an address means at a node of an operator, apart from the tensors
    /// that the operator names: memory that no operator names. A word that
    /// points to a tensor of other operators is left over from them.
    pub(super) unnamed: KnownMemory,
    /// The same with lives that begin an operator earlier, for an address that is
    /// sure to have been something: an operator's own scratch, which it fills.
    pub(super) early: KnownMemory,
    /// The segments that blocks given out during the capture lie in.
    refilled: Vec<ByteRange>,
}

impl Buffers {
    /// Makes the buffers, each with the life that the operators leave it.
    ///
    /// The alloc point of scratch is its place in record order and has no
    /// frontier. Which accesses of the bytes' last tenant it must follow is a
    /// matter of rule R2, which sees both; an order beyond that is a promise of
    /// allocators that the dump's may not have made.
    pub(super) fn new(
        dump: &Dump,
        blocks: &Blocks,
        alignment: &Alignment,
        operands: &[Operand],
        streams: &mut Streams,
        trace: &mut Trace,
    ) -> Self {
        let referred = referred(blocks, alignment, operands, trace);
        let end = NodeId::at(trace.nodes.len());
        let start_of = |operator: Option<usize>| {
            operator.map_or(NodeId(0), |at| NodeId(dump.operators[at].nodes.0))
        };
        let end_of =
            |operator: Option<usize>| operator.map_or(end, |at| NodeId(dump.operators[at].nodes.1));
        let mut of_block = vec![None; blocks.all.len()];
        let mut pieces = Vec::new();
        let mut unnamed = Vec::new();
        let mut early = Vec::new();
        for (at, block) in blocks.all.iter().enumerate() {
            let name = name(dump, block, alignment.maker[at]);
            if block.abandoned() {
                let freed = Memory {
                    range: block.range,
                    name,
                    known: Known::Freed,
                };
                pieces.push(freed.clone());
                unnamed.push(freed);
                continue;
            }
            let life = Life {
                from: block
                    .given
                    .map_or(NodeId(0), |event| start_of(alignment.not_before(event))),
                until: block.freed.map(|event| end_of(alignment.not_after(event))),
            };
            if !referred[at] {
                continue;
            }
            let kind = match block.given {
                None => BufferKind::Persistent,
                Some(event) => BufferKind::Scratch {
                    stream: streams.get(trace, block.stream),
                    alloc: AllocPoint {
                        frontier: Vec::new(),
                        before: match alignment.last_use[at] {
                            Some(_) => life.from,
                            None => start_of(alignment.well_before(event)),
                        },
                    },
                    freed_before: block.dropped.map(|event| {
                        let next = alignment.not_after(event);
                        match alignment.last_use[at] {
                            // An operator's own scratch may be in use up to its
                            // end; a tensor is in use up to the last that names it.
                            None => end_of(next),
                            Some(last) => end_of(Some(last)).max(match next {
                                Some(next) if next > last => start_of(Some(next)),
                                Some(_) => NodeId(0),
                                None => end,
                            }),
                        }
                    }),
                },
            };
            let id = trace.add_buffer(Buffer {
                carried: kind == BufferKind::Persistent,
                name: name.clone(),
                kind,
                range: block.range,
            });
            of_block[at] = Some(id);
            let piece = Memory {
                range: block.range,
                name,
                known: match block.unkept() && block.dropped.is_some() {
                    // Used while it was held; nobody holds it at replay.
                    true => Known::Live,
                    false => Known::Buffer {
                        id,
                        bytes: ByteRange::new(0, block.range.len()),
                        life,
                    },
                },
            };
            if alignment.last_use[at].is_none() {
                unnamed.push(piece.clone());
                let from = block
                    .given
                    .map(|event| start_of(alignment.well_before(event)));
                if let (Known::Buffer { id, bytes, life }, Some(from)) = (piece.known, from) {
                    let life = Life { from, ..life };
                    early.push(Memory {
                        known: Known::Buffer { id, bytes, life },
                        ..piece.clone()
                    });
                }
            }
            pieces.push(piece);
        }
        pieces.extend(tombstones(dump));
        unnamed.extend(tombstones(dump));
        Self {
            of_block,
            known: KnownMemory::new(pieces),
            unnamed: KnownMemory::new(unnamed),
            early: KnownMemory::new(early),
            refilled: refilled(dump, blocks),
        }
    }

    /// Whether memory at `address` was given out and freed during the capture,
    /// so that an operator's parameters may hold it from an earlier one.
    pub(super) fn is_refilled(&self, address: u64) -> bool {
        let after = self
            .refilled
            .partition_point(|range| range.start <= address);
        after
            .checked_sub(1)
            .is_some_and(|at| self.refilled[at].contains_byte(address))
    }
}

/// The segments, in order, that blocks given out during the capture lie in.
fn refilled(dump: &Dump, blocks: &Blocks) -> Vec<ByteRange> {
    let given = blocks.all.iter().filter(|block| block.given.is_some());
    let mut starts: Vec<u64> = given.map(|block| block.range.start).collect();
    starts.sort_unstable();
    let holds = |range: &ByteRange| {
        let at = starts.partition_point(|&start| start < range.start);
        starts.get(at).is_some_and(|&start| start < range.end)
    };
    let segments = dump.known_segments().iter().map(|segment| segment.range);
    let mut refilled: Vec<ByteRange> = segments.filter(holds).collect();
    refilled.sort_unstable();
    refilled
}

/// Memory of the allocator that nobody had when the capture had ended, by address.
#[derive(Debug)]
pub(super) struct Free(Vec<FreeBlock>);

/// A piece of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeBlock {
    pub(super) range: ByteRange,
    pub(super) pool: Pool,
    /// The handle of the stream whose pool it belongs to.
    pub(super) stream: u64,
}

impl Free {
    pub(super) fn of(dump: &Dump) -> Self {
        let segments = dump.known_segments().iter();
        let blocks = segments.flat_map(|segment| {
            let free = segment.blocks.iter().filter(|block| !block.active);
            free.map(|block| FreeBlock {
                range: block.range,
                pool: segment.pool,
                stream: segment.stream,
            })
        });
        let mut blocks: Vec<FreeBlock> = blocks.collect();
        blocks.sort_unstable_by_key(|block| block.range);
        Self(blocks)
    }

    /// The piece that the first byte of a range lies in.
    pub(super) fn at(&self, range: ByteRange) -> Option<FreeBlock> {
        let after = self
            .0
            .partition_point(|block| block.range.start <= range.start);
        let block = self.0[after.checked_sub(1)?];
        block.range.contains_byte(range.start).then_some(block)
    }
}

/// The memory that the allocator holds and nobody has.
pub(super) fn tombstones(dump: &Dump) -> impl Iterator<Item = Memory> + '_ {
    let blocks = dump
        .known_segments()
        .iter()
        .flat_map(|segment| &segment.blocks);
    blocks.filter(|block| !block.active).map(|block| Memory {
        range: block.range,
        name: String::new(),
        known: Known::Freed,
    })
}

/// The segments that blocks of the capture lie in.
pub(super) fn reserved(dump: &Dump, trace: &mut Trace, streams: &mut Streams) {
    let scratch = |buffer: &&Buffer| matches!(buffer.kind, BufferKind::Scratch { .. });
    let mut taken: Vec<ByteRange> = (trace.buffers.iter().filter(scratch))
        .map(|buffer| buffer.range)
        .collect();
    taken.sort_unstable();
    for segment in dump
        .known_segments()
        .iter()
        .filter(|segment| segment.pool == Pool::Private)
    {
        let at = taken.partition_point(|range| range.start < segment.range.start);
        if taken
            .get(at)
            .is_some_and(|range| range.overlaps(&segment.range))
        {
            let stream = Some(streams.get(trace, segment.stream));
            trace.reserved.push(Reserved {
                stream,
                range: segment.range,
            });
        }
    }
}

/// Which blocks something refers to: a tensor, a copy, a word of a parameter.
fn referred(
    blocks: &Blocks,
    alignment: &Alignment,
    operands: &[Operand],
    trace: &Trace,
) -> Vec<bool> {
    let mut referred: Vec<bool> = alignment.last_use.iter().map(Option::is_some).collect();
    let mut order: Vec<usize> = (0..blocks.all.len()).collect();
    order.sort_by_key(|&at| blocks.all[at].range);
    let mut highest = 0;
    let reach: Vec<u64> = order
        .iter()
        .map(|&at| {
            highest = highest.max(blocks.all[at].range.end);
            highest
        })
        .collect();
    let mut refer = |address: u64| {
        let end = order.partition_point(|&at| blocks.all[at].range.start <= address);
        for place in (0..end).rev().take_while(|&place| reach[place] > address) {
            let at = order[place];
            referred[at] |= blocks.all[at].range.contains_byte(address);
        }
    };
    let mut asked: HashMap<u64, ()> = HashMap::new();
    let words = trace.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Kernel(kernel) => Some(&kernel.params),
        _ => None,
    });
    let words = words
        .flatten()
        .flat_map(|param| of_param(param.offset, &param.bytes));
    let words = words.map(|(_, word)| word);
    for address in words.chain(operands.iter().map(|operand| operand.range.start)) {
        if asked.insert(address, ()).is_none() {
            refer(address);
        }
    }
    referred
}

fn name(dump: &Dump, block: &Block, maker: Option<usize>) -> String {
    let start = block.range.start;
    match maker {
        Some(at) => format!("{} result at {start:#x}", dump.operators[at].name),
        None => format!("block at {start:#x}"),
    }
}
