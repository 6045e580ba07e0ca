//! What a trace says of the capture itself: protocol, unknown memory, memory that the graph allocates, workspaces.

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{Certificate, check, claim};

use super::{capture, certified, forged, unheld};
use crate::build::*;

/// What the trace says outright of unknown memory, of the protocol and of
/// workspaces, nothing but the checker itself can refuse.
#[test]
fn refuses_what_breaks_the_rules_about_the_capture_itself() {
    use streamweir_trace::{
        Access, Buffer, BufferKind, ByteRange, KernelNode, NodeKind, Param, PointerParam,
        ProtocolBreak, StrayMemory, StrayWord, UnknownAccess,
    };
    let trace = capture();
    let n = |at| Some(NodeId(at));
    assert_eq!(forged(&trace, |_| {}), None);
    let unknown = |len: u64| {
        move |t: &mut Trace| {
            t.unknown.push(UnknownAccess {
                node: NodeId(1),
                range: ByteRange::new(64, 64 + len),
                mode: Read,
            });
        }
    };
    assert_eq!(forged(&trace, unknown(8)), Some(("R3", None)));
    assert_eq!(forged(&trace, unknown(0)), None);
    for memory in [StrayMemory::Live, StrayMemory::Freed] {
        let stray = |t: &mut Trace| {
            t.stray.push(StrayWord {
                node: NodeId(2),
                param: 0,
                offset: 0,
                at: 64,
                memory,
                name: String::new(),
            });
        };
        assert_eq!(forged(&trace, stray), Some(("R3", None)));
    }
    for (address, refused) in [(64_u64, Some(("R3", n(3)))), (0, None)] {
        let pointer = |t: &mut Trace| {
            t.nodes[3].kind = NodeKind::Kernel(KernelNode {
                params: vec![Param {
                    name: "p".into(),
                    offset: 0,
                    bytes: address.to_le_bytes().to_vec(),
                    pointer: Some(PointerParam {
                        buffer: None,
                        offset: 0,
                    }),
                    fields: Vec::new(),
                }],
                ..KernelNode::default()
            });
        };
        assert_eq!(forged(&trace, pointer), refused);
    }
    let broken = |t: &mut Trace| {
        t.protocol.push(ProtocolBreak {
            call: "cudaFree".into(),
            what: "not while capturing".into(),
            stream: None,
            node: None,
            line: None,
        });
    };
    assert_eq!(forged(&trace, broken), Some(("R6", None)));
    let unjoined = |t: &mut Trace| t.streams[1].end.joined = false;
    assert_eq!(forged(&trace, unjoined), Some(("R6", None)));
    let elsewhere = |t: &mut Trace| t.streams[0].end.frontier = vec![NodeId(2)];
    assert_eq!(forged(&trace, elsewhere), Some(("R6", n(3))));
    for (stream, refused) in [(SIDE, Some(("R11", n(3)))), (MAIN, None)] {
        let workspace = |t: &mut Trace| {
            let bytes = ByteRange::new(0, 64);
            let workspace = t.add_buffer(Buffer {
                name: "w".into(),
                kind: BufferKind::Workspace { stream },
                range: ByteRange::new(0x9000, 0x9040),
                carried: false,
            });
            t.add_access(Access::new(NodeId(3), workspace, bytes, Write));
        };
        assert_eq!(forged(&trace, workspace), refused);
    }
}

/// The pairs of allocation and free nodes that a certificate may state.
#[test]
fn refuses_pairs_of_allocation_and_free_that_are_none() {
    use streamweir_trace::{AllocNode, FreeNode, NodeKind};
    let mut cap = Capture::new();
    let node = |cap: &mut Capture, kind| {
        let node = cap.node(MAIN, "memory");
        cap.trace.nodes[node.index()].kind = kind;
        node
    };
    let alloc = |at| NodeKind::MemAlloc(AllocNode { at, bytes: 64 });
    let free = |at| NodeKind::MemFree(FreeNode { at });
    let one = node(&mut cap, alloc(0x40));
    let two = node(&mut cap, alloc(0x80));
    let again = node(&mut cap, alloc(0x40));
    let nameless = [node(&mut cap, alloc(0)), node(&mut cap, free(0))];
    let kernel = cap.node(MAIN, "kernel");
    let [freed_one, freed_two, freed_again] = [0x40, 0x80, 0x40].map(|at| node(&mut cap, free(at)));
    let trace = cap.end();
    let good = certified(&trace);
    let pairs = [(one, freed_one), (two, freed_two), (again, freed_again)];
    assert_eq!(good.freed, pairs);
    check(&trace, &good).unwrap();
    let right = (one, freed_one);
    for (freed, rule, at) in [
        (vec![(one, freed_two), (two, freed_one)], "R8", freed_two),
        (vec![right, (two, freed_one)], "R8", freed_one),
        (vec![right, (again, freed_one)], "R8", freed_one),
        (vec![right, right, (two, freed_two)], "R8", freed_one),
        (vec![right], "R7", two),
        (vec![right, (kernel, freed_two)], "R8", freed_two),
        (vec![right, (two, kernel)], "R8", kernel),
        (vec![right, (NodeId(99), freed_two)], "R8", freed_two),
        (vec![right, (two, NodeId(99))], "R8", NodeId(99)),
        (vec![(nameless[0], nameless[1])], "R8", nameless[1]),
    ] {
        let forged = Certificate {
            freed,
            ..good.clone()
        };
        let refused = check(&trace, &forged);
        assert_eq!(refused, Err(unheld(rule, at.0)), "{forged:?}");
    }
    // With memory left to whoever launches, the free node still needs its pair.
    let mut left = trace;
    left.unfreed = streamweir_trace::Unfreed::FreedByLauncher;
    let mut silent = claim(&left).unwrap();
    silent.freed.pop();
    assert_eq!(check(&left, &silent), Err(unheld("R8", freed_again.0)));
}

/// What a trace claims is refused where a programmatic edge is taken for a full one
/// by a free node, an allocation, or a kernel whose blocks spin.
#[test]
fn refuses_to_take_the_start_of_a_node_for_its_wait() {
    use streamweir_trace::{
        AllocNode, BlockSync, Buffer, BufferKind, ByteRange, EdgeKind, FreeNode, KernelNode,
        NodeKind, PdlWait,
    };
    let spin = NodeKind::Kernel(KernelNode {
        sync: BlockSync::Spin,
        ..KernelNode::default()
    });
    let alloc = NodeKind::MemAlloc(AllocNode { at: 64, bytes: 64 });
    let free = NodeKind::MemFree(FreeNode { at: 64 });
    for (kinds, edge, rule) in [
        (
            [NodeKind::kernel(), spin.clone(), NodeKind::Empty],
            0,
            "R14",
        ),
        ([NodeKind::ChildGraph, spin, NodeKind::Empty], 0, "R14"),
        ([alloc.clone(), free.clone(), NodeKind::Empty], 0, "R8"),
        ([alloc, NodeKind::kernel(), free], 1, "R8"),
    ] {
        let mut cap = Capture::new();
        let nodes = ["a", "b", "c"].map(|name| cap.node(MAIN, name));
        let uses = matches!(kinds[2], NodeKind::MemFree(_));
        for (node, kind) in nodes.into_iter().zip(kinds) {
            cap.trace.nodes[node.index()].kind = kind;
            cap.trace.nodes[node.index()].pdl = PdlWait::OnAllPaths;
        }
        if uses {
            let (name, alloc) = ("memory".to_owned(), nodes[0]);
            let memory = cap.trace.add_buffer(Buffer {
                name,
                kind: BufferKind::Graph { alloc, free: None },
                range: ByteRange::new(64, 128),
                carried: false,
            });
            cap.all(nodes[1], Write, memory);
        }
        let mut trace = cap.end();
        assert_eq!(forged(&trace, |_| {}), None);
        trace.edges[edge].kind = EdgeKind::Programmatic;
        let refused = forged(&trace, |_| {}).expect("it may start too early");
        assert_eq!(refused.0, rule);
    }
}

/// A workspace used by a node of no known stream is left to R1.
#[test]
fn a_workspace_on_no_known_stream() {
    use streamweir_trace::{Buffer, BufferKind, ByteRange};
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "gemm");
    let workspace = cap.trace.add_buffer(Buffer {
        name: "w".into(),
        kind: BufferKind::Workspace { stream: SIDE },
        range: ByteRange::new(0, 64),
        carried: false,
    });
    cap.all(node, Write, workspace);
    let mut trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), Some(("R11", Some(node))));
    trace.nodes[node.index()].stream = None;
    assert_eq!(forged(&trace, |_| {}), None);
}

/// The bytes must be there for the access, at the time within its node at which it
/// happens, and filled by its own buffer, by another node and for certain.
#[test]
fn refuses_memory_that_is_not_there_or_not_filled() {
    use streamweir_trace::{
        AllocPoint, BufferKind, ByteRange, EdgeKind, PdlWait, Phase, PossibleAccess,
    };
    // Recorded before the alloc point of a stream that had no node yet.
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "early");
    let late = cap.scratch(SIDE, "late", 0x1000, 8);
    cap.all(node, Write, late);
    let trace = cap.end();
    assert_eq!(forged(&trace, |_| {}), Some(("R4", Some(node))));

    // Before the wait for the node behind which the buffer was taken.
    let mut cap = Capture::new();
    let first = cap.node(MAIN, "first");
    let a = cap.scratch(MAIN, "a", 0x1000, 8);
    let node = cap.node(MAIN, "then");
    cap.all(node, Write, a);
    let mut trace = cap.end();
    trace.nodes[node.index()].pdl = PdlWait::OnAllPaths;
    trace.edges[0].kind = EdgeKind::Programmatic;
    assert_eq!(forged(&trace, |_| {}), None);
    let early = |t: &mut Trace| t.accesses[0].phase = Phase::BeforeWait;
    assert_eq!(forged(&trace, early), Some(("R4", Some(node))));
    let BufferKind::Scratch { alloc, .. } = &trace.buffers[a.index()].kind else {
        panic!("{trace:?}");
    };
    assert_eq!(
        *alloc,
        AllocPoint {
            frontier: vec![first],
            before: node
        }
    );

    // Filled by another buffer, or by a word, or by the node itself.
    let mut cap = Capture::new();
    let [a, b] = ["a", "b"].map(|name| cap.scratch(MAIN, name, 0x1000, 8));
    let [first, then] = ["first", "then"].map(|name| cap.node(MAIN, name));
    cap.all(first, Write, a);
    cap.all(then, Read, b);
    let trace = cap.end();
    let r13 = Some(("R13", Some(then)));
    assert_eq!(forged(&trace, |_| {}), r13);
    let own = |t: &mut Trace| t.accesses[1].buffer = a;
    assert_eq!(forged(&trace, own), None);
    let by_word = |t: &mut Trace| {
        own(t);
        t.accesses.remove(0);
        t.possible.push(PossibleAccess {
            node: first,
            buffer: a,
            bytes: ByteRange::new(0, 8),
            param: Some(0),
            offset: 0,
        });
    };
    assert_eq!(forged(&trace, by_word), r13);
    // The reader also writes, before it reads: what it reads was there before.
    let rewritten = |t: &mut Trace| {
        own(t);
        t.nodes[then.index()].pdl = PdlWait::OnAllPaths;
        let mut write = t.accesses[1];
        (write.mode, write.phase) = (Write, Phase::BeforeWait);
        t.add_access(write);
    };
    assert_eq!(forged(&trace, rewritten), None);
    let only_itself = |t: &mut Trace| {
        rewritten(t);
        t.accesses.remove(0);
    };
    assert_eq!(forged(&trace, only_itself), r13);
}
