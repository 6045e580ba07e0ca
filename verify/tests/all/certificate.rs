//! What the independent checker accepts and refuses.

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{About, Certificate, CertificateError, check, claim, digest};
use streamweir_verify::verify;

use crate::build::*;

fn capture() -> Trace {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let write = cap.node(MAIN, "write");
    cap.join(SIDE, MAIN);
    let read = cap.node(SIDE, "read");
    let other = cap.node(MAIN, "other");
    cap.join(MAIN, SIDE);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    let reuse = cap.node(MAIN, "reuse");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    cap.all(other, Read, a);
    cap.all(reuse, Write, b);
    cap.end()
}

fn certified(trace: &Trace) -> Certificate {
    safe(trace).certificate.unwrap()
}

fn unheld(rule: &'static str, node: u32) -> CertificateError {
    let node = Some(NodeId(node));
    CertificateError::NotEstablished { rule, node }
}

#[test]
fn accepts_its_own_trace_through_a_file() {
    let trace = capture();
    let file = certified(&trace).to_json();
    let certificate = Certificate::from_json(file.as_bytes()).unwrap();
    check(&trace, &certificate).unwrap();
    let chains = certificate.order.iter().map(|&(_, chain)| chain);
    assert_eq!(chains.max(), Some(1));
}

#[test]
fn refuses_another_trace() {
    let trace = capture();
    let certificate = certified(&trace);
    let mut other = trace.clone();
    other.nodes[0].name = "renamed".into();
    assert!(matches!(
        check(&other, &certificate),
        Err(CertificateError::AnotherTrace { .. })
    ));
    let mut version = certificate;
    version.version += 1;
    assert_eq!(check(&trace, &version), Err(CertificateError::Version(5)));
    let file = version.to_json();
    assert_eq!(
        Certificate::from_json(file.as_bytes()),
        Err(CertificateError::Version(5))
    );
    assert!(matches!(
        Certificate::from_json(&file.as_bytes()[1..]),
        Err(CertificateError::Json(_))
    ));
}

#[test]
fn refuses_to_leave_things_unsaid() {
    let mut trace = capture();
    trace.nodes[2].analysed = false;
    trace.assumptions.push("page ids below 4096".into());
    let good = certified(&trace);
    check(&trace, &good).unwrap();
    let mut silent = good.clone();
    silent.not_analysed.clear();
    assert_eq!(
        check(&trace, &silent),
        Err(CertificateError::Misstated("not_analysed"))
    );
    type Misstate = fn(&mut About);
    let misstatements: [(Misstate, &str, &str); 8] = [
        (
            |about| about.capture.push('x'),
            "name \"testx\"",
            "name \"test\"",
        ),
        (|about| about.nodes += 1, "5 nodes", "4 nodes"),
        (|about| about.edges += 1, "5 edges", "4 edges"),
        (|about| about.streams += 1, "4 streams", "3 streams"),
        (|about| about.accesses += 1, "5 accesses", "4 accesses"),
        (|about| about.possible += 1, "1 words", "0 words"),
        (
            |about| about.assumptions.clear(),
            "assumptions []",
            "assumptions [\"page ids below 4096\"]",
        ),
        (|about| about.digest = "0".into(), "digest 0", "digest "),
    ];
    for (misstate, certified, found) in misstatements {
        let mut wrong = good.clone();
        misstate(&mut wrong.about);
        let refused = check(&trace, &wrong).unwrap_err();
        let CertificateError::AnotherTrace {
            certified: says,
            found: has,
        } = refused
        else {
            panic!("{refused}");
        };
        assert_eq!(says, certified);
        assert!(has.starts_with(found), "{has}");
    }
}

#[test]
fn refuses_an_order_that_the_edges_do_not_bear_out() {
    let trace = capture();
    let good = certified(&trace);
    let (n, at) = (NodeId, CertificateError::Order);
    for (order, wrong) in [
        // In one chain, or in the wrong one.
        (vec![(0, 0), (1, 0), (2, 0), (3, 0)], n(2)),
        (vec![(0, 0), (1, 1), (2, 1), (3, 1)], n(2)),
        // Ahead of what it follows.
        (vec![(0, 0), (3, 0), (1, 1), (2, 0)], n(3)),
        // Twice, or no node at all.
        (vec![(0, 0), (1, 1), (1, 2), (2, 0)], n(1)),
        (vec![(0, 0), (1, 1), (1, 1), (2, 0)], n(1)),
        (vec![(0, 0), (1, 1), (2, 0), (9, 0)], n(9)),
    ] {
        let order = order.into_iter().map(|(node, chain)| (n(node), chain));
        let order = order.collect();
        let forged = Certificate {
            order,
            ..good.clone()
        };
        assert_eq!(check(&trace, &forged), Err(at(wrong)), "{forged:?}");
    }
    for order in [vec![], good.order[..3].to_vec()] {
        let short = Certificate {
            order,
            ..good.clone()
        };
        let refused = CertificateError::Misstated("order");
        assert_eq!(check(&trace, &short), Err(refused));
    }
    let wide = Certificate {
        order: vec![(n(0), u32::MAX)],
        ..good.clone()
    };
    let refused = check(&trace, &wide);
    assert_eq!(refused, Err(CertificateError::TooWide(1 << 32)));
    // Another true order and another true cover prove the same.
    let order = vec![(n(0), 5), (n(2), 0), (n(1), 5), (n(3), 5)];
    check(&trace, &Certificate { order, ..good }).unwrap();
}

/// Every edge of the capture is needed: without it a certificate, made by hand
/// so that all its statements are true, must be refused.
#[test]
fn refuses_a_certificate_made_by_hand() {
    let trace = capture();
    let good = certified(&trace);
    for at in 0..trace.edges.len() {
        let mut cut = trace.clone();
        cut.edges.remove(at);
        let forged = Certificate {
            about: About::of(&cut),
            order: (0..4).map(|node| (NodeId(node), node)).collect(),
            ..good.clone()
        };
        assert!(
            matches!(
                check(&cut, &forged),
                Err(CertificateError::NotEstablished { .. })
            ),
            "without {:?}",
            trace.edges[at]
        );
    }
}

/// Nothing is concurrent here, and yet one buffer destroys the other.
#[test]
fn refuses_an_ordered_clobber() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    for (mode, buffer) in [(Write, a), (Write, b), (Write, a)] {
        let node = cap.node(MAIN, "k");
        cap.all(node, mode, buffer);
    }
    let trace = cap.end();
    let mut forged = claim(&trace).unwrap();
    for (turns, node) in [([a, b], 2), ([b, a], 1)] {
        forged.turns = turns.to_vec();
        assert_eq!(check(&trace, &forged), Err(unheld("R2", node)));
    }
}

/// Words of parameters are looked at and conflict with nothing; the certificate
/// must say that it relies on them.
#[test]
fn refuses_to_hide_what_pointers_stand_for() {
    let mut trace = capture();
    let read = trace.accesses[1];
    trace.possible.push(streamweir_trace::PossibleAccess {
        node: read.node,
        buffer: trace.accesses[3].buffer,
        bytes: streamweir_trace::ByteRange::new(0, 8),
        param: 0,
        offset: 0,
    });
    let conflict = streamweir_verify::verify(&trace).unwrap();
    assert_eq!(conflict.verdict, streamweir_verify::Verdict::Possible);
    assert!(conflict.certificate.is_none());
    // The last node may touch what it overwrites, which is safe.
    trace.possible[0].node = trace.accesses[3].node;
    trace.possible[0].buffer = trace.accesses[3].buffer;
    trace.accesses[3].bytes.end = 4;
    let good = certified(&trace);
    check(&trace, &good).unwrap();
    let mut silent = good;
    silent.about.possible = 0;
    let refused = check(&trace, &silent).unwrap_err();
    assert!(refused.to_string().contains("0 words"), "{refused}");
}

/// One change of each field that a trace can hold gives another digest.
#[test]
fn the_digest_covers_what_the_file_says() {
    let mut trace = capture();
    trace.nodes[0].launch = None;
    let base = digest(&trace);
    let change: [fn(&mut Trace); 12] = [
        |t| t.name.push('x'),
        |t| t.streams[1].tag.push('x'),
        |t| t.scopes.push("x".into()),
        |t| t.nodes[0].scope = Some(streamweir_trace::ScopeId(0)),
        |t| t.nodes[0].stream = None,
        |t| t.nodes[0].analysed = false,
        |t| t.nodes[0].kind = streamweir_trace::NodeKind::memset(),
        |t| t.edges[0].kind = streamweir_trace::EdgeKind::Programmatic,
        |t| t.buffers[0].carried = true,
        |t| t.accesses[0].phase = streamweir_trace::Phase::BeforeWait,
        |t| t.accesses[0].mode = Atomic,
        |t| t.assumptions.push("x".into()),
    ];
    let mut seen = vec![base];
    for change in change {
        let mut other = trace.clone();
        change(&mut other);
        seen.push(digest(&other));
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

/// What the checker has against what the trace claims for itself once it is
/// spoilt.
fn forged(trace: &Trace, spoil: impl FnOnce(&mut Trace)) -> Option<(&'static str, Option<NodeId>)> {
    let mut spoilt = trace.clone();
    spoil(&mut spoilt);
    match check(&spoilt, &claim(&spoilt).unwrap()) {
        Ok(()) => None,
        Err(CertificateError::NotEstablished { rule, node }) => Some((rule, node)),
        Err(other) => panic!("{other}"),
    }
}

/// What the trace says outright of unknown memory, of the protocol and of
/// workspaces, nothing but the checker itself can refuse.
#[test]
fn refuses_what_breaks_the_rules_about_the_capture_itself() {
    use streamweir_trace::{
        Access, Buffer, BufferKind, ByteRange, KernelNode, NodeKind, Param, PointerParam,
        ProtocolBreak, StrayMemory, StrayWord, UnknownAccess,
    };
    let trace = capture();
    let n = |at| Some(NodeId(at));
    assert_eq!(forged(&trace, |_| {}), None);
    let unknown = |len: u64| {
        move |t: &mut Trace| {
            t.unknown.push(UnknownAccess {
                node: NodeId(1),
                range: ByteRange::new(64, 64 + len),
                mode: Read,
            });
        }
    };
    assert_eq!(forged(&trace, unknown(8)), Some(("R3", None)));
    assert_eq!(forged(&trace, unknown(0)), None);
    for memory in [StrayMemory::Live, StrayMemory::Freed] {
        let stray = |t: &mut Trace| {
            t.stray.push(StrayWord {
                node: NodeId(2),
                param: 0,
                offset: 0,
                at: 64,
                memory,
                name: String::new(),
            });
        };
        assert_eq!(forged(&trace, stray), Some(("R3", None)));
    }
    for (address, refused) in [(64_u64, Some(("R3", n(3)))), (0, None)] {
        let pointer = |t: &mut Trace| {
            t.nodes[3].kind = NodeKind::Kernel(KernelNode {
                params: vec![Param {
                    name: "p".into(),
                    offset: 0,
                    bytes: address.to_le_bytes().to_vec(),
                    pointer: Some(PointerParam {
                        buffer: None,
                        offset: 0,
                    }),
                }],
                ..KernelNode::default()
            });
        };
        assert_eq!(forged(&trace, pointer), refused);
    }
    let broken = |t: &mut Trace| {
        t.protocol.push(ProtocolBreak {
            call: "cudaFree".into(),
            what: "not while capturing".into(),
            stream: None,
            node: None,
            line: None,
        });
    };
    assert_eq!(forged(&trace, broken), Some(("R6", None)));
    let unjoined = |t: &mut Trace| t.streams[1].end.joined = false;
    assert_eq!(forged(&trace, unjoined), Some(("R6", None)));
    let elsewhere = |t: &mut Trace| t.streams[0].end.frontier = vec![NodeId(2)];
    assert_eq!(forged(&trace, elsewhere), Some(("R6", n(3))));
    for (stream, refused) in [(SIDE, Some(("R11", n(3)))), (MAIN, None)] {
        let workspace = |t: &mut Trace| {
            let bytes = ByteRange::new(0, 64);
            let workspace = t.add_buffer(Buffer {
                name: "w".into(),
                kind: BufferKind::Workspace { stream },
                range: ByteRange::new(0x9000, 0x9040),
                carried: false,
            });
            t.add_access(Access::new(NodeId(3), workspace, bytes, ReadWrite));
        };
        assert_eq!(forged(&trace, workspace), refused);
    }
}

/// The promise of the checker is that it can be read in one sitting.
#[test]
fn the_checker_is_one_file_of_at_most_300_lines() {
    let file = include_str!("../../src/certificate/check.rs");
    assert!(file.lines().count() <= 300);
    for shared in ["crate::", "super::super"] {
        assert!(!file.contains(shared), "the checker shares {shared}");
    }
}

/// main: W `other`, then the named access of `kept`, which lies in the same bytes
/// and is carried. Only what `kept` overwrites before anyone reads it may have been
/// overwritten by another.
#[test]
fn refuses_to_read_what_another_buffer_left_in_carried_bytes() {
    for (mode, safe) in [
        (Read, false),
        (ReadWrite, false),
        (Atomic, false),
        (Write, true),
    ] {
        let mut cap = Capture::new();
        let kept = cap.persistent("kept", 0x1000, 64);
        let other = cap.scratch(MAIN, "other", 0x1000, 64);
        let first = cap.node(MAIN, "first");
        cap.all(first, Write, other);
        let then = cap.node(MAIN, "then");
        cap.all(then, mode, kept);
        let trace = cap.end();
        let refused = (!safe).then_some(("R2", Some(then)));
        assert_eq!(forged(&trace, |_| {}), refused);
        assert_eq!(verify(&trace).unwrap().certificate.is_some(), safe);
    }
}

/// What a carried buffer has touched nothing else may write afterwards.
#[test]
fn refuses_to_overwrite_what_is_carried() {
    for mode in [Read, Write] {
        let mut cap = Capture::new();
        let kept = cap.persistent("kept", 0x1000, 64);
        let other = cap.scratch(MAIN, "other", 0x1000, 64);
        let first = cap.node(MAIN, "first");
        cap.all(first, mode, kept);
        let then = cap.node(MAIN, "then");
        cap.all(then, Write, other);
        assert_eq!(forged(&cap.end(), |_| {}), Some(("R2", None)));
    }
}

/// Turns that leave a buffer out, or name none, hold for nothing.
#[test]
fn refuses_buffers_without_a_turn() {
    let trace = capture();
    let good = certified(&trace);
    assert_eq!(good.turns.len(), 2);
    for (left_out, node) in [(0, 0), (1, 3)] {
        let mut forged = good.clone();
        forged.turns[left_out] = streamweir_trace::BufferId(9);
        assert_eq!(check(&trace, &forged), Err(unheld("R2", node)));
    }
    // A turn more, of a buffer that is none, does no harm.
    let mut more = good;
    more.turns.push(streamweir_trace::BufferId(9));
    check(&trace, &more).unwrap();
}

/// `a` hands byte 0 to `b`, `b` byte 1 to `c` and `c` byte 2 to `a`. Every two of
/// them agree, so the graph is safe; no sequence of turns can say so.
#[test]
fn three_buffers_in_a_circle_are_safe_and_have_no_certificate() {
    let mut cap = Capture::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| cap.scratch(MAIN, name, 0x1000, 3));
    for (first, then, byte) in [(a, b, 0), (b, c, 1), (c, a, 2)] {
        for buffer in [first, then] {
            let node = cap.node(MAIN, "k");
            cap.part(node, Write, buffer, byte, byte + 1);
        }
    }
    let trace = cap.end();
    assert!(safe(&trace).certificate.is_none());
    let refused = forged(&trace, |_| {}).map(|refused| refused.0);
    assert_eq!(refused, Some("R2"));
    // Without the last step there is an order, though not that of first accesses.
    let mut open = trace.clone();
    open.accesses.truncate(4);
    assert_eq!(certified(&open).turns, [a, b, c]);
    let mut across = trace;
    across.accesses.drain(..2);
    across.accesses.swap(0, 1);
    (across.accesses[0].node, across.accesses[1].node) = (NodeId(2), NodeId(3));
    assert_eq!(certified(&across).turns, [c, b, a]);
}

/// A word speaks for all of its bytes unless its node declares each of them, and
/// then for none: the other words of the node change nothing about it.
#[test]
fn words_that_their_node_declares_say_nothing() {
    let word = |node: NodeId, buffer, bytes: (u64, u64)| streamweir_trace::PossibleAccess {
        node,
        buffer,
        bytes: streamweir_trace::ByteRange::new(bytes.0, bytes.1),
        param: 0,
        offset: 0,
    };
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 16);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.part(one, Read, a, 0, 8);
    cap.part(two, Read, a, 0, 8);
    let mut trace = cap.end();
    // Bytes 0..8 are declared: the word is no write of them.
    trace.possible = vec![word(one, a, (0, 8))];
    assert_eq!(forged(&trace, |_| {}), None);
    // Declared by another node, or for another buffer, is not declared.
    for (spoilt, refused) in [
        (word(one, a, (0, 9)), true),
        (word(one, a, (8, 12)), false),
        (word(NodeId(2), a, (0, 8)), false),
    ] {
        let mut other = trace.clone();
        other.possible = vec![spoilt];
        assert_eq!(forged(&other, |_| {}).is_some(), refused, "{spoilt:?}");
    }
    // A word beside it that speaks for bytes 8..12 and 6..8 does not make the first
    // one speak for 0..6.
    let mut beside = trace.clone();
    beside.accesses[1].bytes.end = 6;
    beside.possible = vec![word(one, a, (6, 12)), word(one, a, (0, 8))];
    assert_eq!(forged(&beside, |_| {}), None);
}

/// The pairs of allocation and free nodes that a certificate may state.
#[test]
fn refuses_pairs_of_allocation_and_free_that_are_none() {
    use streamweir_trace::{AllocNode, FreeNode, NodeKind};
    let mut cap = Capture::new();
    let node = |cap: &mut Capture, kind| {
        let node = cap.node(MAIN, "memory");
        cap.trace.nodes[node.index()].kind = kind;
        node
    };
    let alloc = |at| NodeKind::MemAlloc(AllocNode { at, bytes: 64 });
    let free = |at| NodeKind::MemFree(FreeNode { at });
    let one = node(&mut cap, alloc(0x40));
    let two = node(&mut cap, alloc(0x80));
    let again = node(&mut cap, alloc(0x40));
    let nameless = [node(&mut cap, alloc(0)), node(&mut cap, free(0))];
    let kernel = cap.node(MAIN, "kernel");
    let [freed_one, freed_two, freed_again] = [0x40, 0x80, 0x40].map(|at| node(&mut cap, free(at)));
    let trace = cap.end();
    let good = certified(&trace);
    let pairs = [(one, freed_one), (two, freed_two), (again, freed_again)];
    assert_eq!(good.freed, pairs);
    check(&trace, &good).unwrap();
    let right = (one, freed_one);
    for (freed, rule, at) in [
        (vec![(one, freed_two), (two, freed_one)], "R8", freed_two),
        (vec![right, (two, freed_one)], "R8", freed_one),
        (vec![right, (again, freed_one)], "R8", freed_one),
        (vec![right, right, (two, freed_two)], "R8", freed_one),
        (vec![right], "R7", two),
        (vec![right, (kernel, freed_two)], "R8", freed_two),
        (vec![right, (two, kernel)], "R8", kernel),
        (vec![right, (NodeId(99), freed_two)], "R8", freed_two),
        (vec![right, (two, NodeId(99))], "R8", NodeId(99)),
        (vec![(nameless[0], nameless[1])], "R8", nameless[1]),
    ] {
        let forged = Certificate {
            freed,
            ..good.clone()
        };
        let refused = check(&trace, &forged);
        assert_eq!(refused, Err(unheld(rule, at.0)), "{forged:?}");
    }
    // With memory left to whoever launches, the free node still needs its pair.
    let mut left = trace;
    left.assumptions
        .push(streamweir_verify::FREED_BY_LAUNCHER.into());
    let mut silent = claim(&left).unwrap();
    silent.freed.pop();
    assert_eq!(check(&left, &silent), Err(unheld("R8", freed_again.0)));
}

/// Which nodes a certificate must name as not analysed, by kind: the checker has an
/// opinion of its own, and it is the verifier's.
#[test]
fn refuses_a_wrong_list_of_nodes_that_are_not_analysed() {
    use streamweir_trace::{AllocNode, Buffer, BufferKind, ByteRange, FreeNode, NodeKind};
    let kinds = [
        (NodeKind::kernel(), true),
        (NodeKind::memcpy(), true),
        (NodeKind::memset(), true),
        (NodeKind::Empty, true),
        (NodeKind::EventWait, true),
        (NodeKind::EventRecord, true),
        (NodeKind::Host, false),
        (NodeKind::ChildGraph, false),
        (NodeKind::Conditional, false),
        (NodeKind::BatchMemOp, false),
        (NodeKind::SemaphoreSignal, false),
        (NodeKind::SemaphoreWait, false),
        (NodeKind::Unknown(99), false),
        (NodeKind::MemAlloc(AllocNode::default()), false),
        (NodeKind::MemFree(FreeNode::default()), false),
    ];
    let listed = |trace: &Trace| {
        let good = claim(trace).unwrap();
        check(trace, &good).unwrap();
        for node in (0..trace.nodes.len()).map(NodeId::at) {
            let mut wrong = good.clone();
            match wrong.not_analysed.iter().position(|&other| other == node) {
                Some(at) => drop(wrong.not_analysed.remove(at)),
                None => wrong.not_analysed.push(node),
            }
            let refused = CertificateError::Misstated("not_analysed");
            assert_eq!(check(trace, &wrong), Err(refused));
        }
        good.not_analysed
    };
    for (kind, known) in kinds {
        let mut cap = Capture::new();
        let data = cap.persistent("data", 0x1000, 64);
        let node = cap.node(MAIN, "node");
        cap.node(MAIN, "end");
        cap.trace.nodes[node.index()].kind = kind.clone();
        let mut trace = cap.end();
        let expected = if known { vec![] } else { vec![node] };
        assert_eq!(listed(&trace), expected, "{kind:?}");
        // Declared accesses say what it does, unless it is marked all the same.
        let bytes = ByteRange::new(0, 8);
        trace.add_access(streamweir_trace::Access::new(node, data, bytes, Read));
        let memory = matches!(kind, NodeKind::MemAlloc(_) | NodeKind::MemFree(_));
        assert!(memory || listed(&trace).is_empty(), "{kind:?}");
        trace.nodes[node.index()].analysed = false;
        assert_eq!(listed(&trace), [node], "{kind:?}");
    }
    // A buffer that names the nodes says where they are.
    let mut cap = Capture::new();
    let [alloc, free] = ["alloc", "free"].map(|name| cap.node(MAIN, name));
    cap.trace.nodes[alloc.index()].kind = NodeKind::MemAlloc(AllocNode::default());
    cap.trace.nodes[free.index()].kind = NodeKind::MemFree(FreeNode::default());
    let (name, free) = ("memory".to_owned(), Some(free));
    cap.trace.add_buffer(Buffer {
        name,
        kind: BufferKind::Graph { alloc, free },
        range: ByteRange::new(0x40, 0x80),
        carried: false,
    });
    assert!(listed(&cap.end()).is_empty());
}

/// What a trace claims is refused where a programmatic edge is taken for a full one
/// by a free node, an allocation, or a kernel whose blocks spin.
#[test]
fn refuses_to_take_the_start_of_a_node_for_its_wait() {
    use streamweir_trace::{
        AllocNode, BlockSync, Buffer, BufferKind, ByteRange, EdgeKind, FreeNode, KernelNode,
        NodeKind, PdlWait,
    };
    let spin = NodeKind::Kernel(KernelNode {
        sync: BlockSync::Spin,
        ..KernelNode::default()
    });
    let alloc = NodeKind::MemAlloc(AllocNode { at: 64, bytes: 64 });
    let free = NodeKind::MemFree(FreeNode { at: 64 });
    for (kinds, edge, rule) in [
        (
            [NodeKind::kernel(), spin.clone(), NodeKind::Empty],
            0,
            "R14",
        ),
        ([NodeKind::ChildGraph, spin, NodeKind::Empty], 0, "R14"),
        ([alloc.clone(), free.clone(), NodeKind::Empty], 0, "R8"),
        ([alloc, NodeKind::kernel(), free], 1, "R8"),
    ] {
        let mut cap = Capture::new();
        let nodes = ["a", "b", "c"].map(|name| cap.node(MAIN, name));
        let uses = matches!(kinds[2], NodeKind::MemFree(_));
        for (node, kind) in nodes.into_iter().zip(kinds) {
            cap.trace.nodes[node.index()].kind = kind;
            cap.trace.nodes[node.index()].pdl = PdlWait::OnAllPaths;
        }
        if uses {
            let (name, alloc) = ("memory".to_owned(), nodes[0]);
            let memory = cap.trace.add_buffer(Buffer {
                name,
                kind: BufferKind::Graph { alloc, free: None },
                range: ByteRange::new(64, 128),
                carried: false,
            });
            cap.all(nodes[1], Write, memory);
        }
        let mut trace = cap.end();
        assert_eq!(forged(&trace, |_| {}), None);
        trace.edges[edge].kind = EdgeKind::Programmatic;
        let refused = forged(&trace, |_| {}).expect("it may start too early");
        assert_eq!(refused.0, rule);
    }
}

/// A workspace used by a node of no known stream is left to R1.
#[test]
fn a_workspace_on_no_known_stream() {
    use streamweir_trace::{Buffer, BufferKind, ByteRange};
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "gemm");
    let workspace = cap.trace.add_buffer(Buffer {
        name: "w".into(),
        kind: BufferKind::Workspace { stream: SIDE },
        range: ByteRange::new(0, 64),
        carried: false,
    });
    cap.all(node, ReadWrite, workspace);
    let mut trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), Some(("R11", Some(node))));
    trace.nodes[node.index()].stream = None;
    assert_eq!(forged(&trace, |_| {}), None);
}

/// Two workspaces of `main` in the same bytes: buffers of which a read needs no
/// write before it and nothing is carried, so that R1 and R2 stand alone.
fn two_buffers() -> (Capture, [streamweir_trace::BufferId; 2]) {
    use streamweir_trace::{Buffer, BufferKind, ByteRange};
    let mut cap = Capture::new();
    let buffers = ["p", "q"].map(|name| {
        cap.trace.add_buffer(Buffer {
            name: name.into(),
            kind: BufferKind::Workspace { stream: MAIN },
            range: ByteRange::new(0x1000, 0x1002),
            carried: false,
        })
    });
    (cap, buffers)
}

/// Which of two buffers comes first is settled by reads and writes alike, and not
/// by two reads.
#[test]
fn turns_count_where_one_of_two_writes() {
    let (mut cap, [p, q]) = two_buffers();
    // Byte 0 goes from `p` to `q`, byte 1 from `q` to `p`, from reader to writer.
    for (buffer, mode, byte) in [(p, Read, 0), (q, Write, 0), (q, Read, 1), (p, Write, 1)] {
        let node = cap.node(MAIN, "k");
        cap.part(node, mode, buffer, byte, byte + 1);
    }
    let trace = cap.end();
    for (turns, node) in [([p, q], 3), ([q, p], 1)] {
        let turns = turns.to_vec();
        let claim = Certificate {
            turns,
            ..claim(&trace).unwrap()
        };
        assert_eq!(check(&trace, &claim), Err(unheld("R2", node)));
    }

    let (mut cap, [p, q]) = two_buffers();
    for (buffer, mode) in [(q, Read), (p, Read), (q, Read), (p, Read), (p, Write)] {
        let node = cap.node(MAIN, "k");
        cap.all(node, mode, buffer);
    }
    let trace = cap.end();
    let good = certified(&trace);
    assert_eq!(good.turns, [q, p]);
    check(&trace, &good).unwrap();
    let turns = vec![p, q];
    let forged = Certificate { turns, ..good };
    assert_eq!(check(&trace, &forged), Err(unheld("R2", 4)));
}

/// main: R a, then nothing that a join sees; side: R a, W a. The second read does
/// not stand for the first one, which it does not follow.
#[test]
fn refuses_to_forget_a_read_beside_another() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 8);
    let reads = [cap.node(MAIN, "read"), cap.node(SIDE, "read")];
    let write = cap.node(SIDE, "write");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    for read in reads {
        cap.all(read, Read, a);
    }
    let trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), None);
    let overwritten = |t: &mut Trace| {
        let mut access = t.accesses[0];
        (access.node, access.mode) = (write, Write);
        t.add_access(access);
    };
    assert_eq!(forged(&trace, overwritten), Some(("R1", Some(write))));
}

/// Between two buffers atomic updates conflict like writes, and one node is no
/// excuse. In one buffer an update does not stand for a read that another update
/// must still follow.
#[test]
fn refuses_what_atomic_updates_and_single_nodes_hide() {
    let (mut cap, [p, q]) = two_buffers();
    let nodes = [cap.node(MAIN, "a"), cap.node(MAIN, "b")];
    cap.all(nodes[0], Atomic, p);
    cap.all(nodes[1], Atomic, q);
    let mut trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), None);
    trace.edges.clear();
    trace.streams[0].end.frontier.clear();
    assert_eq!(forged(&trace, |_| {}), Some(("R2", Some(nodes[1]))));

    let (mut cap, [p, q]) = two_buffers();
    let node = cap.node(MAIN, "both");
    cap.all(node, Read, p);
    cap.all(node, Write, q);
    assert_eq!(forged(&cap.end(), |_| {}), Some(("R2", Some(node))));

    // main: R a, update a ; side: update a after the first update's start alone.
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 8);
    let read = cap.node(MAIN, "read");
    let update = cap.node(MAIN, "update");
    let beside = cap.node(SIDE, "beside");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(read, Read, a);
    cap.all(update, Atomic, a);
    cap.all(beside, Atomic, a);
    assert_eq!(forged(&cap.end(), |_| {}), Some(("R1", Some(beside))));
}

/// The bytes must be there for the access, at the time within its node at which it
/// happens, and filled by its own buffer, by another node and for certain.
#[test]
fn refuses_memory_that_is_not_there_or_not_filled() {
    use streamweir_trace::{
        AllocPoint, BufferKind, ByteRange, EdgeKind, PdlWait, Phase, PossibleAccess,
    };
    // Recorded before the alloc point of a stream that had no node yet.
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "early");
    let late = cap.scratch(SIDE, "late", 0x1000, 8);
    cap.all(node, Write, late);
    let trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), Some(("R4", Some(node))));

    // Before the wait for the node behind which the buffer was taken.
    let mut cap = Capture::new();
    let first = cap.node(MAIN, "first");
    let a = cap.scratch(MAIN, "a", 0x1000, 8);
    let node = cap.node(MAIN, "then");
    cap.all(node, Write, a);
    let mut trace = cap.end();
    trace.nodes[node.index()].pdl = PdlWait::OnAllPaths;
    trace.edges[0].kind = EdgeKind::Programmatic;
    assert_eq!(forged(&trace, |_| {}), None);
    let early = |t: &mut Trace| t.accesses[0].phase = Phase::BeforeWait;
    assert_eq!(forged(&trace, early), Some(("R4", Some(node))));
    let BufferKind::Scratch { alloc, .. } = &trace.buffers[a.index()].kind else {
        panic!("{trace:?}");
    };
    assert_eq!(
        *alloc,
        AllocPoint {
            frontier: vec![first],
            before: node
        }
    );

    // Filled by another buffer, or by a word, or by the node itself.
    let mut cap = Capture::new();
    let [a, b] = ["a", "b"].map(|name| cap.scratch(MAIN, name, 0x1000, 8));
    let [first, then] = ["first", "then"].map(|name| cap.node(MAIN, name));
    cap.all(first, Write, a);
    cap.all(then, Read, b);
    let trace = cap.end();
    let r13 = Some(("R13", Some(then)));
    assert_eq!(forged(&trace, |_| {}), r13);
    let own = |t: &mut Trace| t.accesses[1].buffer = a;
    assert_eq!(forged(&trace, own), None);
    let by_word = |t: &mut Trace| {
        own(t);
        t.accesses.remove(0);
        t.possible.push(PossibleAccess {
            node: first,
            buffer: a,
            bytes: ByteRange::new(0, 8),
            param: 0,
            offset: 0,
        });
    };
    assert_eq!(forged(&trace, by_word), r13);
    // The reader also writes, before it reads: what it reads was there before.
    let rewritten = |t: &mut Trace| {
        own(t);
        t.nodes[then.index()].pdl = PdlWait::OnAllPaths;
        let mut write = t.accesses[1];
        (write.mode, write.phase) = (Write, Phase::BeforeWait);
        t.add_access(write);
    };
    assert_eq!(forged(&trace, rewritten), None);
    let only_itself = |t: &mut Trace| {
        rewritten(t);
        t.accesses.remove(0);
    };
    assert_eq!(forged(&trace, only_itself), r13);
}

/// An access after the wait of its node does not hide what one before it races
/// with, in whatever order the trace lists them; and what another buffer left in
/// carried bytes is not mended by a write before the read.
#[test]
fn refuses_what_a_later_access_seems_to_mend() {
    use streamweir_trace::{EdgeKind, PdlWait, Phase};
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 8);
    let [first, then] = ["first", "then"].map(|name| cap.node(MAIN, name));
    cap.all(first, Write, a);
    cap.all(then, Write, a);
    let mut trace = cap.end();
    trace.nodes[then.index()].pdl = PdlWait::OnAllPaths;
    trace.edges[0].kind = EdgeKind::Programmatic;
    assert_eq!(forged(&trace, |_| {}), None);
    let early = |t: &mut Trace| {
        let mut read = t.accesses[1];
        (read.mode, read.phase) = (Read, Phase::BeforeWait);
        t.add_access(read);
    };
    assert_eq!(forged(&trace, early), Some(("R1", Some(then))));

    let mut cap = Capture::new();
    let kept = cap.persistent("kept", 0x1000, 8);
    let other = cap.scratch(MAIN, "other", 0x1000, 8);
    let mut last = None;
    for (buffer, mode) in [(other, Write), (kept, Write), (kept, Read)] {
        let node = cap.node(MAIN, "k");
        cap.all(node, mode, buffer);
        last = Some(node);
    }
    assert_eq!(forged(&cap.end(), |_| {}), Some(("R2", last)));
}

/// A word is accounted for by what its own node declares of its own buffer: not by
/// another word, nor by what the node declares of other buffers in the same bytes.
#[test]
fn words_are_not_explained_by_other_words_or_buffers() {
    use streamweir_trace::{ByteRange, PossibleAccess};
    let word = |node, buffer, bytes: (u64, u64)| PossibleAccess {
        node,
        buffer,
        bytes: ByteRange::new(bytes.0, bytes.1),
        param: 0,
        offset: 0,
    };
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 16);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.part(one, Read, a, 0, 4);
    cap.part(two, Read, a, 0, 2);
    let mut trace = cap.end();
    trace.possible = vec![word(one, a, (2, 10))];
    assert_eq!(forged(&trace, |_| {}), None);
    // Another node's declaration does not speak for this one.
    let mut others = trace.clone();
    others.possible = vec![word(two, a, (2, 4))];
    assert_eq!(forged(&others, |_| {}), Some(("R1", Some(two))));
    // Declared up to 4, beyond that covered by the other word alone.
    trace.possible.push(word(one, a, (0, 6)));
    assert_eq!(forged(&trace, |_| {}), Some(("R1", Some(two))));

    let (mut cap, [p, q]) = two_buffers();
    let node = cap.node(MAIN, "both");
    cap.all(node, Read, p);
    let mut trace = cap.end();
    trace.possible = vec![word(node, q, (0, 2))];
    assert_eq!(forged(&trace, |_| {}), Some(("R2", Some(node))));
    trace.possible = vec![word(node, p, (0, 2))];
    assert_eq!(forged(&trace, |_| {}), None);
}
