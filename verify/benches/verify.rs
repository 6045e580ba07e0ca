//! What a verdict costs, on graphs of the size of a decode step and above.
//!
//!     cargo bench -p streamweir-verify --bench verify
//!
//! # Input
//! [`generate`] makes a trace in the shape of a captured decode step, from a
//! size and a seed, and nothing else:
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
//!
//! # What is measured
//! `verify_with` without a certificate, on one core, as the least of many runs,
//! because the machine that the tables come from was not idle; the certificate
//! and its checker apart from it. Memory is by how much the resident set grew at
//! its highest, in the first run of the process on that input (Linux). Up to
//! 20,000 nodes also the full closure as bit sets, built and nothing more, which
//! is what chain clocks are there to avoid.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Edge, Node, NodeId,
    NodeKind, Stream, StreamId, Trace,
};
use streamweir_verify::{Options, Verdict, certificate, verify_with};

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    streams: usize,
    accesses: usize,
    /// How often each thing is run for the table.
    runs: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Recorded,
    Foreign,
    Broken,
}

const SIZES: [Size; 3] = [
    Size {
        nodes: 11_000,
        streams: 4,
        accesses: 30_000,
        runs: 200,
    },
    Size {
        nodes: 100_000,
        streams: 8,
        accesses: 400_000,
        runs: 30,
    },
    Size {
        nodes: 1_000_000,
        streams: 8,
        accesses: 4_000_000,
        runs: 7,
    },
];

const SEED: u64 = 0x5eed;

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
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
    random: Random,
    lanes: Vec<Lane>,
    weights: Vec<BufferId>,
    per_node: f64,
    joins: usize,
    broken: bool,
}

fn generate(size: Size, shape: Shape, seed: u64) -> Trace {
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
        random: Random(seed),
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
                    _ if lane > 1 && self.random.below(4) == 0 => self.node(lane, &[lane - 1]),
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
        let name = format!("kernel_{}", self.random.below(4096));
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
            let slice = self.random.below(SLICES) * SLICE;
            let bytes = ByteRange::new(slice, slice + SLICE);
            let cache = self.lanes[lane].cache;
            self.trace
                .add_access(Access::new(node, cache, bytes, AccessMode::ReadWrite));
        }
        while (self.trace.accesses.len() as f64) < self.per_node * (here.index() + 1) as f64 {
            let held = &self.lanes[lane].held;
            let pick = self.random.below(held.len() as u64 * 2) as usize;
            let buffer = match held.get(pick) {
                Some(held) if held.buffer != own => held.buffer,
                _ => self.weights[self.random.below(self.weights.len() as u64) as usize],
            };
            self.access(node, buffer, AccessMode::Read);
        }
        let lane = &mut self.lanes[lane];
        lane.frontier = vec![node];
        lane.last = Some(own);
        lane.steps += 1;
    }

    fn scratch(&mut self, at: usize, here: NodeId, frontier: Vec<NodeId>) -> BufferId {
        let size = 256_u64 << self.random.below(12);
        let size = size + self.random.below(2) * size / 2;
        let life = 2 + self.random.below(5) as usize;
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

/// For each node the set of those that reach it.
fn closure(trace: &Trace) -> Vec<u64> {
    let words = trace.nodes.len().div_ceil(64);
    let mut reached = vec![0_u64; words * trace.nodes.len()];
    // The generator's edges all point forward, and are grouped by target.
    for edge in &trace.edges {
        let (from, to) = (edge.from.index(), edge.to.index());
        let (before, here) = reached.split_at_mut(to * words);
        let pred = &before[from * words..][..words];
        for (word, pred) in here[..words].iter_mut().zip(pred) {
            *word |= pred;
        }
        here[from / 64] |= 1 << (from % 64);
    }
    reached
}

const BARE: Options = Options {
    limit: 1000,
    certificate: false,
};

fn least(runs: usize, mut run: impl FnMut()) -> Duration {
    let times = (0..runs).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed()
    });
    times.min().unwrap_or_default()
}

/// The resident set now and at its highest since the last call, in bytes.
fn resident() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    };
    let found = (field("VmRSS:")?, field("VmHWM:")?);
    // Makes the highest start anew.
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(found)
}

fn table() {
    println!(
        "| nodes | streams | accesses | shape | verdict | hazards | verify | memory | certificate | checker | closure |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for size in SIZES {
        for shape in [Shape::Recorded, Shape::Foreign, Shape::Broken] {
            row(size, shape);
        }
    }
}

fn row(size: Size, shape: Shape) {
    let trace = generate(size, shape, SEED);
    resident();
    let before = resident();
    let report = verify_with(&trace, &BARE).expect("the generator makes traces of good form");
    let grown = match (before, resident()) {
        (Some((now, _)), Some((_, highest))) => {
            format!(
                "{:.1} MiB",
                (highest.saturating_sub(now)) as f64 / f64::from(1 << 20)
            )
        }
        _ => "not measured".to_owned(),
    };
    let expected = match shape {
        Shape::Broken => Verdict::Hazard,
        _ => Verdict::Safe,
    };
    assert_eq!(report.verdict, expected, "{report}");
    let bare = least(size.runs, || {
        black_box(verify_with(black_box(&trace), &BARE).expect("as before"));
    });
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let (mut certified, mut checked) = ("-".to_owned(), "-".to_owned());
    if report.verdict == Verdict::Safe {
        let options = Options {
            certificate: true,
            ..BARE
        };
        let proof = verify_with(&trace, &options)
            .expect("as before")
            .certificate;
        let proof = proof.expect("a safe verdict has a certificate");
        let time = least(size.runs, || {
            black_box(verify_with(black_box(&trace), &options).expect("as before"));
        });
        certified = format!("+ {}", ms(time.saturating_sub(bare)));
        checked = ms(least(size.runs.div_ceil(4), || {
            certificate::check(black_box(&trace), &proof).expect("the proof holds");
        }));
    }
    let closed = if size.nodes <= 20_000 && shape == Shape::Recorded {
        ms(least(size.runs.div_ceil(20), || {
            black_box(closure(black_box(&trace)));
        }))
    } else {
        "-".to_owned()
    };
    println!(
        "| {} | {} | {} | {shape:?} | {:?} | {} | {} | {grown} | {certified} | {checked} | {closed} |",
        trace.nodes.len(),
        size.streams,
        trace.accesses.len(),
        report.verdict,
        report.hazards_total,
        ms(bare),
    );
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("verify");
    for size in &SIZES[..2] {
        let trace = generate(*size, Shape::Recorded, SEED);
        group.bench_function(BenchmarkId::from_parameter(size.nodes), |bench| {
            bench.iter(|| verify_with(black_box(&trace), &BARE));
        });
    }
    group.finish();
    criterion.final_summary();
    // `cargo test --benches` only asks whether it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        table();
    }
}
