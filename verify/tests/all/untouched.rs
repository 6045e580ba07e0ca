//! R2 with one access: bytes that are kept from replay to replay, that no node
//! of the graph touches, and that a node overwrites through another buffer.

use streamweir_trace::{
    AllocNode, Buffer, BufferKind, ByteRange, FreeNode, NodeKind, PossibleAccess,
};
use streamweir_verify::{Fix, Options, Rule, Verdict, certificate, verify, verify_with};

use crate::build::{Capture, MAIN, Read, SIDE, Write, broken, safe};

/// `scratch` of 16 bytes at `start`, written; the weights lie at 0x100..0x140
/// and are read up to `read`.
fn beside_weights(start: u64, read: u64) -> Capture {
    let mut c = Capture::new();
    let weights = c.persistent("weights", 0x100, 0x40);
    let scratch = c.scratch(MAIN, "scratch", start, 16);
    let first = c.node(MAIN, "first");
    c.part(first, Read, weights, 0, read);
    let node = c.node(MAIN, "writer");
    c.all(node, Write, scratch);
    c
}

#[test]
fn what_a_replay_destroys_is_named_with_its_owner() {
    let trace = beside_weights(0x110, 0).end();
    let report = verify(&trace).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    let [hazard] = &report.hazards[..] else {
        panic!("{report}")
    };
    assert_eq!(hazard.rule, Rule::SharedBytes);
    assert_eq!(hazard.first.name, "writer");
    assert_eq!(hazard.second, None);
    assert_eq!(hazard.bytes, ByteRange::new(0x110, 0x120));
    let names: Vec<&str> = hazard.buffers.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["weights", "scratch"]);
    assert!(
        report.to_string().contains("\"weights\" keeps from replay"),
        "{report}"
    );
    // The weights stay where others know them to be.
    assert_eq!(
        hazard.fix,
        Fix::Separate {
            buffer: hazard.buffers[1].id
        }
    );
    safe(&hazard.fix.apply(&trace));
}

#[test]
fn it_is_bytes_that_count() {
    // Read up to where the scratch begins, up to its middle, and all of it.
    for (read, hazards) in [(0x10, 1), (0x18, 2), (0x40, 1)] {
        let found = broken(&beside_weights(0x110, read).end());
        assert_eq!(found.len(), hazards, "{read:#x}: {found:?}");
        assert!(found.iter().all(|hazard| hazard.0 == Rule::SharedBytes));
        let alone = found.iter().filter(|hazard| hazard.2.is_none()).count();
        assert_eq!(alone, usize::from(read < 0x20), "{read:#x}: {found:?}");
    }
    // Right in front of the weights, and right behind them.
    safe(&beside_weights(0xf0, 0).end());
    safe(&beside_weights(0x140, 0).end());
    // One byte of them.
    assert_eq!(broken(&beside_weights(0xf1, 0).end()).len(), 1);
    assert_eq!(broken(&beside_weights(0x13f, 0).end()).len(), 1);
}

#[test]
fn two_that_are_kept() {
    let mut c = Capture::new();
    c.persistent("old", 0x100, 0x10);
    let new = c.persistent("new", 0x108, 0x10);
    let node = c.node(MAIN, "writer");
    c.part(node, Write, new, 8, 16);
    safe(&c.trace);
    c.part(node, Write, new, 7, 8);
    let found = broken(&c.end());
    assert_eq!(found, [(Rule::SharedBytes, Some(node), None)]);
}

#[test]
fn memory_of_the_graph() {
    let capture = |at: u64| {
        let mut c = Capture::new();
        c.persistent("weights", 0x100, 0x40);
        let [alloc, writer, free] = ["alloc", "writer", "free"].map(|name| c.node(MAIN, name));
        c.trace.nodes[alloc.index()].kind = NodeKind::MemAlloc(AllocNode { at, bytes: 16 });
        c.trace.nodes[free.index()].kind = NodeKind::MemFree(FreeNode { at });
        let own = c.trace.add_buffer(Buffer {
            name: "own".into(),
            kind: BufferKind::Graph {
                alloc,
                free: Some(free),
            },
            range: ByteRange::new(at, at + 16),
            carried: false,
        });
        c.all(writer, Write, own);
        (c.end(), writer)
    };
    let (trace, writer) = capture(0x138);
    assert_eq!(broken(&trace), [(Rule::SharedBytes, Some(writer), None)]);
    safe(&capture(0x140).0);
}

/// A workspace, a read, and what its owner writes afterwards are all left alone
/// by it.
#[test]
fn must_not_be_flagged() {
    let mut c = Capture::new();
    c.persistent("weights", 0x100, 0x40);
    let view = c.persistent("view", 0x110, 0x10);
    let node = c.node(MAIN, "reader");
    c.all(node, Read, view);
    safe(&c.end());

    let mut c = Capture::new();
    let output = c.persistent("output", 0x100, 0x10);
    let scratch = c.scratch(MAIN, "scratch", 0x100, 16);
    let first = c.node(MAIN, "uses scratch");
    c.all(first, Write, scratch);
    let last = c.node(MAIN, "fills output");
    c.all(last, Write, output);
    safe(&c.end());
}

/// A word of a parameter may be a write, and no more than that.
#[test]
fn a_possible_write_is_possible() {
    let mut c = beside_weights(0x1000, 0);
    let scratch = c.scratch(SIDE, "other", 0x120, 16);
    let node = c.node(SIDE, "unknown");
    c.join(MAIN, SIDE);
    c.node(MAIN, "end");
    c.trace.possible.push(PossibleAccess {
        node,
        buffer: scratch,
        bytes: ByteRange::new(0, 16),
        param: Some(0),
        offset: 0,
    });
    let report = verify(&c.end()).unwrap();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].first.node, Some(node));
    assert_eq!(report.hazards_total, 1);
}

/// Every kept stretch against every write, at all distances: the hazards of the
/// definition, one for each writer however many owners it meets, and the same
/// count when few are listed.
#[test]
fn many_owners_and_many_writers() {
    let mut c = Capture::new();
    for at in 0..40_u64 {
        c.persistent("kept", 0x1000 + at * 32, 8 + at % 3 * 20);
    }
    let mut expected = Vec::new();
    for at in 0..60_u64 {
        let bytes = ByteRange::from_len(0x0fe0 + at * 24, 4 + at % 5 * 9).unwrap();
        let scratch = c.scratch(MAIN, "scratch", bytes.start, bytes.len());
        let node = c.node(MAIN, "writer");
        c.all(node, Write, scratch);
        let meets = |buffer: &Buffer| buffer.carried && buffer.range.overlaps(&bytes);
        if c.trace.buffers.iter().any(meets) {
            expected.push(node);
        }
    }
    let trace = c.end();
    assert!(expected.len() > 20 && expected.len() < 60);
    let alone = broken(&trace)
        .into_iter()
        .filter(|hazard| hazard.2.is_none());
    assert!(
        alone
            .map(|hazard| hazard.1)
            .eq(expected.into_iter().map(Some))
    );
    let total = verify(&trace).unwrap().hazards_total;
    let options = Options {
        limit: 3,
        ..Options::default()
    };
    let few = verify_with(&trace, &options).unwrap();
    assert_eq!((few.hazards.len(), few.hazards_total), (3, total));
}

/// The certificate of the capture without the weights does not do for the one
/// with them.
#[test]
fn no_certificate() {
    let with = beside_weights(0x110, 0).end();
    let mut without = with.clone();
    without.buffers[0].range = ByteRange::new(0x1000, 0x1040);
    let mut forged = safe(&without).certificate.unwrap();
    forged.about = certificate::About::of(&with);
    assert!(certificate::check(&with, &forged).is_err());
}
