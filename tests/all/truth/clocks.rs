//! Two answers to one question: the allocator's chain clocks while a capture is
//! recorded, and the verifier's reachability over the trace that comes out.
//! Neither knows the other; the closure of the edges says who is right.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use streamweir::alloc::{
    Arena, ArenaConfig, Backing, BackingError, Clock, Policy, Pools, Position,
};
use streamweir::trace::{
    Access, AccessMode, Buffer, ByteRange, Edge, Node, NodeId, NodeKind, Stream, StreamId, Trace,
};
use streamweir::verify::{Options, Rule, verify_with};

use super::order::Order;
use super::random;

const STREAMS: usize = 10;

#[derive(Clone, Debug)]
enum Step {
    Record(usize),
    /// The second stream continues after the first.
    Wait(usize, usize),
    Event(usize),
    WaitEvent(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 0..STREAMS;
    prop_oneof![
        5 => stream.clone().prop_map(Step::Record),
        2 => (stream.clone(), stream.clone()).prop_map(|(from, into)| Step::Wait(from, into)),
        1 => stream.clone().prop_map(Step::Event),
        1 => (0..6_usize, stream).prop_map(|(event, into)| Step::WaitEvent(event, into)),
    ]
}

/// Nothing is taken from it here.
struct NoMemory;

impl Backing for NoMemory {
    fn reserve(&self, _: u64) -> Result<ByteRange, BackingError> {
        Err(BackingError::failed("no buffer is asked for"))
    }

    fn release(&self, _: ByteRange) {}
}

/// What a driver would make of the steps, and for each node its place and the
/// clock of its stream just before.
fn record(steps: &[Step]) -> (Trace, Vec<(Position, Clock)>) {
    let arena = Arena::new("clocks", Arc::new(NoMemory), ArenaConfig::default());
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let mut trace = Trace::new("clocks");
    for stream in 0..STREAMS {
        let name = stream.to_string();
        pools.add_stream(&*name, &*name).unwrap();
        let mut stream = match stream {
            0 => Stream::origin(name),
            _ => Stream::forked(name, StreamId(0)),
        };
        stream.end.joined = true;
        trace.add_stream(stream);
    }
    let all = trace.add_buffer(Buffer::persistent("all", ByteRange::new(0, 8)));
    let mut frontiers = vec![BTreeSet::<NodeId>::new(); STREAMS];
    let mut events = Vec::new();
    let mut nodes = Vec::new();
    for step in steps {
        match *step {
            Step::Record(stream) => {
                let id = StreamId::at(stream);
                let clock = pools.snapshot(id).unwrap();
                let node = trace.add_node(Node::new(NodeKind::kernel(), "k").on(id));
                for from in std::mem::replace(&mut frontiers[stream], BTreeSet::from([node])) {
                    trace.add_edge(Edge::full(from, node));
                }
                trace.add_access(Access::new(
                    node,
                    all,
                    ByteRange::new(0, 8),
                    AccessMode::Write,
                ));
                nodes.push((pools.record(id, &[]).unwrap(), clock));
            }
            Step::Wait(from, into) => {
                let more = frontiers[from].clone();
                frontiers[into].extend(more);
                pools.join(StreamId::at(into), StreamId::at(from)).unwrap();
            }
            Step::Event(stream) => {
                let clock = pools.snapshot(StreamId::at(stream)).unwrap();
                events.push((frontiers[stream].clone(), clock));
            }
            Step::WaitEvent(event, into) => {
                if let Some((more, clock)) = events.get(event) {
                    frontiers[into].extend(more);
                    pools.wait(StreamId::at(into), clock).unwrap();
                }
            }
        }
    }
    pools.abort();
    (trace, nodes)
}

#[test]
fn clocks_and_verifier_agree_with_the_closure() {
    let ordered = std::cell::Cell::new((0_u32, 0_u32));
    let ran = random::runner(300).run(&prop::collection::vec(step(), 1..60), |steps| {
        let (trace, nodes) = record(&steps);
        let order = Order::new(&trace, None);
        // Every node writes the same bytes, so each pair without an order is a
        // conflict, and no other pair is.
        let options = Options {
            limit: usize::MAX,
            ..Options::default()
        };
        let races: BTreeSet<_> = verify_with(&trace, &options)
            .unwrap()
            .hazards
            .iter()
            .filter(|hazard| hazard.rule == Rule::UnorderedConflict)
            .flat_map(|hazard| {
                // What one join mends is one hazard with its members.
                let members = hazard
                    .members
                    .iter()
                    .map(|pair| (&pair.first, &pair.second));
                let own = hazard.second.as_ref().map(|second| (&hazard.first, second));
                own.into_iter().chain(members)
            })
            .map(|(first, second)| (first.node.unwrap(), second.node.unwrap()))
            .collect();
        for (then, (_, clock)) in nodes.iter().enumerate() {
            for (first, (position, _)) in nodes[..then].iter().enumerate() {
                let pair = (NodeId::at(first), NodeId::at(then));
                let before = order.before(pair.0, pair.1);
                prop_assert_eq!(clock.reaches(*position), before, "clocks: {:?}", pair);
                prop_assert_eq!(races.contains(&pair), !before, "verifier: {:?}", pair);
                let (yes, no) = ordered.get();
                ordered.set((yes + u32::from(before), no + u32::from(!before)));
            }
        }
        Ok(())
    });
    ran.unwrap();
    let (yes, no) = ordered.get();
    assert!(yes > 5000 && no > 5000, "{yes} ordered pairs, {no} others");
}
