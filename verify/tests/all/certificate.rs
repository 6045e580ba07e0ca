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
    assert_eq!(certificate.chains.len(), 2);
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
    assert_eq!(check(&trace, &version), Err(CertificateError::Version(3)));
    let file = version.to_json();
    assert_eq!(
        Certificate::from_json(file.as_bytes()),
        Err(CertificateError::Version(3))
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
fn refuses_chains_that_the_edges_do_not_order() {
    let trace = capture();
    let good = certified(&trace);
    let n = NodeId;
    for chains in [
        vec![vec![n(0), n(1), n(2), n(3)]],
        vec![vec![n(0), n(3), n(2)], vec![n(1)]],
        vec![vec![n(0), n(2), n(3)]],
        vec![vec![n(0), n(2), n(3)], vec![n(1), n(1)]],
        vec![vec![n(0), n(2), n(3)], vec![n(1), n(9)]],
        vec![],
    ] {
        let forged = Certificate {
            chains,
            ..good.clone()
        };
        assert!(
            matches!(check(&trace, &forged), Err(CertificateError::Chains(_))),
            "{forged:?}"
        );
    }
    // Another true cover proves the same.
    let chains = vec![vec![n(0), n(1), n(3)], vec![n(2)]];
    check(&trace, &Certificate { chains, ..good }).unwrap();
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
            chains: (0..4).map(|node| vec![NodeId(node)]).collect(),
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
    for (mode, buffer) in [(Write, a), (Write, b), (Read, a)] {
        let node = cap.node(MAIN, "k");
        cap.all(node, mode, buffer);
    }
    let trace = cap.end();
    let mut apart = trace.clone();
    apart.buffers[b.index()].range = streamweir_trace::ByteRange::new(0x2000, 0x2040);
    let mut forged = certified(&apart);
    check(&apart, &forged).unwrap();
    forged.digest = digest(&trace);
    let node = NodeId(2);
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
    assert_eq!(good.assumptions.len(), 1, "{good:?}");
    check(&trace, &good).unwrap();
    let mut silent = good;
    silent.assumptions.clear();
    assert_eq!(
        check(&trace, &silent),
        Err(CertificateError::Misstated("assumptions"))
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
