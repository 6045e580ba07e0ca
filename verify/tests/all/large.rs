//! Inputs that are small to write and were large to judge: they must end, in little
//! memory, or be refused in words.

use streamweir_trace::{
    Access, BlockSync, BufferKind, ByteRange, CopyNode, Edge, KernelNode, Node, NodeKind, Stream,
    Trace,
};
use streamweir_verify::{Options, Rule, Verdict, VerifyError, verify, verify_with};

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

/// Rows that nothing declares are looked at up to a bound.
#[test]
fn more_rows_than_are_looked_at() {
    let mut trace = Trace::new("rows");
    let main = trace.add_stream(Stream::origin("main"));
    let buffer = |name: &str, at: u64| {
        streamweir_trace::Buffer::persistent(name, ByteRange::new(at, at + (1 << 30)))
    };
    trace.add_buffer(buffer("a", 1 << 32));
    trace.add_buffer(buffer("b", 1 << 33));
    let mut last = None;
    for _ in 0..300 {
        let copy = CopyNode {
            rows: 4096,
            to_pitch: 512,
            from_pitch: 512,
            ..CopyNode::linear(1 << 32, 1 << 33, 64)
        };
        let node = trace.add_node(Node::new(NodeKind::Memcpy(copy), "copy").on(main));
        if let Some(last) = last.replace(node) {
            trace.add_edge(Edge::full(last, node));
        }
    }
    let refused = verify(&trace).unwrap_err();
    assert!(
        matches!(refused, VerifyError::TooMuchShown { .. }),
        "{refused}"
    );
    // Declared, there is nothing to look at.
    for node in (0..300).map(streamweir_trace::NodeId) {
        for (buffer, mode) in [(0, Write), (1, Read)] {
            let buffer = streamweir_trace::BufferId(buffer);
            let bytes = ByteRange::new(0, 512 * 4096);
            trace.add_access(Access::new(node, buffer, bytes, mode));
        }
    }
    safe(&trace);
    assert!(matches!(trace.buffers[0].kind, BufferKind::Persistent));
}
