//! What the independent checker accepts and refuses.

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{Certificate, CertificateError, check, digest};

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
    assert_eq!(check(&trace, &version), Err(CertificateError::Version(4)));
    let file = version.to_json();
    assert_eq!(
        Certificate::from_json(file.as_bytes()),
        Err(CertificateError::Version(4))
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
        Err(CertificateError::Misstated("unanalysed nodes"))
    );
    let mut silent = good.clone();
    silent.assumptions.clear();
    assert_eq!(
        check(&trace, &silent),
        Err(CertificateError::Misstated("assumptions"))
    );
    let mut wrong = good;
    wrong.stats.edges += 1;
    assert_eq!(
        check(&trace, &wrong),
        Err(CertificateError::Misstated("edges"))
    );
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
        // Never, twice, or no node at all.
        (vec![(0, 0), (1, 1), (2, 0)], n(3)),
        (vec![(0, 0), (1, 1), (1, 1), (2, 0), (3, 0)], n(1)),
        (vec![(0, 0), (1, 1), (2, 0), (3, 0), (9, 0)], n(9)),
        (vec![], n(0)),
    ] {
        let order = order.into_iter().map(|(node, chain)| (n(node), chain));
        let order = order.collect();
        let forged = Certificate {
            order,
            ..good.clone()
        };
        assert_eq!(check(&trace, &forged), Err(at(wrong)), "{forged:?}");
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
            digest: digest(&cut),
            stats: streamweir_verify::Stats {
                edges: cut.edges.len() as u64,
                ..good.stats
            },
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
    let mut apart = trace.clone();
    apart.buffers[b.index()].range = streamweir_trace::ByteRange::new(0x2000, 0x2040);
    let mut forged = certified(&apart);
    check(&apart, &forged).unwrap();
    forged.digest = digest(&trace);
    let node = Some(NodeId(2));
    let refused = CertificateError::NotEstablished { rule: "R2", node };
    assert_eq!(check(&trace, &forged), Err(refused));
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
    silent.possible = 0;
    assert_eq!(
        check(&trace, &silent),
        Err(CertificateError::Misstated("words"))
    );
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

/// A certificate of the trace as it was before `spoil`, made to fit in all that
/// it states, and what the checker has against it.
fn forged(trace: &Trace, spoil: impl FnOnce(&mut Trace)) -> Option<(&'static str, Option<NodeId>)> {
    let mut certificate = certified(trace);
    let mut spoilt = trace.clone();
    spoil(&mut spoilt);
    certificate.digest = digest(&spoilt);
    certificate.stats.accesses = spoilt.accesses.len() as u64;
    match check(&spoilt, &certificate) {
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
    assert_eq!(forged(&trace, unknown(8)), Some(("R3", n(1))));
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
        assert_eq!(forged(&trace, stray), Some(("R3", n(2))));
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
