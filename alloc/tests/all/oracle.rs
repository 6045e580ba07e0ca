//! Invariants 2 and 4 against an oracle that knows no clocks: it keeps the edges
//! a driver would have made, closes them by brute force, and looks at every pair
//! of blocks.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use streamweir_alloc::{Block, Clock, Policy, Pools};
use streamweir_trace::StreamId;

use crate::pools::pools;

#[derive(Clone, Debug)]
enum Step {
    /// Fork, or join: the second stream waits for the first.
    Wait(usize, usize),
    Record(usize, Vec<usize>),
    Alloc(usize, u64),
    Free(usize),
    /// An event recorded on a stream.
    Event(usize),
    /// A stream waits for an event recorded before.
    WaitEvent(usize, usize),
}

fn step(streams: usize) -> impl Strategy<Value = Step> {
    let stream = 0..streams;
    let sizes = prop_oneof![
        Just(0u64),
        Just(256),
        Just(512),
        Just(700),
        Just(4096),
        1..9000u64
    ];
    prop_oneof![
        3 => (stream.clone(), stream.clone()).prop_map(|(a, b)| Step::Wait(a, b)),
        6 => (stream.clone(), prop::collection::vec(0..64usize, 0..3))
            .prop_map(|(s, touched)| Step::Record(s, touched)),
        5 => (stream.clone(), sizes).prop_map(|(s, bytes)| Step::Alloc(s, bytes)),
        4 => (0..64usize).prop_map(Step::Free),
        1 => stream.clone().prop_map(Step::Event),
        1 => (0..8usize, stream).prop_map(|(e, s)| Step::WaitEvent(e, s)),
    ]
}

/// The graph as a driver keeps it: what the next node of each stream would
/// depend on, and for each node what it does depend on.
struct Graph {
    leaves: Vec<Vec<usize>>,
    parents: Vec<Vec<usize>>,
}

impl Graph {
    fn wait(&mut self, stream: usize, leaves: &[usize]) {
        for &leaf in leaves {
            if !self.leaves[stream].contains(&leaf) {
                self.leaves[stream].push(leaf);
            }
        }
    }

    fn record(&mut self, stream: usize) -> usize {
        let node = self.parents.len();
        self.parents
            .push(std::mem::replace(&mut self.leaves[stream], vec![node]));
        node
    }

    /// Everything at or before these nodes, by a walk.
    fn past(&self, from: &[usize]) -> Vec<bool> {
        let mut past = vec![false; self.parents.len()];
        let mut todo = from.to_vec();
        while let Some(node) = todo.pop() {
            if !std::mem::replace(&mut past[node], true) {
                todo.extend(&self.parents[node]);
            }
        }
        past
    }
}

struct Buffer {
    block: Block,
    stream: usize,
    alloc_point: Vec<usize>,
    accesses: Vec<usize>,
    held: bool,
}

/// What became of a capture.
#[derive(Default)]
struct Outcome {
    /// Pairs of blocks that share bytes without being in order.
    broken: usize,
    /// Pairs of blocks that share bytes.
    shared: usize,
    /// Pairs of blocks of different streams that do.
    across: usize,
    /// Pairs of blocks that share bytes while both are held.
    together: usize,
    /// Times that `visible` said other than the graph.
    visibility: usize,
}

/// Whether the pools are told which blocks a node accesses.
#[derive(Clone, Copy, PartialEq)]
enum Users {
    Known,
    Unknown,
}

fn play(policy: Policy, users: Users, streams: usize, steps: &[Step]) -> Outcome {
    let pools: Pools = pools(policy);
    let ids: Vec<StreamId> = (0..streams)
        .map(|i| pools.add_stream(format!("s{i}"), format!("t{i}")).unwrap())
        .collect();
    let mut graph = Graph {
        leaves: vec![Vec::new(); streams],
        parents: Vec::new(),
    };
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut events: Vec<(Clock, Vec<usize>)> = Vec::new();
    let mut outcome = Outcome::default();

    for step in steps {
        match step {
            Step::Wait(on, waiting) => {
                let (on, waiting) = (on % streams, waiting % streams);
                // Both are the same to the clocks; use both.
                if on < waiting {
                    pools.fork(ids[on], ids[waiting]).unwrap();
                } else {
                    pools.join(ids[waiting], ids[on]).unwrap();
                }
                let leaves = graph.leaves[on].clone();
                graph.wait(waiting, &leaves);
            }
            Step::Event(stream) => {
                let stream = stream % streams;
                let clock = pools.snapshot(ids[stream]).unwrap();
                events.push((clock, graph.leaves[stream].clone()));
            }
            Step::WaitEvent(event, stream) => {
                let stream = stream % streams;
                if !events.is_empty() {
                    let (clock, leaves) = events[event % events.len()].clone();
                    pools.wait(ids[stream], &clock).unwrap();
                    graph.wait(stream, &leaves);
                }
            }
            Step::Alloc(stream, bytes) => {
                let stream = stream % streams;
                let block = pools.alloc(ids[stream], *bytes, "x").unwrap();
                let shares = |b: &&Buffer| b.held && b.block.range.overlaps(&block.range);
                outcome.together += buffers.iter().filter(shares).count();
                buffers.push(Buffer {
                    block,
                    stream,
                    alloc_point: graph.leaves[stream].clone(),
                    accesses: Vec::new(),
                    held: true,
                });
            }
            Step::Free(at) => {
                let held = buffers.iter().filter(|b| b.held).count();
                if held > 0 {
                    let mut held_ones = buffers.iter_mut().filter(|b| b.held);
                    let buffer = held_ones.nth(at % held).unwrap();
                    match users {
                        Users::Known => pools.free(buffer.block.id).unwrap(),
                        Users::Unknown => pools.free_unknown(buffer.block.id).unwrap(),
                    }
                    buffer.held = false;
                }
            }
            Step::Record(stream, touched) => {
                let stream = stream % streams;
                let past = graph.past(&graph.leaves[stream]);
                let mut visible = Vec::new();
                for (i, buffer) in buffers.iter().enumerate() {
                    let seen = buffer.held && buffer.alloc_point.iter().all(|&node| past[node]);
                    outcome.visibility +=
                        usize::from(seen != pools.visible(buffer.block.id, ids[stream]));
                    if seen {
                        visible.push(i);
                    }
                }
                let mut chosen: Vec<usize> = Vec::new();
                if !visible.is_empty() {
                    chosen.extend(touched.iter().map(|t| visible[t % visible.len()]));
                }
                let blocks: Vec<_> = chosen.iter().map(|&i| buffers[i].block.id).collect();
                let told = if users == Users::Known {
                    &blocks[..]
                } else {
                    &[]
                };
                pools.record(ids[stream], told).unwrap();
                let node = graph.record(stream);
                for i in chosen {
                    buffers[i].accesses.push(node);
                }
            }
        }
    }

    let closure: Vec<Vec<bool>> = (0..graph.parents.len()).map(|n| graph.past(&[n])).collect();
    let before = |a: &Buffer, b: &Buffer| {
        a.accesses
            .iter()
            .all(|&x| b.accesses.iter().all(|&y| x != y && closure[y][x]))
    };
    for (i, a) in buffers.iter().enumerate() {
        for b in &buffers[i + 1..] {
            if a.block.range.overlaps(&b.block.range) {
                outcome.shared += 1;
                outcome.across += usize::from(a.stream != b.stream);
                outcome.broken += usize::from(!before(a, b) && !before(b, a));
            }
        }
    }
    outcome
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn shared_bytes_are_in_order(streams in 2..=6usize, steps in prop::collection::vec(step(6), 1..160)) {
        check(streams, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..Default::default()
    })]

    /// More streams than clocks keep in line, than gaps know bounds for, and than chunks
    /// have bits for.
    #[test]
    fn shared_bytes_are_in_order_over_many_streams(
        streams in prop_oneof![9..=12usize, 62..=70usize],
        steps in prop::collection::vec(step(70), 150..400),
    ) {
        check(streams, &steps)?;
    }
}

/// All that the safe policies promise, whether or not users are known.
fn check(streams: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    for users in [Users::Known, Users::Unknown] {
        let isolated = play(Policy::ISOLATED, users, streams, steps);
        prop_assert_eq!(isolated.broken, 0);
        prop_assert_eq!(isolated.together, 0);
        prop_assert_eq!(isolated.across, 0);
        prop_assert_eq!(isolated.visibility, 0);
        let ordered = play(Policy::ORDERED, users, streams, steps);
        prop_assert_eq!(ordered.broken, 0);
        prop_assert_eq!(ordered.together, 0);
        prop_assert_eq!(ordered.visibility, 0);
    }
    Ok(())
}

/// The oracle can fail, and the safe policies are not safe by never reusing
/// anything: the same steps share bytes under each, and break under host order.
#[test]
fn host_order_breaks_what_the_others_keep() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(step(6), 120..160);
    let mut sums = [0; 6];
    for _ in 0..20 {
        let steps = strategy.new_tree(&mut runner).unwrap().current();
        sums[0] += play(Policy::HOST_ORDER, Users::Known, 3, &steps).broken;
        sums[1] += play(Policy::ORDERED, Users::Known, 3, &steps).shared;
        sums[2] += play(Policy::ORDERED, Users::Known, 3, &steps).across;
        sums[3] += play(Policy::ISOLATED, Users::Known, 3, &steps).shared;
        sums[4] += play(Policy::ORDERED, Users::Unknown, 3, &steps).across;
        sums[5] += play(Policy::ISOLATED, Users::Unknown, 3, &steps).shared;
    }
    assert!(sums.iter().all(|&sum| sum > 20), "{sums:?}");
    // Not to know the users costs reuse; to know them must not cost any.
    assert!(sums[4] <= sums[2] && sums[5] <= sums[3], "{sums:?}");
}
