//! Each rule: the smallest capture that breaks it, and the nearest safe one.

use streamweir_trace::{
    Access, ByteRange, KernelNode, NodeId, NodeKind, Param, PointerParam, ProtocolBreak,
    TraceError, UnknownAccess,
};
use streamweir_verify::{Fix, Rule, VerifyError, verify};

use crate::build::*;

const N: fn(u32) -> Option<NodeId> = |at| Some(NodeId(at));

/// main: W a --+-------- ; side: +-- R a, the fork before or after the write.
#[test]
fn r1_unordered_conflict() {
    for fork_after_write in [false, true] {
        let mut cap = Capture::new();
        let a = cap.persistent("a", 0x1000, 64);
        let write = cap.node(MAIN, "write");
        if fork_after_write {
            cap.join(SIDE, MAIN);
        }
        let read = cap.node(SIDE, "read");
        cap.join(MAIN, SIDE);
        cap.all(write, Write, a);
        cap.part(read, Read, a, 32, 64);
        let trace = cap.end();
        if fork_after_write {
            safe(&trace);
        } else {
            let report = verify(&trace).unwrap();
            assert_eq!(broken(&trace), [(Rule::UnorderedConflict, N(0), N(1))]);
            let hazard = &report.hazards[0];
            assert_eq!(hazard.bytes, ByteRange::new(0x1020, 0x1040));
            assert!(hazard.proven);
            assert_eq!(hazard.buffers[0].name, "a");
            let fix = Fix::Join {
                after: write,
                before: read,
            };
            assert_eq!(hazard.fix, fix);
        }
    }
}

/// A stream is not believed to be a chain: two nodes of it with no edge.
#[test]
fn r1_does_not_trust_the_declared_stream() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 64);
    let write = cap.node(MAIN, "write");
    let read = cap.node(MAIN, "read");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    let mut trace = cap.end();
    safe(&trace);
    trace.edges.clear();
    trace.streams[0].end.frontier = vec![write, read];
    assert_eq!(broken(&trace), [(Rule::UnorderedConflict, N(0), N(1))]);
}

/// main: W a (drop a, b takes its bytes) W b ; side: R a, joined before or
/// after W b.
#[test]
fn r2_reuse_before_the_join() {
    for join_first in [false, true] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0x1000, 64);
        let wa = cap.node(MAIN, "write a");
        cap.join(SIDE, MAIN);
        let ra = cap.node(SIDE, "read a");
        cap.free(a);
        if join_first {
            cap.join(MAIN, SIDE);
        }
        let b = cap.scratch(MAIN, "b", 0x1020, 64);
        let wb = cap.node(MAIN, "write b");
        cap.join(MAIN, SIDE);
        cap.all(wa, Write, a);
        cap.all(ra, Read, a);
        cap.all(wb, Write, b);
        let trace = cap.end();
        if join_first {
            safe(&trace);
        } else {
            assert_eq!(broken(&trace), [(Rule::SharedBytes, N(1), N(2))]);
            let report = verify(&trace).unwrap();
            assert_eq!(report.hazards[0].bytes, ByteRange::new(0x1020, 0x1040));
            assert_eq!(report.hazards[0].buffers.len(), 2);
        }
    }
}

/// main: W a, W b, R a on shared bytes: nothing is concurrent, b destroys a.
#[test]
fn r2_ordered_clobber() {
    for read_a_first in [false, true] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0x1000, 64);
        let b = cap.scratch(MAIN, "b", 0x1000, 64);
        let names = if read_a_first {
            [(Write, a), (Read, a), (Write, b)]
        } else {
            [(Write, a), (Write, b), (Read, a)]
        };
        for (mode, buffer) in names {
            let node = cap.node(MAIN, "node");
            cap.all(node, mode, buffer);
        }
        let trace = cap.end();
        if read_a_first {
            safe(&trace);
        } else {
            assert_eq!(broken(&trace), [(Rule::SharedBytes, N(1), N(2))]);
        }
    }
}

/// Memory carried from replay to replay is clobbered by any other writer of its
/// bytes, in whatever order.
#[test]
fn r2_carried_memory_shares_with_nobody() {
    for scratch_first in [false, true] {
        let mut cap = Capture::new();
        let weights = cap.persistent("weights", 0x1000, 64);
        let a = cap.scratch(MAIN, "a", 0x1020, 64);
        let mut nodes = [(Read, weights), (Write, a)];
        if scratch_first {
            nodes.reverse();
        }
        for (mode, buffer) in nodes {
            let node = cap.node(MAIN, "node");
            cap.all(node, mode, buffer);
        }
        let mut trace = cap.end();
        assert_eq!(broken(&trace), [(Rule::SharedBytes, N(0), N(1))]);
        trace.buffers[1].range = ByteRange::new(0x1040, 0x1080);
        safe(&trace);
    }
}

#[test]
fn r2_one_node_with_two_buffers_on_the_same_bytes() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    let first = cap.node(MAIN, "write a");
    let both = cap.node(MAIN, "a to b");
    cap.all(first, Write, a);
    cap.all(both, Read, a);
    cap.all(both, Write, b);
    assert!(broken(&cap.end()).contains(&(Rule::SharedBytes, N(1), N(1))));
}

#[test]
fn r3_unknown_range_and_pointer() {
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "kernel");
    let mut trace = cap.end();
    safe(&trace);
    trace.unknown.push(UnknownAccess {
        node,
        range: ByteRange::new(0x9000, 0x9100),
        mode: Read,
    });
    assert_eq!(broken(&trace), [(Rule::UnknownMemory, N(0), None)]);
    trace.unknown.clear();

    let pointer = |address: u64, buffer| Param {
        name: "keys".into(),
        offset: 0,
        bytes: address.to_le_bytes().to_vec(),
        pointer: Some(PointerParam { buffer, offset: 0 }),
        fields: Vec::new(),
    };
    let with = |params| {
        let mut trace = trace.clone();
        trace.nodes[0].kind = NodeKind::Kernel(KernelNode {
            params,
            ..KernelNode::default()
        });
        trace
    };
    let stray = with(vec![pointer(0x9000, None)]);
    let report = verify(&stray).unwrap();
    assert_eq!(report.hazards[0].rule, Rule::UnknownMemory);
    assert_eq!(report.hazards[0].bytes.start, 0x9000);
    assert!(report.hazards[0].what.contains("keys"));
    safe(&with(vec![pointer(0, None)]));

    // Of a pointer whose value nobody wrote down there is less to say.
    let mut unread = pointer(0, None);
    unread.name.clear();
    unread.bytes.clear();
    let report = verify(&with(vec![unread])).unwrap();
    assert_eq!(
        report.hazards[0].what,
        "parameter 0 points into no known memory"
    );
    assert_eq!(
        report.hazards[0].help,
        "register the memory that it points into as a persistent buffer"
    );
}

/// side uses what main allocated behind a node that side does not follow.
#[test]
fn r4_before_the_alloc_point() {
    for fork_late in [false, true] {
        let mut cap = Capture::new();
        if !fork_late {
            cap.join(SIDE, MAIN);
        }
        cap.node(MAIN, "earlier tenant");
        let a = cap.scratch(MAIN, "a", 0, 64);
        if fork_late {
            cap.join(SIDE, MAIN);
        }
        let write = cap.node(SIDE, "write");
        cap.join(MAIN, SIDE);
        cap.all(write, Write, a);
        let trace = cap.end();
        if fork_late {
            safe(&trace);
        } else {
            assert_eq!(broken(&trace), [(Rule::OwnerGone, N(1), N(0))]);
        }
    }
}

/// The last node before the alloc point is not after it.
#[test]
fn r4_the_frontier_itself_is_too_early() {
    let mut cap = Capture::new();
    let before = cap.node(MAIN, "before");
    let a = cap.scratch(MAIN, "a", 0, 64);
    cap.all(before, Write, a);
    assert_eq!(broken(&cap.end()), [(Rule::OwnerGone, N(0), N(0))]);
}

#[test]
fn r4_use_after_free() {
    for free_late in [false, true] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0, 64);
        let write = cap.node(MAIN, "write");
        if !free_late {
            cap.free(a);
        }
        let read = cap.node(MAIN, "read");
        if free_late {
            cap.free(a);
        }
        cap.all(write, Write, a);
        cap.all(read, Read, a);
        let trace = cap.end();
        if free_late {
            safe(&trace);
        } else {
            assert_eq!(broken(&trace), [(Rule::OwnerGone, N(1), None)]);
        }
    }
}

#[test]
fn r6_unjoined_stream() {
    for joined in [false, true] {
        let mut cap = Capture::new();
        cap.node(MAIN, "a");
        cap.join(SIDE, MAIN);
        cap.node(SIDE, "b");
        cap.node(SIDE, "c");
        if joined {
            cap.join(MAIN, SIDE);
        }
        cap.trace.streams[1].end.joined = joined;
        let mut trace = cap.end();
        if joined {
            safe(&trace);
        } else {
            let report = verify(&trace).unwrap();
            assert_eq!(broken(&trace), [(Rule::Protocol, N(2), None)]);
            assert_eq!(report.hazards[0].first.stream.as_deref(), Some("side"));
            // The recorder's word that a join exists does not make one.
            trace.streams[1].end.joined = true;
            assert_eq!(broken(&trace), [(Rule::Protocol, N(2), None)]);
        }
    }
}

#[test]
fn r6_streams_without_work_are_told_apart() {
    let mut cap = Capture::new();
    cap.node(MAIN, "a");
    cap.trace.streams[1].end.joined = false;
    cap.trace.streams[2].end.joined = false;
    let report = verify(&cap.end()).unwrap();
    assert_eq!(report.hazards_total, 2);
    let streams: Vec<_> = report
        .hazards
        .iter()
        .map(|h| h.first.stream.clone().unwrap())
        .collect();
    assert_eq!(streams, ["side", "third"]);
}

#[test]
fn r6_calls_that_a_capture_does_not_allow() {
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "a");
    let mut trace = cap.end();
    trace.protocol.push(ProtocolBreak {
        call: "cuMemFree".into(),
        what: "frees memory while a capture is open".into(),
        stream: Some(MAIN),
        node: Some(node),
        line: None,
    });
    let report = verify(&trace).unwrap();
    assert_eq!(rules(&trace), [Rule::Protocol]);
    assert!(report.hazards[0].what.contains("cuMemFree"));
    safe(&report.hazards[0].fix.apply(&trace));
}

#[test]
fn r11_workspace_of_another_stream() {
    let mut cap = Capture::new();
    let w = cap.persistent("workspace", 0, 64);
    cap.trace.buffers[w.index()].kind = streamweir_trace::BufferKind::Workspace { stream: MAIN };
    let one = cap.node(MAIN, "gemm");
    cap.join(SIDE, MAIN);
    let two = cap.node(SIDE, "gemm");
    cap.join(MAIN, SIDE);
    cap.all(one, Write, w);
    let trace = cap.trace.clone();
    safe(&trace);
    cap.all(two, Write, w);
    let trace = cap.end();
    assert_eq!(broken(&trace), [(Rule::LibraryState, N(1), None)]);
    safe(&verify(&trace).unwrap().hazards[0].fix.apply(&trace));
}

/// Every byte of a read must have been written, by whichever nodes.
#[test]
fn r13_byte_precise() {
    for (second_start, safe_) in [(64, true), (65, false)] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0x1000, 128);
        let low = cap.node(MAIN, "low");
        let high = cap.node(MAIN, "high");
        let read = cap.node(MAIN, "read");
        cap.part(low, Write, a, 0, 64);
        cap.part(high, Write, a, second_start, 128);
        cap.all(read, Read, a);
        let trace = cap.end();
        if safe_ {
            safe(&trace);
        } else {
            assert_eq!(broken(&trace), [(Rule::ReadBeforeWrite, N(2), None)]);
            let report = verify(&trace).unwrap();
            assert_eq!(report.hazards[0].bytes, ByteRange::new(0x1040, 0x1041));
        }
    }
}

#[test]
fn r13_carried_state_and_read_write() {
    for mode in [ReadWrite, Atomic, Read] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "counter", 0, 64);
        let node = cap.node(MAIN, "count");
        let read = cap.node(MAIN, "read");
        cap.all(node, mode, a);
        if mode.writes() {
            cap.all(read, Read, a);
        }
        let mut trace = cap.end();
        // The second read is fed by the first node.
        assert_eq!(
            broken(&trace),
            [(Rule::ReadBeforeWrite, N(0), None)],
            "{mode}"
        );
        trace.buffers[0].carried = true;
        safe(&trace);
    }
}

#[test]
fn a_cycle_is_named_and_is_no_verdict() {
    let mut cap = Capture::new();
    cap.node(MAIN, "a");
    cap.node(MAIN, "b");
    let mut trace = cap.end();
    trace.add_edge(streamweir_trace::Edge::full(NodeId(1), NodeId(0)));
    let error = verify(&trace).unwrap_err();
    assert!(matches!(&error, VerifyError::Cycle { nodes } if nodes.len() == 2));
    assert!(error.to_string().contains("`a`"), "{error}");
}

#[test]
fn malformed_traces_are_errors() {
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "a");
    let a = cap.persistent("a", 0x1000, 64);
    cap.all(node, Write, a);
    let trace = cap.end();
    let mut outside = trace.clone();
    outside.accesses[0].bytes.end = 65;
    assert!(matches!(verify(&outside), Err(VerifyError::Malformed(_))));
    let mut inverted = trace.clone();
    inverted.buffers[0].range.end = 0;
    assert!(matches!(
        verify(&inverted),
        Err(VerifyError::Malformed(TraceError::InvertedRange { .. }))
    ));
    let mut inverted = trace;
    inverted.accesses[0].bytes.start = 65;
    assert!(matches!(
        verify(&inverted),
        Err(VerifyError::Malformed(TraceError::InvertedRange { .. }))
    ));
}

#[test]
fn an_empty_trace_is_safe() {
    safe(&streamweir_trace::Trace::new("nothing"));
}

#[test]
fn what_is_not_analysed_is_said() {
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "host");
    cap.node(MAIN, "child one");
    cap.node(MAIN, "child two");
    cap.node(MAIN, "library");
    let mut trace = cap.end();
    trace.nodes[0].kind = NodeKind::Host;
    trace.nodes[1].kind = NodeKind::ChildGraph;
    trace.nodes[2].kind = NodeKind::ChildGraph;
    trace.nodes[3].analysed = false;
    trace.assumptions.push("page ids below 4096".into());
    let report = safe(&trace);
    assert_eq!(
        report.not_analysed,
        [
            "1 node not analysed: host function (n0 `host`): \
             the function may touch any host memory, and device memory it maps",
            "2 nodes not analysed: child graph (n1 `child one`, n2 `child two`): \
             its nodes are not expanded, and may touch any memory that they refer to",
            "1 node not analysed: kernel (n3 `library`): its accesses are not declared",
        ]
    );
    assert_eq!(report.assumptions, ["page ids below 4096"]);
    assert!(report.to_string().contains("assumes: page ids below 4096"));
    // A declared access is an analysis of sorts.
    let a = trace.add_buffer(streamweir_trace::Buffer::persistent(
        "a",
        ByteRange::new(0, 8),
    ));
    trace.add_access(Access::new(node, a, ByteRange::new(0, 8), Write));
    assert_eq!(safe(&trace).not_analysed.len(), 2);
}
