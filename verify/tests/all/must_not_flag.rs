//! The shapes that must not be flagged.

use crate::build::*;

fn two_streams(
    first: (streamweir_trace::AccessMode, u64, u64),
    second: (streamweir_trace::AccessMode, u64, u64),
) -> streamweir_trace::Trace {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 128);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.part(one, first.0, a, first.1, first.2);
    cap.part(two, second.0, a, second.1, second.2);
    cap.end()
}

#[test]
fn read_against_read() {
    safe(&two_streams((Read, 0, 128), (Read, 0, 128)));
}

#[test]
fn disjoint_ranges_of_one_buffer() {
    safe(&two_streams((Write, 0, 64), (Write, 64, 128)));
    assert_eq!(
        rules(&two_streams((Write, 0, 65), (Write, 64, 128))).len(),
        1
    );
}

#[test]
fn atomic_against_atomic() {
    safe(&two_streams((Atomic, 0, 128), (Atomic, 0, 128)));
    assert_eq!(
        rules(&two_streams((Atomic, 0, 128), (Read, 0, 128))).len(),
        1
    );
}

#[test]
fn accesses_of_no_bytes() {
    safe(&two_streams((Write, 5, 5), (Write, 0, 128)));
}

#[test]
fn reuse_after_a_join_that_covers_all_readers() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let wa = cap.node(MAIN, "write a");
    cap.join(SIDE, MAIN);
    cap.join(THIRD, MAIN);
    let r1 = cap.node(SIDE, "read a");
    let r2 = cap.node(THIRD, "read a");
    cap.free(a);
    cap.join(MAIN, SIDE);
    cap.join(MAIN, THIRD);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    let wb = cap.node(MAIN, "write b");
    cap.all(wa, Write, a);
    cap.all(r1, Read, a);
    cap.all(r2, Read, a);
    cap.all(wb, Write, b);
    safe(&cap.end());
}

#[test]
fn order_over_a_third_stream() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 64);
    let write = cap.node(SIDE, "write");
    cap.join(THIRD, SIDE);
    cap.node(THIRD, "unrelated");
    cap.join(MAIN, THIRD);
    let read = cap.node(MAIN, "read");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    safe(&cap.end());
}

#[test]
fn two_streams_that_write_in_turn() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 64);
    for _ in 0..3 {
        for (stream, other) in [(MAIN, SIDE), (SIDE, MAIN)] {
            cap.join(stream, other);
            let node = cap.node(stream, "write");
            cap.all(node, ReadWrite, a);
        }
    }
    cap.join(MAIN, SIDE);
    safe(&cap.end());
}

#[test]
fn a_join_through_an_event_of_a_stream_that_had_joined_both() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 64);
    let b = cap.persistent("b", 64, 64);
    let wa = cap.node(MAIN, "write a");
    let wb = cap.node(SIDE, "write b");
    cap.join(THIRD, MAIN);
    cap.join(THIRD, SIDE);
    // No node of its own: the event alone carries both.
    cap.join(MAIN, THIRD);
    let read = cap.node(MAIN, "read both");
    cap.all(wa, Write, a);
    cap.all(wb, Write, b);
    cap.all(read, Read, a);
    cap.all(read, Read, b);
    safe(&cap.end());
}

/// Undeclared words of a parameter struct are no pointers.
#[test]
fn stale_words_in_unused_struct_bytes() {
    let mut cap = Capture::new();
    cap.persistent("a", 0x1000, 64);
    cap.node(MAIN, "gemm");
    let mut trace = cap.end();
    trace.nodes[0].kind = streamweir_trace::NodeKind::Kernel(streamweir_trace::KernelNode {
        params: vec![streamweir_trace::Param {
            name: "args".into(),
            offset: 0,
            bytes: 0xdead_0000_u64.to_le_bytes().repeat(4),
            pointer: None,
            fields: Vec::new(),
        }],
        ..Default::default()
    });
    safe(&trace);
}

#[test]
fn buffers_without_accesses_or_bytes_may_lie_anywhere() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    cap.scratch(MAIN, "untouched", 0x1000, 64);
    let empty = cap.scratch(MAIN, "empty", 0x1010, 0);
    let node = cap.node(MAIN, "write");
    cap.all(node, Write, a);
    cap.all(node, Write, empty);
    safe(&cap.end());
}

/// Two registrations of memory that is only read.
#[test]
fn reads_of_shared_bytes() {
    let mut cap = Capture::new();
    let a = cap.persistent("weights", 0x1000, 64);
    let b = cap.persistent("a view of them", 0x1000, 32);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.all(one, Read, a);
    cap.all(two, Read, b);
    safe(&cap.end());
}

/// Event nodes inside a graph order nothing, and need nothing.
#[test]
fn event_nodes() {
    let mut cap = Capture::new();
    cap.node(MAIN, "record");
    cap.node(MAIN, "wait");
    let mut trace = cap.end();
    trace.nodes[0].kind = streamweir_trace::NodeKind::EventRecord;
    trace.nodes[1].kind = streamweir_trace::NodeKind::EventWait;
    assert!(safe(&trace).not_analysed.is_empty());
}

/// What a kernel does with its own bytes, between its own blocks, is no race of
/// streams.
#[test]
fn one_kernel_and_its_own_bytes() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 128);
    let node = cap.node(MAIN, "in place");
    cap.part(node, Read, a, 0, 128);
    cap.part(node, Write, a, 64, 128);
    cap.part(node, Atomic, a, 0, 8);
    safe(&cap.end());
}

/// Memory of the graph that two streams use between its nodes, in one graph
/// twice at one address.
#[test]
fn graph_memory_that_is_freed_after_a_join() {
    use streamweir_trace::{AllocNode, Buffer, BufferKind, ByteRange, FreeNode, NodeKind};
    let mut cap = Capture::new();
    for name in ["first", "second"] {
        let alloc = cap.node(MAIN, "alloc");
        cap.join(SIDE, MAIN);
        let write = cap.node(SIDE, "write");
        cap.join(MAIN, SIDE);
        let read = cap.node(MAIN, "read");
        let free = cap.node(MAIN, "free");
        let at = 0x7000;
        cap.trace.nodes[alloc.index()].kind = NodeKind::MemAlloc(AllocNode { at, bytes: 64 });
        cap.trace.nodes[free.index()].kind = NodeKind::MemFree(FreeNode { at });
        let buffer = cap.trace.add_buffer(Buffer {
            name: name.into(),
            kind: BufferKind::Graph {
                alloc,
                free: Some(free),
            },
            range: ByteRange::new(at, at + 64),
            carried: false,
        });
        cap.all(write, Write, buffer);
        cap.all(read, Read, buffer);
    }
    let report = safe(&cap.end());
    assert!(report.not_analysed.is_empty());
    assert!(report.growth.is_empty());
}
