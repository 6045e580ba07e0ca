//! The input: a trace in the shape of a captured decode step, from a size and a
//! seed, and nothing else.
//!
//! - Layers of eight nodes per stream. Stream 0 is the origin. At the start of a
//!   layer every other stream waits for the origin, at the end the origin waits
//!   for all of them, and in between one in four nodes of a side stream waits
//!   for the stream before it.
//! - A node writes a scratch buffer of its own and reads the last one of its
//!   stream and of each stream that it waits for. Every eighth node updates a
//!   slice of its stream's cache. Reads of weights, and of scratch that the
//!   stream still holds, make up the number of accesses.
//! - Scratch comes from one pool per stream. A buffer has one of 24 sizes from
//!   256 bytes to 4 MiB and lives for two to six nodes of its stream, or to the
//!   end of its layer when another stream reads it; the next one takes the
//!   lowest gap that is large enough. So the same bytes have thousands of
//!   owners, cut at ever other places.
//! - A foreign trace is the same without stream ids, as of a graph that another
//!   program captured: the chains must be found. A broken one lacks one in a
//!   hundred of the joins into the origin.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Edge, Node, NodeId,
    NodeKind, Stream, StreamId, Trace,
};

#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) streams: usize,
    pub(crate) accesses: usize,
    /// How often each thing is run for the table.
    pub(crate) runs: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Recorded,
    Foreign,
    Broken,
}

/// A buffer that a stream holds, and until which of its nodes.
struct Held {
    buffer: BufferId,
    range: ByteRange,
    until: usize,
}

/// What the generator knows of one stream.
struct Lane {
    frontier: Vec<NodeId>,
    held: Vec<Held>,
    last: Option<BufferId>,
    cache: BufferId,
    steps: usize,
    pool: u64,
}

impl Lane {
    /// The lowest gap of the pool that holds `len` bytes.
    fn gap(&self, len: u64) -> ByteRange {
        let mut at = self.pool;
        for held in &self.held {
            if held.range.start - at >= len {
                break;
            }
            at = held.range.end;
        }
        ByteRange::new(at, at + len)
    }
}

const LAYER: usize = 8;
const SLICES: u64 = 64;
const SLICE: u64 = 4096;
const WEIGHT: u64 = 1 << 20;

struct Generator {
    trace: Trace,
    random: StdRng,
    lanes: Vec<Lane>,
    weights: Vec<BufferId>,
    per_node: f64,
    joins: usize,
    broken: bool,
}

pub(crate) fn generate(size: Size, shape: Shape, seed: u64) -> Trace {
    let mut trace = Trace::new("decode");
    trace.nodes.reserve_exact(size.nodes);
    trace.buffers.reserve_exact(size.nodes + 1024);
    trace
        .accesses
        .reserve_exact(size.accesses + size.accesses / 8);
    trace.edges.reserve_exact(size.nodes * 2);
    let origin = trace.add_stream(Stream::origin("main"));
    for at in 1..size.streams {
        let mut side = Stream::forked(format!("side {at}"), origin);
        side.end.joined = true;
        trace.add_stream(side);
    }
    let weights = (0..512)
        .map(|at| {
            let range = ByteRange::new(at * WEIGHT, (at + 1) * WEIGHT);
            trace.add_buffer(Buffer::persistent(format!("weight {at}"), range))
        })
        .collect();
    let lanes = (0..size.streams as u64)
        .map(|at| {
            let range = ByteRange::from_len((1 << 40) + at * (1 << 30), SLICES * SLICE);
            let range = range.expect("a cache has addresses");
            Lane {
                frontier: Vec::new(),
                held: Vec::new(),
                last: None,
                cache: trace.add_buffer(Buffer::persistent(format!("cache {at}"), range)),
                steps: 0,
                pool: (1 << 41) + at * (1 << 33),
            }
        })
        .collect();
    let mut generator = Generator {
        trace,
        random: StdRng::seed_from_u64(seed),
        lanes,
        weights,
        per_node: size.accesses as f64 / size.nodes as f64,
        joins: 0,
        broken: shape == Shape::Broken,
    };
    while generator.trace.nodes.len() < size.nodes {
        generator.layer();
    }
    let mut trace = generator.trace;
    for (stream, lane) in trace.streams.iter_mut().zip(generator.lanes) {
        stream.end.frontier = lane.frontier;
    }
    if shape == Shape::Foreign {
        trace.nodes.iter_mut().for_each(|node| node.stream = None);
    }
    trace
}

impl Generator {
    fn layer(&mut self) {
        let streams = self.lanes.len();
        self.node(0, &[]);
        for step in 0..LAYER - 1 {
            for lane in 1..streams {
                match step {
                    0 => self.node(lane, &[0]),
                    _ if lane > 1 && self.random.random_range(0_u64..4) == 0 => {
                        self.node(lane, &[lane - 1])
                    }
                    _ => self.node(lane, &[]),
                }
            }
            if step > 0 {
                self.node(0, &[]);
            }
        }
        let sides: Vec<usize> = (1..streams).collect();
        self.node(0, &sides);
        let here = NodeId::at(self.trace.nodes.len());
        for lane in &mut self.lanes {
            for held in lane.held.drain(..) {
                free(&mut self.trace, held.buffer, here);
            }
            lane.last = None;
        }
        // The streams go on behind the join.
        let after = self.lanes[0].frontier.clone();
        for lane in &mut self.lanes[1..] {
            lane.frontier.clone_from(&after);
        }
    }

    /// One node on `lane`, behind the last nodes of the lanes `after`.
    fn node(&mut self, lane: usize, after: &[usize]) {
        let here = NodeId::at(self.trace.nodes.len());
        let mut reads: Vec<BufferId> = self.lanes[lane].last.into_iter().collect();
        let mut preds = self.lanes[lane].frontier.clone();
        for &other in after {
            self.joins += 1;
            if self.broken && lane == 0 && self.joins.is_multiple_of(100) {
                continue;
            }
            preds.extend(&self.lanes[other].frontier);
            if let Some(last) = self.lanes[other].last {
                reads.push(last);
                for held in &mut self.lanes[other].held {
                    if held.buffer == last {
                        held.until = usize::MAX;
                    }
                }
            }
        }
        preds.sort_unstable();
        preds.dedup();
        let name = format!("kernel_{}", self.random.random_range(0_u64..4096));
        let stream = StreamId::at(lane);
        let node = self
            .trace
            .add_node(Node::new(NodeKind::kernel(), name).on(stream));
        for &pred in &preds {
            self.trace.add_edge(Edge::full(pred, node));
        }
        let own = self.scratch(lane, here, preds);
        for &read in &reads {
            self.access(node, read, AccessMode::Read);
        }
        self.access(node, own, AccessMode::Write);
        if self.lanes[lane].steps.is_multiple_of(8) {
            let slice = self.random.random_range(0_u64..SLICES) * SLICE;
            let bytes = ByteRange::new(slice, slice + SLICE);
            let cache = self.lanes[lane].cache;
            self.trace
                .add_access(Access::new(node, cache, bytes, AccessMode::ReadWrite));
        }
        while (self.trace.accesses.len() as f64) < self.per_node * (here.index() + 1) as f64 {
            let held = &self.lanes[lane].held;
            let pick = self.random.random_range(0_u64..held.len() as u64 * 2) as usize;
            let buffer = match held.get(pick) {
                Some(held) if held.buffer != own => held.buffer,
                _ => {
                    self.weights
                        [self.random.random_range(0_u64..self.weights.len() as u64) as usize]
                }
            };
            self.access(node, buffer, AccessMode::Read);
        }
        let lane = &mut self.lanes[lane];
        lane.frontier = vec![node];
        lane.last = Some(own);
        lane.steps += 1;
    }

    fn scratch(&mut self, at: usize, here: NodeId, frontier: Vec<NodeId>) -> BufferId {
        let size = 256_u64 << self.random.random_range(0_u64..12);
        let size = size + self.random.random_range(0_u64..2) * size / 2;
        let life = 2 + self.random.random_range(0_u64..5) as usize;
        let lane = &mut self.lanes[at];
        let trace = &mut self.trace;
        let steps = lane.steps;
        lane.held.retain(|held| {
            let keep = held.until > steps || lane.last == Some(held.buffer);
            if !keep {
                free(trace, held.buffer, here);
            }
            keep
        });
        let range = lane.gap(size);
        let buffer = trace.add_buffer(Buffer {
            name: "scratch".into(),
            kind: BufferKind::Scratch {
                stream: StreamId::at(at),
                alloc: AllocPoint {
                    frontier,
                    before: here,
                },
                freed_before: None,
            },
            range,
            carried: false,
        });
        let place = lane
            .held
            .partition_point(|held| held.range.start < range.start);
        let until = steps + life;
        lane.held.insert(
            place,
            Held {
                buffer,
                range,
                until,
            },
        );
        buffer
    }

    fn access(&mut self, node: NodeId, buffer: BufferId, mode: AccessMode) {
        let len = self.trace.buffer(buffer).range.len();
        self.trace
            .add_access(Access::new(node, buffer, ByteRange::new(0, len), mode));
    }
}

fn free(trace: &mut Trace, buffer: BufferId, here: NodeId) {
    if let BufferKind::Scratch { freed_before, .. } = &mut trace.buffers[buffer.index()].kind {
        *freed_before = Some(here);
    }
}
