//! Random programs, captured live and planned.
//!
//! A program is safe by construction: a buffer is written when it is taken,
//! handed on by forks and joins alone, and written again only by a stream that
//! nobody shares it with. So both captures must be proved, order the same nodes
//! the same way, and leave the same bits whatever the interleaving; and the
//! planned one must not need more memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use streamweir::driver::MemoryCalls;
use streamweir::driver::sim::SimDriver;
use streamweir::trace::Trace;
use streamweir::{
    Capture, CaptureOptions, Device, Error, ForeignCall, Graph, Part, Persistent, Placement,
    Policy, Scratch, Stream, part, writes,
};

use crate::common::{Kernels, LEN, N, SMALL, bump, plus, sim, sum};

const STREAMS: usize = 4;

/// One step; numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fork(usize, usize),
    Join(usize, usize),
    Plus(usize, usize, usize),
    Sum(usize, usize, usize),
    Copy(usize, usize),
    Bump(usize, usize),
    Library(usize, bool),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..64_usize;
    prop_oneof![
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Step::Fork(a, b)),
        1 => (n.clone(), n.clone()).prop_map(|(a, b)| Step::Join(a, b)),
        4 => (n.clone(), n.clone(), n.clone()).prop_map(|(a, b, c)| Step::Plus(a, b, c)),
        3 => (n.clone(), n.clone(), n.clone()).prop_map(|(a, b, c)| Step::Sum(a, b, c)),
        1 => (n.clone(), n.clone()).prop_map(|(a, b)| Step::Copy(a, b)),
        1 => (n.clone(), n.clone()).prop_map(|(a, b)| Step::Bump(a, b)),
        1 => (n.clone(), any::<bool>()).prop_map(|(a, b)| Step::Library(a, b)),
        4 => n.prop_map(Step::Drop),
    ]
}

/// What a program runs on.
struct Fixture {
    driver: Arc<SimDriver>,
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

struct Run<'a> {
    fixture: &'a Fixture,
    cap: &'a Capture,
    streams: [Option<Stream>; STREAMS],
    /// The buffers that a stream's work may read.
    seen: [BTreeSet<usize>; STREAMS],
    buffers: Vec<Option<Scratch<u32>>>,
}

impl Run<'_> {
    fn all(fixture: &Fixture, cap: &Capture, steps: &[Step]) -> Result<(), Error> {
        let mut run = Run {
            fixture,
            cap,
            streams: [Some(cap.origin()), None, None, None],
            seen: Default::default(),
            buffers: Vec::new(),
        };
        for &step in steps {
            run.step(step)?;
        }
        run.end()
    }

    fn step(&mut self, step: Step) -> Result<(), Error> {
        let active: Vec<usize> = (0..STREAMS)
            .filter(|&s| self.streams[s].is_some())
            .collect();
        let on = |a: usize| active[a % active.len()];
        match step {
            Step::Fork(a, b) => {
                let (parent, child) = (on(a), 1 + b % (STREAMS - 1));
                if let (Some(from), None) = (&self.streams[parent], &self.streams[child]) {
                    let forked = self.cap.fork(from, &format!("side {child}"))?;
                    self.streams[child] = Some(forked);
                    self.pass(parent, child);
                }
            }
            Step::Join(a, b) => self.join(on(a), on(b))?,
            Step::Plus(a, b, c) => {
                let s = on(a);
                let input = self.readable(s, b);
                let out = self.take(s, c)?;
                let plus = &self.fixture.kernels.plus;
                let more = a as u32 + 1;
                match input {
                    Some(input) => self.stream(s).launch(
                        plus,
                        plus {
                            input: self.buffer(input),
                            output: self.buffer(out),
                            more,
                            len: N,
                        },
                    )?,
                    None => self.stream(s).launch(
                        plus,
                        plus {
                            input: &self.fixture.x,
                            output: self.buffer(out),
                            more,
                            len: N,
                        },
                    )?,
                }
            }
            Step::Sum(a, b, c) => {
                let s = on(a);
                if let (Some(left), Some(right)) = (self.readable(s, b), self.readable(s, c)) {
                    let out = self.take(s, b + c)?;
                    self.sum(s, left, right, out)?;
                }
            }
            Step::Copy(a, b) => {
                let s = on(a);
                if let Some(input) = self.readable(s, b) {
                    let out = self.take(s, b)?;
                    self.stream(s).copy(self.buffer(out), self.buffer(input))?;
                }
            }
            Step::Bump(a, b) => {
                let s = on(a);
                // A stream that was joined may be forked again and read on.
                let alone = self.readable(s, b).filter(|&input| {
                    (0..STREAMS).all(|t| t == s || !self.seen[t].contains(&input))
                });
                if let Some(input) = alone {
                    let bump = &self.fixture.kernels.bump;
                    self.stream(s).launch(
                        bump,
                        bump {
                            data: self.buffer(input),
                            len: N,
                        },
                    )?;
                }
            }
            Step::Library(a, stateless) => {
                let s = on(a);
                let out = self.take(s, a)?;
                let output = self.buffer(out);
                let touches = [writes(&output)];
                let call = ForeignCall::new("library", &touches).workspace(16, 768);
                let call = if stateless { call.stateless() } else { call };
                let driver = self.fixture.driver.clone();
                // SAFETY: the call touches the buffer and its workspace alone.
                unsafe {
                    self.stream(s).foreign_call(call, move |raw, addresses| {
                        let scratch = addresses.workspace.ok_or("no workspace")?;
                        assert!(scratch.is_multiple_of(768));
                        driver.fill_async(raw, scratch, a as u8, 16)?;
                        Ok(driver.copy_async(raw, addresses.touched[0], scratch, 16)?)
                    })?;
                }
            }
            Step::Drop(a) => {
                let held: Vec<usize> = (0..self.buffers.len())
                    .filter(|&b| self.buffers[b].is_some())
                    .collect();
                if !held.is_empty() {
                    let gone = held[a % held.len()];
                    self.buffers[gone] = None;
                    self.seen.iter_mut().for_each(|seen| {
                        seen.remove(&gone);
                    });
                }
            }
        }
        Ok(())
    }

    /// Joins all streams, and adds up what the origin sees.
    fn end(&mut self) -> Result<(), Error> {
        for side in 1..STREAMS {
            self.join(0, side)?;
        }
        let seen = self.seen[0].clone();
        let mut total = self.take(0, 0)?;
        let (x, zero) = (&self.fixture.x, self.buffer(total));
        let plus = &self.fixture.kernels.plus;
        self.stream(0).launch(
            plus,
            plus {
                input: x,
                output: zero,
                more: 0,
                len: N,
            },
        )?;
        for other in seen {
            let out = self.take(0, 0)?;
            self.sum(0, total, other, out)?;
            self.buffers[total] = None;
            total = out;
        }
        self.stream(0).copy(&self.fixture.y, self.buffer(total))
    }

    fn join(&mut self, into: usize, from: usize) -> Result<(), Error> {
        if into == from || from == 0 || self.streams[into].is_none() {
            return Ok(());
        }
        if let Some(joined) = self.streams[from].take() {
            self.cap.join(self.stream(into), joined)?;
            self.pass(from, into);
        }
        Ok(())
    }

    fn pass(&mut self, from: usize, to: usize) {
        let seen = self.seen[from].clone();
        self.seen[to].extend(seen);
    }

    /// A new buffer of a size that `size` decides.
    fn take(&mut self, s: usize, size: usize) -> Result<usize, Error> {
        let len = LEN + size % 7 * 96;
        let name = format!("b{}", self.buffers.len());
        let taken = self.stream(s).scratch(name, len)?;
        self.buffers.push(Some(taken));
        let index = self.buffers.len() - 1;
        self.seen[s].insert(index);
        Ok(index)
    }

    fn sum(&self, s: usize, left: usize, right: usize, out: usize) -> Result<(), Error> {
        let (left, right, out) = (self.buffer(left), self.buffer(right), self.buffer(out));
        let sum = &self.fixture.kernels.sum;
        self.stream(s).launch(
            sum,
            sum {
                left,
                right,
                output: out,
                len: N,
            },
        )
    }

    fn readable(&self, s: usize, a: usize) -> Option<usize> {
        let seen = &self.seen[s];
        seen.iter().nth(a % seen.len().max(1)).copied()
    }

    fn stream(&self, s: usize) -> &Stream {
        self.streams[s].as_ref().expect("the stream is active")
    }

    /// The part of a buffer that kernels touch; the rest of it only takes room.
    fn buffer(&self, b: usize) -> Part<&Scratch<u32>> {
        let whole = self.buffers[b].as_ref().expect("the buffer is held");
        part(whole, 0..LEN).expect("every buffer is as long")
    }
}

/// For each node, the nodes that happen before it.
fn before(trace: &Trace) -> Vec<BTreeSet<u32>> {
    let mut before = vec![BTreeSet::new(); trace.nodes.len()];
    let mut edges = trace.edges.clone();
    // Record order is a topological order of both captures.
    edges.sort_by_key(|edge| (edge.to, edge.from));
    for edge in edges {
        assert!(edge.from < edge.to);
        let reached = before[edge.from.index()].clone();
        let later: &mut BTreeSet<u32> = &mut before[edge.to.index()];
        later.extend(reached);
        later.insert(edge.from.0);
    }
    before
}

struct Captured {
    graph: Graph,
    reserved: u64,
    /// Of the device, for the arena.
    device_bytes: u64,
}

fn captured(fixture: &Fixture, steps: &[Step], placement: Placement, policy: Policy) -> Captured {
    let group = fixture.device.replay_group("random", SMALL);
    let options = CaptureOptions::new("random")
        .group(&group)
        .policy(policy)
        .placement(placement);
    let record = |cap: &Capture| Run::all(fixture, cap, steps);
    let (graph, ()) = fixture.device.capture(options, record).unwrap();
    assert!(graph.certificate().is_some(), "{}", graph.report());
    Captured {
        reserved: graph.pools().reserved,
        device_bytes: group.reserved(),
        graph,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn planned_is_live_with_less_memory(
        steps in prop::collection::vec(step(), 1..60),
        ordered in any::<bool>(),
    ) {
        let (device, driver) = sim(0);
        let fixture = Fixture {
            driver: driver.clone(),
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent_from("x", &[1, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            device,
        };
        let policy = if ordered { Policy::ORDERED } else { Policy::ISOLATED };
        let live = captured(&fixture, &steps, Placement::Live, policy);
        let planned = captured(&fixture, &steps, Placement::Planned, policy);

        let [theirs, ours] = [&live, &planned].map(|c| before(c.graph.trace()));
        prop_assert_eq!(theirs, ours, "happens-before is the recorded one");
        prop_assert!(planned.reserved <= live.reserved);
        prop_assert!(planned.device_bytes <= live.device_bytes);

        let stream = fixture.device.stream("replay").unwrap();
        let mut bits = Vec::new();
        for seed in 0..4 {
            for captured in [&live, &planned] {
                driver.reseed(seed);
                fixture.y.upload(&[0; LEN]).unwrap();
                captured.graph.replay(&stream).unwrap();
                bits.push(fixture.y.download().unwrap());
            }
        }
        prop_assert!(bits.iter().all(|b| *b == bits[0]), "{:?}", bits);
        fixture.device.eager("eager", |cap| Run::all(&fixture, cap, &steps)).unwrap();
        prop_assert_eq!(&fixture.y.download().unwrap(), &bits[0]);
    }
}
