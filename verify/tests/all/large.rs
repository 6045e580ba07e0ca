//! Inputs that are small to write and were large to judge: they must end, in little
//! memory, or be refused in words.

use streamweir_trace::{
    Access, BlockSync, BufferId, ByteRange, Edge, FillNode, KernelNode, Node, NodeId, NodeKind,
    Stream, Trace,
};
use streamweir_verify::{Options, Rule, Verdict, VerifyError, certificate, verify, verify_with};

use crate::build::*;

/// Two unordered nodes with many accesses of the same bytes each: one hazard.
#[test]
fn two_nodes_with_many_accesses_of_the_same_bytes() {
    for equal in [true, false] {
        let count = if equal { 5000 } else { 1500 };
        let mut cap = Capture::new();
        let a = cap.persistent("a", 0x1000, 0x10000);
        let one = cap.node(MAIN, "one");
        let two = cap.node(SIDE, "two");
        for at in 0..count {
            let at = if equal { 0 } else { at };
            cap.part(one, Write, a, at, 0x8000 + at);
            cap.part(two, Read, a, at, 0x8000 + at);
        }
        let trace = cap.end();
        let report = verify(&trace).unwrap();
        let conflicts = report
            .hazards
            .iter()
            .filter(|h| h.rule == Rule::UnorderedConflict);
        assert_eq!(conflicts.count(), 1, "{}", report.hazards_total);
        assert_eq!(report.hazards[0].bytes.start, 0x1000);
    }
}

/// So many buffers on the same bytes, all in use at one node, that their pairs do
/// not fit: refused. A thousand are judged.
#[test]
fn many_buffers_on_the_same_bytes() {
    let trace = |buffers: u32| {
        let mut cap = Capture::new();
        let ids: Vec<_> = (0..buffers)
            .map(|at| cap.scratch(MAIN, &format!("b{at}"), 0x1000, 64))
            .collect();
        let node = cap.node(MAIN, "all");
        for id in ids {
            cap.all(node, Write, id);
        }
        cap.end()
    };
    let report = verify(&trace(1000)).unwrap();
    assert_eq!((report.verdict, report.hazards_total), (Verdict::Hazard, 1));
    assert_eq!(report.hazards[0].buffers.len(), 1000);
    let refused = verify(&trace(4000)).unwrap_err();
    assert!(
        matches!(refused, VerifyError::TooEntangled { .. }),
        "{refused}"
    );
}

/// Kernels that spin, all beside each other: every pair is a hazard, and counted
/// once.
#[test]
fn many_spinning_kernels_without_edges() {
    const KERNELS: u64 = 2000;
    let mut trace = Trace::new("spinning");
    let main = trace.add_stream(Stream::origin("main"));
    for _ in 0..KERNELS {
        let kernel = NodeKind::Kernel(KernelNode {
            sync: BlockSync::Spin,
            ..KernelNode::default()
        });
        trace.add_node(Node::new(kernel, "spin").on(main));
    }
    let options = Options {
        limit: 10,
        ..Options::default()
    };
    let report = verify_with(&trace, &options).unwrap();
    assert_eq!(report.hazards_total, KERNELS * (KERNELS - 1) / 2);
    assert_eq!(report.hazards.len(), 10);
    // Wider graphs than can be ordered are refused.
    for _ in 0..10_000 {
        trace.add_node(Node::new(NodeKind::Empty, "wide"));
    }
    let refused = verify(&trace).unwrap_err();
    assert!(matches!(refused, VerifyError::TooWide { .. }), "{refused}");
}

/// Which pairs of spinning kernels are hazards, against all pairs: of each chain
/// the nearest before and behind.
#[test]
fn spinning_kernels_are_counted_once() {
    let mut cap = Capture::new();
    for (stream, spin) in [
        (MAIN, true),
        (SIDE, true),
        (MAIN, false),
        (SIDE, true),
        (THIRD, true),
        (MAIN, true),
        (SIDE, false),
    ] {
        let node = cap.node(stream, "k");
        if spin && let NodeKind::Kernel(kernel) = &mut cap.trace.nodes[node.index()].kind {
            kernel.sync = BlockSync::Spin;
        }
    }
    let trace = cap.end();
    let report = verify(&trace).unwrap();
    let resident = report
        .hazards
        .iter()
        .filter(|h| h.rule == Rule::CoResidency);
    let mut pairs: Vec<(u32, u32)> = resident
        .flat_map(|h| {
            // What one join mends is one hazard with its members.
            let members = h.members.iter().map(|m| (&m.first, &m.second));
            [(&h.first, h.second.as_ref().unwrap())]
                .into_iter()
                .chain(members)
        })
        .map(|(first, second)| (first.node.unwrap().0, second.node.unwrap().0))
        .collect();
    let listed = pairs.len();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), listed, "each once");
    // By hand, chain by chain: main 0 2 5, side 1 3 6, third 4.
    let mut expected = Vec::new();
    let chains: [&[u32]; 3] = [&[0, 2, 5], &[1, 3, 6], &[4]];
    for (own, chain) in chains.iter().enumerate() {
        for &spin in chain.iter().filter(|node| [0, 1, 3, 4, 5].contains(*node)) {
            for (_, other) in chains.iter().enumerate().filter(|(at, _)| *at != own) {
                let before = other.iter().rev().find(|&&node| node < spin);
                let behind = other.iter().find(|&&node| node > spin);
                expected.extend(before.map(|&node| (node, spin)));
                expected.extend(behind.map(|&node| (spin, node)));
            }
        }
    }
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(pairs, expected);
}

/// A fill on a stream of its own of so many rows of 64 bytes, 512 bytes apart, from
/// `start` on.
fn fill_of_rows(cap: &mut Capture, stream: streamweir_trace::StreamId, start: u64, rows: u64) {
    let node = cap.node(stream, "fill");
    cap.trace.nodes[node.index()].kind = NodeKind::Memset(FillNode {
        rows,
        pitch: 512,
        ..FillNode::linear(start, 64, 0)
    });
}

/// Rows are exact up to a bound in all, and beyond it said to be possible: columns
/// beside each other are no race, the same column is one.
#[test]
fn rows_of_copies_and_fills() {
    const START: u64 = 1 << 32;
    const FEW: u64 = 1 << 17;
    let beside = |apart: u64, rows: u64| {
        let mut cap = Capture::new();
        let at = |row: u64| START + 512 * row;
        cap.persistent("rows", START, 512 * (rows + 1));
        cap.join(SIDE, MAIN);
        fill_of_rows(&mut cap, MAIN, START, rows);
        fill_of_rows(&mut cap, SIDE, START + apart, rows);
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        (cap.end(), at(0))
    };
    let refused = |trace: &Trace| {
        let claim = certificate::claim(trace).unwrap();
        certificate::check(trace, &claim).is_err()
    };
    for rows in [3, 4097, FEW] {
        safe(&beside(64, rows).0);
        let (trace, first) = beside(63, rows);
        let report = verify(&trace).unwrap();
        assert_eq!(report.verdict, Verdict::Hazard, "{report}");
        assert_eq!(
            report.hazards[0].bytes,
            ByteRange::new(first + 63, first + 64)
        );
        assert!(refused(&trace));
    }
    for (apart, rows) in [(64, FEW + 1), (63, FEW + 1), (64, u64::MAX >> 12)] {
        let (trace, _) = beside(apart, rows);
        let report = verify(&trace).unwrap();
        assert_eq!(report.verdict, Verdict::Possible, "{report}");
        assert!(refused(&trace));
    }
    // In order it is safe, and proved to be.
    let (mut ordered, _) = beside(0, FEW + 1);
    ordered.add_edge(Edge::full(NodeId(0), NodeId(1)));
    let report = safe(&ordered);
    certificate::check(&ordered, &report.certificate.unwrap()).unwrap();
    // Declared, there is nothing to look at.
    let (mut declared, _) = beside(64, FEW + 1);
    for (node, at) in [(0, 0), (1, 64)] {
        let bytes = ByteRange::new(at, at + 512 * FEW + 64);
        declared.add_access(Access::new(NodeId(node), BufferId(0), bytes, Write));
    }
    let report = verify(&declared).unwrap();
    assert_eq!(
        report.verdict,
        Verdict::Hazard,
        "what is declared counts: {report}"
    );
}

/// What a node declares to read says nothing of the rows that it may write.
#[test]
fn rows_that_are_declared_in_another_mode() {
    const ROWS: u64 = (1 << 18) + 1;
    let mut cap = Capture::new();
    let rows = cap.persistent("rows", 1 << 32, 512 * ROWS);
    fill_of_rows(&mut cap, MAIN, 1 << 32, ROWS);
    let read = cap.node(SIDE, "read");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.part(read, Read, rows, 0, 16);
    cap.all(NodeId(0), Read, rows);
    let trace = cap.end();
    let report = verify(&trace).unwrap();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);
    let claim = certificate::claim(&trace).unwrap();
    assert!(certificate::check(&trace, &claim).is_err());
}

/// Bytes that only a row may have written are not surely written.
#[test]
fn a_read_of_what_many_rows_may_have_written() {
    for (rows, expected) in [(8, Verdict::Hazard), (1 << 19, Verdict::Possible)] {
        let mut cap = Capture::new();
        let scratch = cap.scratch(MAIN, "rows", 1 << 32, 512 * rows);
        fill_of_rows(&mut cap, MAIN, 1 << 32, rows);
        let read = cap.node(MAIN, "read");
        cap.part(read, Read, scratch, 0, 512 * (rows - 1) + 64);
        let report = verify(&cap.end()).unwrap();
        assert_eq!(report.hazards[0].rule, Rule::ReadBeforeWrite);
        assert_eq!(report.verdict, expected, "{report}");
    }
}

/// Two hundred fills in no order, of so many rows that pairs of rows would be a
/// hundred million: pairs of fills, each possible, and counted.
#[test]
fn many_fills_of_many_rows() {
    let mut trace = Trace::new("fills");
    let range = ByteRange::new(1 << 32, 1 << 33);
    trace.add_buffer(streamweir_trace::Buffer::persistent("b", range));
    for _ in 0..200 {
        let fill = FillNode {
            rows: 4096,
            pitch: 512,
            ..FillNode::linear(1 << 32, 64, 0)
        };
        trace.add_node(Node::new(NodeKind::Memset(fill), "fill"));
    }
    let report = verify(&trace).unwrap();
    assert_eq!(report.verdict, Verdict::Possible);
    assert_eq!(report.hazards_total, 200 * 199 / 2);
    assert_eq!(report.stats.comparisons, 200 * 199 / 2 * 2);
}

/// Readers in no order of nested parts of one buffer: each run of bytes has been read
/// by all readers around it, which grows with the square of their number.
#[test]
fn readers_of_nested_bytes() {
    let trace = |readers: u32| {
        let mut trace = Trace::new("nested");
        let range = ByteRange::new(0x1000, 0x10_0000);
        let buffer = trace.add_buffer(streamweir_trace::Buffer::persistent("b", range));
        for at in 0..readers {
            let node = trace.add_node(Node::new(NodeKind::kernel(), "read"));
            let bytes = ByteRange::new(at.into(), (0x8000 - at).into());
            trace.add_access(Access::new(node, buffer, bytes, Read));
        }
        let bytes = ByteRange::new(0x9000, 0x9001);
        trace.add_access(Access::new(NodeId(0), buffer, bytes, Write));
        trace
    };
    let small = trace(300);
    let report = safe(&small);
    assert!(report.stats.comparisons < 300 * 300);
    certificate::check(&small, &report.certificate.unwrap()).unwrap();
    let refused = verify(&trace(2200)).unwrap_err();
    assert!(
        matches!(refused, VerifyError::TooEntangled { .. }),
        "{refused}"
    );
}

/// A name of a hundred thousand letters in many hazards: its beginning is said in each.
#[test]
fn long_names_are_said_in_part() {
    let mut trace = Trace::new("long names");
    let long = "n".repeat(100_000);
    let main = trace.add_stream(Stream::origin(long.clone()));
    let range = ByteRange::new(0x1000, 0x2000);
    let buffer = trace.add_buffer(streamweir_trace::Buffer::persistent(long.clone(), range));
    let scope = trace.add_scope(long.clone());
    for _ in 0..100 {
        let mut node = Node::new(NodeKind::kernel(), long.clone()).on(main);
        node.scope = Some(scope);
        node.launch = Some(streamweir_trace::SourceLine {
            file: long.clone(),
            line: 1,
        });
        let node = trace.add_node(node);
        let bytes = ByteRange::new(0, 16);
        trace.add_access(Access::new(node, buffer, bytes, Write));
    }
    let report = verify(&trace).unwrap();
    assert_eq!(report.hazards_total, 100 * 99 / 2);
    let longest = report.hazards.iter().map(|hazard| hazard.to_string().len());
    assert!(longest.max().unwrap() < 8_000);
    let first = &report.hazards[0];
    assert_eq!(first.first.name.chars().count(), 256);
    assert!(first.first.name.ends_with('…') && first.buffers[0].name.ends_with('…'));
}

/// A line of nodes and then many chains: the certificate of what can be verified can
/// be checked, however wide the graph is at its end.
#[test]
fn a_wide_end_has_a_certificate_that_checks() {
    let mut trace = Trace::new("wide end");
    for at in 0..60_000_u32 {
        let node = trace.add_node(Node::new(NodeKind::kernel(), "line"));
        if at > 0 {
            trace.add_edge(Edge::full(NodeId(at - 1), node));
        }
    }
    for _ in 0..4500 {
        trace.add_node(Node::new(NodeKind::kernel(), "alone"));
    }
    let proof = safe(&trace).certificate.unwrap();
    certificate::check(&trace, &proof).unwrap();
    // Chains are numbered as they begin.
    let mut forged = proof.clone();
    forged.order[0].1 = u32::MAX;
    assert!(certificate::check(&trace, &forged).is_err());
}
