//! Accesses of the same bytes: turns of buffers, carried bytes, reads, writes and updates.

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{Certificate, CertificateError, check, claim};
use streamweir_verify::verify;

use super::{capture, certified, forged, two_buffers, unheld};
use crate::build::*;

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
        forged.turns.remove(left_out);
        assert_eq!(check(&trace, &forged), Err(unheld("R2", node)));
    }
    // Nor a turn more: of a buffer that is none, or a second one.
    for more in [9, 0] {
        let mut forged = good.clone();
        forged.turns.push(streamweir_trace::BufferId(more));
        assert_eq!(
            check(&trace, &forged),
            Err(CertificateError::Misstated("turns"))
        );
    }
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

/// Which of two buffers comes first is settled by reads and writes alike, and not
/// by two reads.
#[test]
fn turns_count_where_one_of_two_writes() {
    let (mut cap, [p, q]) = two_buffers();
    // Byte 0 goes from `p` to `q`, byte 1 from `q` to `p`, from reader to writer.
    let uses = [
        (p, Write, 0),
        (q, Write, 1),
        (p, Read, 0),
        (q, Write, 0),
        (q, Read, 1),
        (p, Write, 1),
    ];
    for (buffer, mode, byte) in uses {
        let node = cap.node(MAIN, "k");
        cap.part(node, mode, buffer, byte, byte + 1);
    }
    let trace = cap.end();
    for (turns, node) in [([p, q], 6), ([q, p], 4)] {
        let turns = turns.to_vec();
        let claim = Certificate {
            turns,
            ..claim(&trace).unwrap()
        };
        assert_eq!(check(&trace, &claim), Err(unheld("R2", node)));
    }

    // Of bytes that are only read, either may be the first.
    let mut cap = Capture::new();
    let [p, q] = ["p", "q"].map(|name| cap.persistent(name, 0x1000, 2));
    for buffer in [q, p, q, p] {
        let node = cap.node(MAIN, "k");
        cap.all(node, Read, buffer);
    }
    let trace = cap.end();
    let good = certified(&trace);
    assert_eq!(good.turns, [q, p]);
    check(&trace, &good).unwrap();
    let turns = vec![p, q];
    check(&trace, &Certificate { turns, ..good }).unwrap();
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
    let fill = cap.node(MAIN, "fill");
    let nodes = [cap.node(MAIN, "a"), cap.node(MAIN, "b")];
    cap.all(fill, Write, p);
    cap.all(nodes[0], Atomic, p);
    cap.all(nodes[1], Atomic, q);
    let mut trace = cap.end();
    // In order the bytes may change hands, only that nothing has written `q`.
    assert_eq!(forged(&trace, |_| {}), Some(("R13", Some(nodes[1]))));
    trace.edges[2].from = fill;
    trace.streams[0].end.frontier.clear();
    assert_eq!(forged(&trace, |_| {}), Some(("R2", Some(nodes[1]))));

    let (mut cap, [p, q]) = two_buffers();
    let node = cap.node(MAIN, "both");
    cap.all(node, Write, p);
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
