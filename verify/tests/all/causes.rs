//! One cause is one hazard, with a remedy that keeps what can be kept, and names
//! that tell things apart.

use streamweir_trace::{BufferKind, NodeId, NodeKind, StreamId};
use streamweir_verify::{Fix, Rule, verify};

use crate::build::*;

/// One write of a slice and nine reads in order, or nine and then one: one join is
/// missing.
#[test]
fn nine_pairs_of_one_missing_join_are_one_hazard() {
    for write_first in [true, false] {
        let mut cap = Capture::new();
        let slice = cap.persistent("slice", 0x1000, 64);
        let write = |cap: &mut Capture| {
            let node = cap.node(MAIN, "write");
            cap.all(node, Write, slice);
            node
        };
        let early = write_first.then(|| write(&mut cap));
        let reads: Vec<NodeId> = (0..9)
            .map(|_| {
                let node = cap.node(SIDE, "read");
                cap.all(node, Read, slice);
                node
            })
            .collect();
        let written = early.unwrap_or_else(|| write(&mut cap));
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        let trace = cap.end();
        let report = verify(&trace).unwrap();
        assert_eq!(
            (report.hazards_total, report.hazards.len()),
            (1, 1),
            "{report}"
        );
        let hazard = &report.hazards[0];
        assert_eq!(hazard.members.len(), 8);
        let expected = match write_first {
            true => Fix::Join {
                after: written,
                before: reads[0],
            },
            false => Fix::Join {
                after: reads[8],
                before: written,
            },
        };
        assert_eq!(hazard.fix, expected);
        let text = hazard.to_string();
        assert_eq!(text.matches("= also: ").count(), 8, "{text}");
        // Only what overwrites can do so elsewhere.
        let elsewhere = "= or: let n9 `write` write bytes of its own instead of \"slice\"";
        assert_eq!(text.contains(elsewhere), !write_first, "{text}");
        safe(&hazard.fix.apply(&trace));
    }
}

/// Two causes stay two: reads that are not in order with each other, and reads of
/// two slices.
#[test]
fn two_causes_are_two_hazards() {
    let mut cap = Capture::new();
    let slice = cap.persistent("slice", 0x1000, 64);
    let write = cap.node(MAIN, "write");
    let reads = [cap.node(SIDE, "read"), cap.node(THIRD, "read")];
    cap.all(write, Write, slice);
    for read in reads {
        cap.all(read, Read, slice);
    }
    for side in [SIDE, THIRD] {
        cap.join(MAIN, side);
    }
    cap.node(MAIN, "end");
    assert_eq!(verify(&cap.end()).unwrap().hazards.len(), 2);

    let mut cap = Capture::new();
    let slices =
        ["a", "b"].map(|name| cap.persistent(name, 0x1000 + 64 * u64::from(name == "b"), 64));
    let write = cap.node(MAIN, "write");
    for slice in slices {
        let read = cap.node(SIDE, "read");
        cap.all(read, Read, slice);
        cap.all(write, Write, slice);
    }
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    assert_eq!(verify(&cap.end()).unwrap().hazards.len(), 2);
}

/// The host let go of `a` while the side stream could still read it: that comes
/// before any join. `b` could have bytes of its own.
#[test]
fn a_buffer_that_was_let_go_too_early() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let write = cap.node(MAIN, "write");
    cap.join(SIDE, MAIN);
    let read = cap.node(SIDE, "read");
    cap.free(a);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    let reuse = cap.node(MAIN, "reuse");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    cap.all(reuse, Write, b);
    let report = verify(&cap.end()).unwrap();
    let hazard = &report.hazards[0];
    assert_eq!(hazard.rule, Rule::SharedBytes);
    let early = "keep \"a\" until a join covers n1 `read`: the host let go of it before that; or add a join of stream \"side\"";
    assert!(hazard.help.starts_with(early), "{}", hazard.help);
    assert_eq!(hazard.otherwise, ["give \"b\" bytes of its own"]);
}

/// Scratch of one stream that only another uses belongs to that one's pool.
#[test]
fn scratch_that_another_stream_alone_uses() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    cap.node(MAIN, "fork");
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    cap.join(SIDE, MAIN);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(one, Write, a);
    cap.all(two, Write, b);
    let report = verify(&cap.end()).unwrap();
    assert_eq!(
        report.hazards[0].otherwise,
        [
            "give \"b\" bytes of its own",
            "take \"b\" from stream \"side\", which alone uses it"
        ]
    );
}

/// Two lives of one block are told apart, and a fill without a name is a fill.
#[test]
fn everything_has_a_name_of_its_own() {
    let mut cap = Capture::new();
    let [a, b] = [0, 1].map(|_| cap.scratch(MAIN, "result", 0x1000, 64));
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "");
    cap.trace.nodes[two.index()].kind = NodeKind::memset();
    cap.all(one, Write, a);
    cap.all(two, Write, b);
    let mut trace = cap.end();
    let report = verify(&trace).unwrap();
    let shared = report
        .hazards
        .iter()
        .find(|h| h.rule == Rule::SharedBytes)
        .unwrap();
    assert!(
        shared.what.contains("\"result (b0)\" and \"result (b1)\""),
        "{}",
        shared.what
    );
    let unjoined = report
        .hazards
        .iter()
        .find(|h| h.rule == Rule::Protocol)
        .unwrap();
    assert_eq!(unjoined.first.name, "memset");
    assert!(unjoined.help.contains("n1 `memset`"), "{}", unjoined.help);
    // On no known stream, too.
    trace.nodes[two.index()].stream = None;
    let report = verify(&trace).unwrap();
    let unjoined = report
        .hazards
        .iter()
        .find(|h| h.rule == Rule::Protocol)
        .unwrap();
    assert_eq!(unjoined.first.name, "memset");
    assert!(matches!(
        trace.buffers[0].kind,
        BufferKind::Scratch {
            stream: StreamId(0),
            ..
        }
    ));
}

/// A read of scratch beside the write that it needs: a join puts both right, so it is
/// one hazard. What a join leaves unwritten is another.
#[test]
fn a_read_beside_its_write_is_one_hazard() {
    for (written, found) in [
        (64, &[Rule::UnorderedConflict][..]),
        (63, &[Rule::UnorderedConflict, Rule::ReadBeforeWrite]),
    ] {
        let mut cap = Capture::new();
        let a = cap.scratch(SIDE, "a", 0x1000, 64);
        let write = cap.node(SIDE, "write");
        let read = cap.node(MAIN, "read");
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        cap.part(write, Write, a, 0, written);
        cap.all(read, Read, a);
        let trace = cap.end();
        assert_eq!(rules(&trace), found);
        let mended = verify(&trace).unwrap().hazards[0].fix.apply(&trace);
        assert_eq!(rules(&mended), found[1..]);
    }
    // Updates do not conflict with each other, so that nothing else names them.
    let mut cap = Capture::new();
    let a = cap.scratch(SIDE, "a", 0x1000, 64);
    let nodes = [cap.node(SIDE, "one"), cap.node(MAIN, "two")];
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    for node in nodes {
        cap.all(node, Atomic, a);
    }
    assert_eq!(rules(&cap.end()), [Rule::ReadBeforeWrite]);
    // A write behind the read does not help it.
    let mut cap = Capture::new();
    let a = cap.scratch(SIDE, "a", 0x1000, 64);
    let read = cap.node(MAIN, "read");
    let write = cap.node(SIDE, "write");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    let both = [Rule::UnorderedConflict, Rule::ReadBeforeWrite];
    assert_eq!(rules(&cap.end()), both);
}
