//! Random small traces against the oracle: the same hazards, as sets.

use proptest::prelude::*;
use streamweir_trace::{
    Access, AccessMode, AllocNode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, CopyNode,
    Edge, EdgeKind, FillNode, FreeNode, Node, NodeId, NodeKind, Param, PdlWait, Phase,
    PointerParam, PossibleAccess, Promise, Promised, Stream, StreamId, Trace, Unfreed,
};
use streamweir_verify::{
    Hazard, Options, Report, Rule, Verdict, certificate, dot, html, verify, verify_with,
};

use crate::oracle::{Found, oracle};

const BYTES: u64 = 12;

/// The first address. An operand at null is not known.
const BASE: u64 = 4;

fn mode() -> impl Strategy<Value = AccessMode> {
    use AccessMode::*;
    prop_oneof![3 => Just(Read), 3 => Just(Write), 1 => Just(ReadWrite), 1 => Just(Atomic)]
}

/// Buffers of a few bytes at addresses that mostly collide.
fn buffer(nodes: usize, streams: usize) -> impl Strategy<Value = Buffer> {
    let node = 0..nodes;
    (
        (BASE..BASE + 2 * BYTES, 0..=BYTES / 2),
        0..streams,
        proptest::collection::vec(node.clone(), 0..2),
        node.clone(),
        proptest::option::weighted(0.3, node),
        prop_oneof![6 => Just(0_u8), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(4), 1 => Just(5)],
    )
        .prop_map(|((start, len), stream, frontier, before, freed, kind)| {
            let range = ByteRange::new(start, start + len);
            if kind == 1 || kind == 4 {
                // Kept whatever is said of it.
                return Buffer {
                    carried: kind == 1,
                    ..Buffer::persistent("p", range)
                };
            }
            if kind == 5 {
                return Buffer {
                    name: "w".into(),
                    kind: BufferKind::Workspace {
                        stream: StreamId::at(stream),
                    },
                    range,
                    carried: false,
                };
            }
            if kind == 3 {
                let alloc = NodeId::at(before);
                return Buffer {
                    name: "g".into(),
                    kind: BufferKind::Graph { alloc, free: None },
                    range,
                    carried: frontier.is_empty(),
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
        named in proptest::collection::vec((any::<bool>(), proptest::option::of(0..nodes)), 4),
        accesses in proptest::collection::vec(
            (0..nodes, any::<prop::sample::Index>(), any::<(u64, u64)>(), mode(), proptest::bool::weighted(0.2)),
            0..=16,
        ),
        words in proptest::collection::vec(
            (0..nodes, any::<prop::sample::Index>(), any::<(u64, u64)>()),
            0..=3,
        ),
        shown in proptest::collection::vec((0..nodes, 0..7_u8, 1..BASE + 3 * BYTES, 1..BASE + 3 * BYTES, 1..5_u64), 0..=4),
        shows in proptest::bool::weighted(0.4),
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
        for (mut buffer, (says, free)) in buffers.into_iter().zip(named) {
            let range = buffer.range;
            match &mut buffer.kind {
                BufferKind::Scratch { stream, .. } | BufferKind::Workspace { stream } => {
                    *stream = StreamId::at(stream.index() % streams);
                }
                BufferKind::Graph { alloc, free: by } => {
                    let node = &mut trace.nodes[alloc.index()].kind;
                    let made = match says && matches!(node, NodeKind::Kernel(_)) {
                        true => AllocNode { at: range.start, bytes: range.len() },
                        // Two buffers of one allocation lie where they will.
                        false => AllocNode::default(),
                    };
                    if matches!(node, NodeKind::MemFree(_)) {
                        continue;
                    }
                    let fresh = matches!(node, NodeKind::Kernel(_));
                    *node = NodeKind::MemAlloc(made);
                    // Not one that a buffer of this or another allocation names.
                    let free = free.map(NodeId::at).filter(|_| fresh);
                    *by = free.filter(|free| matches!(trace.node(*free).kind, NodeKind::Kernel(_)));
                    if let Some(free) = *by {
                        trace.nodes[free.index()].kind = NodeKind::MemFree(FreeNode { at: 0 });
                    }
                }
                BufferKind::Persistent | BufferKind::Foreign { .. } => {}
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
                param: Some(0),
                offset: 0,
            });
        }
        trace.unfreed = Unfreed::FreedByLauncher;
        for (node, kind, at, other, bytes) in shown.into_iter().filter(|_| shows) {
            show(&mut trace, NodeId::at(node), kind, [at, other], bytes);
        }
        trace
    }
}

/// Lets a node show something: operands, words, memory of the graph, or a promise
/// about its words.
fn show(trace: &mut Trace, id: NodeId, kind: u8, [at, other]: [u64; 2], bytes: u64) {
    let node = &mut trace.nodes[id.index()];
    let what = match (kind, &mut node.kind) {
        (0 | 1, NodeKind::Kernel(kernel)) => {
            let mut param = Param::new("", 8 * kernel.params.len() as u32, Vec::new());
            param.bytes = at.to_le_bytes().to_vec();
            if kind == 1 && bytes > 2 {
                // A declared pointer, up to one past the end of its buffer.
                let buffer = other as usize % trace.buffers.len();
                let range = trace.buffers[buffer].range;
                let offset = at % (range.len() + 1);
                param.bytes = (range.start + offset).to_le_bytes().to_vec();
                param.pointer = Some(PointerParam {
                    buffer: Some(BufferId::at(buffer)),
                    offset,
                });
            }
            kernel.params.push(param);
            return;
        }
        (5, _) => Promised::LeftOver {
            words: 1,
            buffers: Vec::new(),
            reason: String::new(),
        },
        (6, _) => Promised::Keeps {
            name: String::new(),
            range: ByteRange::new(at, at + bytes),
            owner: String::new(),
        },
        // A node that a buffer names stays what it is.
        (_, NodeKind::MemAlloc(_) | NodeKind::MemFree(_)) => return,
        // Of one row or some, which may lie over each other.
        (2, _) => {
            let rows = other % 4;
            node.kind = NodeKind::Memset(FillNode {
                rows,
                pitch: other / 4 % 4,
                ..FillNode::linear(at, bytes, 0)
            });
            return;
        }
        (3, _) => {
            node.kind = NodeKind::Memcpy(CopyNode {
                rows: 1 + bytes % 3,
                to_pitch: other % 5,
                from_pitch: at % 5,
                ..CopyNode::linear(at, other, bytes)
            });
            return;
        }
        (_, _) if other % 2 == 0 => {
            node.kind = NodeKind::MemAlloc(AllocNode { at, bytes });
            return;
        }
        (_, _) => {
            node.kind = NodeKind::MemFree(FreeNode { at });
            return;
        }
    };
    trace.promises.push(Promise {
        of: "k".into(),
        nodes: vec![id],
        what,
        line: None,
    });
}

/// The rules that the oracle knows.
fn known(rule: Rule) -> bool {
    use Rule::{FreeTooEarly, OwnerGone, ReadBeforeWrite, SharedBytes, UnorderedConflict};
    matches!(
        rule,
        FreeTooEarly | OwnerGone | ReadBeforeWrite | SharedBytes | UnorderedConflict
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
    for hazard in &report.hazards {
        // Whatever a report says can be drawn, said again and tried.
        assert!(!hazard.fix.describe(trace).is_empty());
        assert!(hazard.fix.apply(trace).nodes.len() >= trace.nodes.len());
    }
    if trace.nodes.len() == 7 {
        html(trace, &report).unwrap();
        dot(trace, &report).unwrap();
    }
    assert_eq!(report.hazards.len() as u64, report.hazards_total);
    let all = pairs(&report);
    let half = with(all.len() / 2);
    assert_eq!(pairs(&half), all[..all.len() / 2]);
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
    let found = |proven: bool| {
        let hazards = report.hazards.iter().filter(|hazard| known(hazard.rule));
        let hazards = hazards.filter(|hazard| hazard.proven || !proven);
        // R13 may name the write that comes too late; what is wrong is the
        // read.
        let key = |(rule, first, second)| match rule {
            Rule::ReadBeforeWrite => (rule, first, None),
            _ => (rule, first, second),
        };
        hazards.flat_map(of_hazard).map(key).collect()
    };
    (found(false), found(true))
}

/// The pairs of nodes of a hazard, its members' included.
fn of_hazard(hazard: &Hazard) -> Vec<(Rule, Option<NodeId>, Option<NodeId>)> {
    let second = hazard.second.as_ref().and_then(|site| site.node);
    let members = hazard.members.iter();
    let members = members.map(|member| (hazard.rule, member.first.node, member.second.node));
    [(hazard.rule, hazard.first.node, second)]
        .into_iter()
        .chain(members)
        .collect()
}

/// The pairs of nodes of all hazards, in order.
fn pairs(report: &Report) -> Vec<(Rule, Option<NodeId>, Option<NodeId>)> {
    let mut all: Vec<_> = report.hazards.iter().flat_map(of_hazard).collect();
    all.sort_unstable();
    all
}

proptest! {
    // `PROPTEST_CASES` asks for more.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(10_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_same_hazards_as_the_definition(trace in trace()) {
        prop_assert_eq!(found(&trace), oracle(&trace));
    }

    /// The checker accepts what a trace claims for itself exactly if the verdict is
    /// safe. The accesses go one by one: the last trace that is no longer safe has
    /// nothing wrong with it but one access.
    #[test]
    fn no_certificate_for_a_hazard(trace in trace()) {
        let mut trace = trace;
        loop {
            let safe = verify(&trace).unwrap().verdict == Verdict::Safe;
            let claim = certificate::claim(&trace).unwrap();
            prop_assert_eq!(certificate::check(&trace, &claim).is_ok(), safe);
            if trace.possible.pop().is_none() && trace.accesses.pop().is_none() {
                break;
            }
        }
    }
}

/// One change of a certificate: of its order, its chains, its turns, its pairs of
/// free nodes, or of what it says of nodes that are not analysed.
fn corrupt(certificate: &mut certificate::Certificate, kind: u8, at: usize, other: usize) {
    let order = &mut certificate.order;
    let nodes = order.len();
    let (x, y) = (at % nodes, other % nodes);
    match kind % 12 {
        0 => order.swap(x, y),
        1 => order[x].1 = order[y].1,
        2 => order[x].0 = order[y].0,
        3 => order[x].1 += 1,
        4 if certificate.turns.len() > 1 => {
            let turns = certificate.turns.len();
            certificate.turns.swap(at % turns, other % turns);
        }
        5 => drop(certificate.turns.pop()),
        6 => certificate.freed.push((NodeId::at(x), NodeId::at(y))),
        7 => certificate.not_analysed.push(NodeId::at(x)),
        8 => certificate.turns.push(BufferId::at(other)),
        9 => certificate.turns.extend(certificate.turns.first().copied()),
        10 => drop(certificate.not_analysed.pop()),
        _ => certificate.not_analysed.push(NodeId::at(nodes + at)),
    }
}

/// One change of a trace: an edge less, a buffer elsewhere, an access of more bytes
/// or of another kind.
fn spoil(trace: &mut Trace, kind: u8, at: usize, other: usize) {
    match kind % 4 {
        0 if !trace.edges.is_empty() => {
            let at = at % trace.edges.len();
            trace.edges.remove(at);
        }
        1 => {
            let at = at % trace.buffers.len();
            let range = &mut trace.buffers[at].range;
            *range = ByteRange::from_len(BASE + other as u64 % (2 * BYTES), range.len()).unwrap();
        }
        2 | 3 if !trace.accesses.is_empty() => {
            let at = at % trace.accesses.len();
            let access = trace.accesses[at];
            if kind % 4 == 2 {
                let len = trace.buffer(access.buffer).range.len();
                trace.accesses[at].bytes = ByteRange::new(0, len);
            } else {
                trace.accesses[at].mode = AccessMode::ReadWrite;
            }
        }
        _ => {}
    }
}

/// What a certificate lists is listed exactly: an entry more, be it another time or
/// of nothing that there is, and one less are refused.
#[test]
fn nothing_may_be_added_to_a_certificate_or_left_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut tried = 0;
    for _ in 0..600 {
        let trace = trace().new_tree(&mut runner).unwrap().current();
        if verify(&trace).unwrap().verdict != Verdict::Safe {
            continue;
        }
        let good = certificate::claim(&trace).unwrap();
        if certificate::check(&trace, &good).is_err() {
            // Buffers hand bytes to each other in a circle.
            continue;
        }
        let refused = |forge: &dyn Fn(&mut certificate::Certificate)| {
            let mut forged = good.clone();
            forge(&mut forged);
            assert!(certificate::check(&trace, &forged).is_err(), "{forged:?}");
        };
        for node in 0..trace.nodes.len() + 2 {
            refused(&|c| c.not_analysed.push(NodeId::at(node)));
            refused(&|c| c.order.push((NodeId::at(node), 0)));
        }
        for buffer in 0..trace.buffers.len() + 2 {
            refused(&|c| c.turns.insert(0, BufferId::at(buffer)));
            refused(&|c| c.turns.push(BufferId::at(buffer)));
        }
        for at in 0..good.turns.len() {
            refused(&|c| _ = c.turns.remove(at));
        }
        for at in 0..good.not_analysed.len() {
            refused(&|c| _ = c.not_analysed.remove(at));
        }
        for pair in good.freed.clone() {
            refused(&|c| c.freed.push(pair));
            refused(&|c| c.freed.retain(|other| *other != pair));
        }
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
}

/// Whatever a certificate says, the checker accepts it for safe traces alone. From
/// random traces with their accesses thinned out until they are safe, one thing is
/// changed in the trace, in the certificate or in both.
#[test]
fn no_corrupt_certificate_proves_a_hazard() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let changes = (any::<(u8, u8)>(), any::<(u16, u16)>(), 0..3_u8);
    let (mut accepted, mut refused) = ([0; 3], [0; 3]);
    for _ in 0..1500 {
        let mut trace = trace().new_tree(&mut runner).unwrap().current();
        while verify(&trace).unwrap().verdict != Verdict::Safe && !trace.accesses.is_empty() {
            trace.accesses.pop();
            trace.possible.pop();
        }
        let ((of_trace, of_proof), (at, other), which) =
            changes.new_tree(&mut runner).unwrap().current();
        let (at, other) = (usize::from(at), usize::from(other));
        let mut proof = certificate::claim(&trace).unwrap();
        if which != 0 {
            spoil(&mut trace, of_trace, at, other);
            proof.about = certificate::About::of(&trace);
        }
        if which != 1 {
            corrupt(&mut proof, of_proof, at, other);
        }
        let ok = certificate::check(&trace, &proof).is_ok();
        assert!(!ok || oracle(&trace).0.is_empty(), "{proof:?}\n{trace:?}");
        let count = if ok { &mut accepted } else { &mut refused };
        count[usize::from(which)] += 1;
    }
    // A test that never gets past the first check would show nothing.
    let enough = accepted.iter().chain(&refused).all(|&count| count > 50);
    assert!(enough, "{accepted:?} {refused:?}");
}
