//! The form of a certificate: whose it is, what it leaves unsaid, and the order that it states.

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{About, Certificate, CertificateError, check, claim, digest};

use super::{capture, certified};
use crate::build::*;

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
    // Chains are numbered as they begin.
    for chain in [1, u32::MAX] {
        let mut wide = good.clone();
        wide.order[0].1 = chain;
        let refused = check(&trace, &wide);
        assert_eq!(refused, Err(CertificateError::Order(wide.order[0].0)));
    }
    // Another true order and another true cover prove the same.
    let order = vec![(n(0), 0), (n(2), 1), (n(1), 0), (n(3), 0)];
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

/// The promise of the checker is that it can be read in one sitting, and that it
/// shares nothing with the verifier but the form of a certificate.
#[test]
fn the_checker_is_short_and_shares_nothing() {
    let files = [
        include_str!("../../../src/certificate/check/mod.rs"),
        include_str!("../../../src/certificate/check/order.rs"),
        include_str!("../../../src/certificate/check/frees.rs"),
        include_str!("../../../src/certificate/check/table.rs"),
        include_str!("../../../src/certificate/check/bytes.rs"),
    ];
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines: Vec<usize> = files
        .iter()
        .map(|file| file.lines().filter(code).count())
        .collect();
    assert!(lines.iter().all(|&lines| lines <= 300), "{lines:?}");
    assert!(lines.iter().sum::<usize>() <= 860, "{lines:?}");
    for file in files {
        for shared in ["crate::", "super::super::super", "::claim", "::turns::"] {
            assert!(!file.contains(shared), "the checker shares {shared}");
        }
    }
}

/// Which nodes a certificate must name as not analysed, by kind: the checker has an
/// opinion of its own, and it is the verifier's.
#[test]
fn refuses_a_wrong_list_of_nodes_that_are_not_analysed() {
    use streamweir_trace::{AllocNode, Buffer, BufferKind, ByteRange, FreeNode, NodeKind};
    let kinds = [
        (NodeKind::kernel(), true),
        // Operands of zero are not known, and nothing else says what they are.
        (NodeKind::memcpy(), false),
        (NodeKind::memset(), false),
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
