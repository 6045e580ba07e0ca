//! Random small traces against the oracle: the same hazards, as sets.

use proptest::prelude::*;
use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Edge, EdgeKind, Node,
    NodeId, NodeKind, PdlWait, Phase, PossibleAccess, Stream, StreamId, Trace,
};
use streamweir_verify::{Hazard, Options, Rule, Verdict, certificate, verify_with};

use crate::oracle::{Found, oracle};

const BYTES: u64 = 12;

fn mode() -> impl Strategy<Value = AccessMode> {
    use AccessMode::*;
    prop_oneof![3 => Just(Read), 3 => Just(Write), 1 => Just(ReadWrite), 1 => Just(Atomic)]
}

/// Buffers of a few bytes at addresses that mostly collide.
fn buffer(nodes: usize, streams: usize) -> impl Strategy<Value = Buffer> {
    let node = 0..nodes;
    (
        (0..2 * BYTES, 0..=BYTES / 2),
        0..streams,
        proptest::collection::vec(node.clone(), 0..2),
        node.clone(),
        proptest::option::weighted(0.3, node),
        prop_oneof![6 => Just(0_u8), 1 => Just(1), 1 => Just(2), 1 => Just(3)],
    )
        .prop_map(|((start, len), stream, frontier, before, freed, kind)| {
            let range = ByteRange::new(start, start + len);
            if kind == 1 {
                return Buffer::persistent("p", range);
            }
            if kind == 3 {
                let alloc = NodeId::at(before);
                return Buffer {
                    name: "g".into(),
                    kind: BufferKind::Graph { alloc, free: None },
                    range,
                    carried: false,
                };
            }
            Buffer {
                name: "s".into(),
                kind: BufferKind::Scratch {
                    stream: StreamId::at(stream),
                    alloc: AllocPoint {
                        before: if frontier.is_empty() {
                            NodeId(0)
                        } else {
                            NodeId::at(before)
                        },
                        frontier: frontier.into_iter().map(NodeId::at).collect(),
                    },
                    freed_before: freed.map(NodeId::at),
                },
                range,
                carried: kind == 2,
            }
        })
}

prop_compose! {
    /// Up to 12 nodes on up to 4 streams. Most consecutive nodes of a stream
    /// are ordered, some are not; further edges point forward.
    fn trace()(nodes in 1..=12_usize, streams in 1..=4_usize)(
        on in proptest::collection::vec(0..streams, nodes),
        waits in proptest::collection::vec(any::<bool>(), nodes),
        chained in proptest::collection::vec(proptest::bool::weighted(0.9), nodes),
        programmatic in proptest::collection::vec(proptest::bool::weighted(0.15), nodes * 2),
        joins in proptest::collection::vec((0..nodes, 0..nodes), 0..=nodes),
        buffers in proptest::collection::vec(buffer(nodes, streams), 1..=4),
        accesses in proptest::collection::vec(
            (0..nodes, any::<prop::sample::Index>(), any::<(u64, u64)>(), mode(), proptest::bool::weighted(0.2)),
            0..=16,
        ),
        words in proptest::collection::vec(
            (0..nodes, any::<prop::sample::Index>(), any::<(u64, u64)>()),
            0..=3,
        ),
    ) -> Trace {
        let mut trace = Trace::new("random");
        trace.add_stream(Stream::origin("0"));
        for stream in 1..on.iter().max().map_or(1, |most| most + 1) {
            let mut stream = Stream::forked(stream.to_string(), StreamId(0));
            stream.end.joined = true;
            trace.add_stream(stream);
        }
        let kind = |at: usize| if programmatic[at] { EdgeKind::Programmatic } else { EdgeKind::Full };
        for (at, &stream) in on.iter().enumerate() {
            let mut node = Node::new(NodeKind::kernel(), "k").on(StreamId::at(stream));
            node.pdl = if waits[at] { PdlWait::OnAllPaths } else { PdlWait::None };
            let earlier = on[..at].iter().rposition(|&other| other == stream);
            let node = trace.add_node(node);
            if let Some(earlier) = earlier.filter(|_| chained[at]) {
                trace.add_edge(Edge { kind: kind(at), ..Edge::full(NodeId::at(earlier), node) });
            }
        }
        for (at, (x, y)) in joins.into_iter().enumerate() {
            if x != y {
                let edge = Edge::full(NodeId::at(x.min(y)), NodeId::at(x.max(y)));
                trace.add_edge(Edge { kind: kind(on.len() + at.min(on.len() - 1)), ..edge });
            }
        }
        // Streams that the trace lacks hold no node; let their pools be main's.
        let streams = trace.streams.len();
        for mut buffer in buffers {
            if let BufferKind::Scratch { stream, .. } = &mut buffer.kind {
                *stream = StreamId::at(stream.index() % streams);
            }
            trace.add_buffer(buffer);
        }
        for (node, buffer, (x, y), mode, early) in accesses {
            let buffer = BufferId::at(buffer.index(trace.buffers.len()));
            let len = trace.buffer(buffer).range.len();
            let (x, y) = (x % (len + 1), y % (len + 1));
            let bytes = ByteRange::new(x.min(y), x.max(y));
            let mut access = Access::new(NodeId::at(node), buffer, bytes, mode);
            access.phase = if early { Phase::BeforeWait } else { Phase::AfterWait };
            trace.add_access(access);
        }
        // Two traces in three have none.
        let words = words.into_iter().filter(|_| on.len() % 3 == 0);
        for (node, buffer, (x, y)) in words {
            let buffer = BufferId::at(buffer.index(trace.buffers.len()));
            let len = trace.buffer(buffer).range.len();
            let (x, y) = (x % (len + 1), y % (len + 1));
            trace.possible.push(PossibleAccess {
                node: NodeId::at(node),
                buffer,
                bytes: ByteRange::new(x.min(y), x.max(y)),
                param: 0,
                offset: 0,
            });
        }
        trace
    }
}

/// The rules that the oracle knows.
fn known(rule: Rule) -> bool {
    use Rule::{OwnerGone, ReadBeforeWrite, SharedBytes, UnorderedConflict};
    matches!(
        rule,
        OwnerGone | ReadBeforeWrite | SharedBytes | UnorderedConflict
    )
}

/// The hazards, and those of them that are proven.
fn found(trace: &Trace) -> (Found, Found) {
    let with = |limit| {
        let options = Options {
            limit,
            ..Options::default()
        };
        verify_with(trace, &options).unwrap()
    };
    let report = with(usize::MAX);
    assert_eq!(report.hazards.len() as u64, report.hazards_total);
    let half = with(report.hazards.len() / 2);
    assert_eq!(half.hazards, report.hazards[..report.hazards.len() / 2]);
    assert_eq!(half.hazards_total, report.hazards_total);
    assert_eq!(half.verdict, report.verdict);
    let any_proven = report.hazards.iter().any(|hazard| hazard.proven);
    let verdict = match report.hazards.is_empty() {
        true => Verdict::Safe,
        false if any_proven => Verdict::Hazard,
        false => Verdict::Possible,
    };
    assert_eq!(report.verdict, verdict);
    if let Some(certificate) = &report.certificate {
        certificate::check(trace, certificate).unwrap();
    }
    let hazards = || report.hazards.iter().filter(|hazard| known(hazard.rule));
    let key = |hazard: &Hazard| {
        // R13 may name the write that comes too late; what is wrong is the
        // read.
        let second = match hazard.rule {
            Rule::ReadBeforeWrite => None,
            _ => hazard.second.as_ref().and_then(|site| site.node),
        };
        (hazard.rule, hazard.first.node, second)
    };
    let proven = hazards().filter(|hazard| hazard.proven).map(key).collect();
    (hazards().map(key).collect(), proven)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_hazards_as_the_definition(trace in trace()) {
        prop_assert_eq!(found(&trace), oracle(&trace));
    }

    /// The certificate that a hazardous trace would have, were its verdict
    /// safe: everything in it is true, except that it should not exist.
    #[test]
    fn no_certificate_for_a_hazard(trace in trace()) {
        let mut bare = trace.clone();
        bare.accesses.clear();
        bare.possible.clear();
        let options = Options { limit: usize::MAX, ..Options::default() };
        let Some(mut forged) = verify_with(&bare, &options).unwrap().certificate else {
            // Graph memory may be at odds with rules that need no access.
            return Ok(());
        };
        forged.possible = trace.possible.len() as u64;
        forged.digest = certificate::digest(&trace);
        forged.stats.accesses = trace.accesses.len() as u64;
        let accepted = certificate::check(&trace, &forged).is_ok();
        let safe = verify_with(&trace, &options).unwrap().verdict == Verdict::Safe;
        prop_assert_eq!(accepted, safe);
        prop_assert!(!safe || oracle(&trace).0.is_empty());
    }
}
