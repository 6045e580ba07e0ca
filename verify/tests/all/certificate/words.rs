//! Words of parameters that are addresses.

use streamweir_trace::{BufferId, ByteRange, NodeId, PossibleAccess};
use streamweir_verify::certificate::check;

use super::{capture, certified, forged, two_buffers};
use crate::build::*;

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
        param: Some(0),
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

/// A word of a parameter that may touch bytes of a buffer.
fn word(node: NodeId, buffer: BufferId, bytes: (u64, u64)) -> PossibleAccess {
    PossibleAccess {
        node,
        buffer,
        bytes: ByteRange::new(bytes.0, bytes.1),
        param: Some(0),
        offset: 0,
    }
}

/// A word speaks for all of its bytes unless its node declares each of them, and
/// then for none: the other words of the node change nothing about it.
#[test]
fn words_that_their_node_declares_say_nothing() {
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

/// A word is accounted for by what its own node declares of its own buffer: not by
/// another word, nor by what the node declares of other buffers in the same bytes.
#[test]
fn words_are_not_explained_by_other_words_or_buffers() {
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
    cap.all(node, Write, p);
    let mut trace = cap.end();
    trace.possible = vec![word(node, q, (0, 2))];
    assert_eq!(forged(&trace, |_| {}), Some(("R2", Some(node))));
    trace.possible = vec![word(node, p, (0, 2))];
    assert_eq!(forged(&trace, |_| {}), None);
}
