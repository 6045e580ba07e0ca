//! The rules about nodes rather than accesses: memory that the graph allocates
//! (R7, R8) and kernels that need the device to themselves (R14). Each has the
//! smallest capture that breaks it, and the nearest safe one.

use streamweir_trace::{
    AllocNode, BlockSync, Buffer, BufferId, BufferKind, ByteRange, Edge, EdgeKind, FreeNode,
    KernelNode, NodeId, NodeKind, PdlWait, StreamId, Trace, Unfreed,
};
use streamweir_verify::{Fix, Rule, Verdict, certificate, verify};

use crate::build::*;
use crate::minimal::is_minimal;

const N: fn(u32) -> Option<NodeId> = |at| Some(NodeId(at));
const AT: u64 = 0x7000;

impl Capture {
    /// Makes a node one that allocates 64 bytes at `at`.
    fn alloc_node(&mut self, stream: StreamId, at: u64) -> NodeId {
        let node = self.node(stream, "alloc");
        self.trace.nodes[node.index()].kind = NodeKind::MemAlloc(AllocNode { at, bytes: 64 });
        node
    }

    fn free_node(&mut self, stream: StreamId, at: u64) -> NodeId {
        let node = self.node(stream, "free");
        self.trace.nodes[node.index()].kind = NodeKind::MemFree(FreeNode { at });
        node
    }

    fn graph_memory(&mut self, alloc: NodeId, free: Option<NodeId>) -> BufferId {
        let at = match &self.trace.node(alloc).kind {
            NodeKind::MemAlloc(made) if made.at != 0 => made.at,
            _ => AT,
        };
        self.trace.add_buffer(Buffer {
            name: "a".into(),
            kind: BufferKind::Graph { alloc, free },
            range: ByteRange::new(at, at + 64),
            carried: false,
        })
    }

    fn kernel(&mut self, stream: StreamId, name: &str, sync: BlockSync) -> NodeId {
        let node = self.node(stream, name);
        self.trace.nodes[node.index()].kind = NodeKind::Kernel(KernelNode {
            sync,
            ..KernelNode::default()
        });
        node
    }
}

/// Applies the first fix until the verdict is safe; each must remove its hazard.
#[track_caller]
fn mended(mut trace: Trace) -> Trace {
    for _ in 0..16 {
        let report = verify(&trace).unwrap();
        let Some(hazard) = report.hazards.first() else {
            let certificate = safe(&trace).certificate.expect("a safe verdict is proved");
            certificate::check(&trace, &certificate).unwrap();
            return trace;
        };
        is_minimal(&trace, hazard);
        trace = hazard.fix.apply(&trace);
        trace.check().unwrap();
        let left = verify(&trace).unwrap();
        assert!(!left.hazards.contains(hazard), "not mended:\n{hazard}");
    }
    panic!("fixes do not end: {}", verify(&trace).unwrap());
}

/// A free waits for the last users and for nothing that these wait for: not for
/// what another user comes behind, nor for other work. A kernel that may go on
/// while its successor runs is waited for all the same.
#[test]
fn r7_the_free_waits_for_the_last_users() {
    for programmatic in [false, true] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        let fill = cap.node(MAIN, "fill");
        cap.join(SIDE, MAIN);
        let [write, read] = ["write", "read"].map(|name| cap.node(SIDE, name));
        cap.node(MAIN, "other");
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        let a = cap.graph_memory(alloc, None);
        cap.all(write, Write, a);
        cap.all(read, Atomic, a);
        if programmatic {
            let edge = Edge::full(write, read);
            let mut edges = cap.trace.edges.iter_mut();
            let edge = edges.find(|other| **other == edge).unwrap();
            edge.kind = EdgeKind::Programmatic;
            cap.trace.add_edge(Edge::full(fill, read));
            cap.trace.accesses[0].mode = Atomic;
        }
        cap.all(fill, Write, a);
        let trace = cap.end();
        let report = verify(&trace).unwrap();
        assert_eq!(report.hazards_total, 1, "{report}");
        let mended = report.hazards[0].fix.apply(&trace);
        let free = NodeId::at(trace.nodes.len());
        let waits = mended.edges.iter().filter(|edge| edge.to == free);
        let mut waits: Vec<NodeId> = waits.map(|edge| edge.from).collect();
        waits.sort_unstable();
        let expected = if programmatic {
            vec![write, read]
        } else {
            vec![read]
        };
        assert_eq!(waits, expected);
        self::mended(trace);
    }
}

/// main: alloc a, W a, and a free of it or none.
#[test]
fn r7_memory_that_nothing_frees() {
    for freed in [false, true] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        let write = cap.node(MAIN, "write");
        let free = freed.then(|| cap.free_node(MAIN, AT));
        let a = cap.graph_memory(alloc, free);
        cap.all(write, Write, a);
        let mut trace = cap.end();
        if freed {
            assert!(safe(&trace).not_analysed.is_empty());
            continue;
        }
        let report = verify(&trace).unwrap();
        assert_eq!(broken(&trace), [(Rule::NotRelaunchable, N(0), None)]);
        assert!(report.hazards[0].proven);
        assert!(report.hazards[0].what.contains("\"a\""), "{report}");
        assert_eq!(report.hazards[0].bytes, ByteRange::new(AT, AT + 64));
        let mended = mended(trace.clone());
        assert!(matches!(
            mended.nodes[2].kind,
            NodeKind::MemFree(FreeNode { at: AT })
        ));
        // Auto-free at instantiation is not in the graph; it is assumed aloud.
        trace.unfreed = Unfreed::FreedByLauncher;
        assert_eq!(
            safe(&trace).assumptions,
            [Unfreed::FreedByLauncher.assumption().unwrap()]
        );
    }
}

/// Nodes read back from a driver are paired by address, each free with one
/// allocation, though the address comes twice.
#[test]
fn r7_nodes_that_no_buffer_names() {
    let mut cap = Capture::new();
    cap.alloc_node(MAIN, AT);
    cap.free_node(MAIN, AT);
    let again = cap.alloc_node(MAIN, AT);
    let open = cap.end();
    assert_eq!(broken(&open), [(Rule::NotRelaunchable, Some(again), None)]);
    mended(open.clone());
    let mut closed = open;
    let free = closed.add_node(closed.nodes[1].clone());
    closed.add_edge(Edge::full(again, free));
    closed.streams[0].end.frontier = vec![free];
    assert!(safe(&closed).not_analysed.is_empty());
}

/// What buffers say of free nodes must fit together: neither the verdict nor the
/// certificate can choose whom to believe.
#[test]
fn buffers_that_contradict_each_other_about_a_free_node() {
    let refused = |claims: &[(usize, usize)], at: [u64; 2], what: &str| {
        let mut cap = Capture::new();
        let allocs = at.map(|at| cap.alloc_node(MAIN, at));
        let frees = at.map(|at| cap.free_node(MAIN, at));
        for &(alloc, free) in claims {
            cap.graph_memory(allocs[alloc], Some(frees[free]));
        }
        let trace = cap.end();
        let error = verify(&trace).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        let refused = certificate::claim(&trace).unwrap_err().to_string();
        assert_eq!(refused, error);
        let mut fine = trace.clone();
        fine.buffers.clear();
        let claim = certificate::claim(&fine).unwrap();
        let refused = certificate::check(&trace, &claim).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    };
    let apart = [AT, AT + 64];
    refused(&[(0, 0), (0, 1)], apart, "says that n2 does");
    refused(
        &[(0, 0), (1, 0)],
        apart,
        "frees what node n1 allocates, but",
    );
    refused(&[(0, 1)], apart, "one is at 0x7000, the other at 0x7040");
    // Several buffers in one allocation say the same.
    let mut cap = Capture::new();
    let alloc = cap.alloc_node(MAIN, AT);
    let free = cap.free_node(MAIN, AT);
    cap.graph_memory(alloc, Some(free));
    cap.graph_memory(alloc, Some(free));
    let mut trace = cap.end();
    safe(&trace);
    // A free node that is none.
    trace.nodes[free.index()].kind = NodeKind::Empty;
    let error = verify(&trace).unwrap_err().to_string();
    assert!(error.contains("but that is no free node"), "{error}");
}

/// A free node that comes before the allocation of its address, or beside it,
/// frees what is not there yet, whether a buffer names it or not.
#[test]
fn r8_a_free_that_does_not_follow_the_allocation() {
    for named in [false, true] {
        for (late, verdict) in [
            (None, Verdict::Hazard),
            (Some(false), Verdict::Hazard),
            (Some(true), Verdict::Safe),
        ] {
            let mut cap = Capture::new();
            let (alloc, free) = match late {
                None => {
                    let free = cap.free_node(MAIN, AT);
                    (cap.alloc_node(MAIN, AT), free)
                }
                Some(joined) => {
                    let alloc = cap.alloc_node(MAIN, AT);
                    if joined {
                        cap.join(SIDE, MAIN);
                    }
                    (alloc, cap.free_node(SIDE, AT))
                }
            };
            cap.join(MAIN, SIDE);
            cap.node(MAIN, "end");
            if named {
                cap.graph_memory(alloc, Some(free));
            }
            let trace = cap.end();
            let report = verify(&trace).unwrap();
            assert_eq!(report.verdict, verdict, "{report}");
            let claim = certificate::claim(&trace).unwrap();
            let checked = certificate::check(&trace, &claim);
            assert_eq!(checked.is_ok(), verdict == Verdict::Safe, "{checked:?}");
            if verdict == Verdict::Hazard {
                let pair = [(Rule::FreeTooEarly, Some(alloc), Some(free))];
                assert_eq!(broken(&trace), pair);
                mended(trace);
            }
        }
    }
}

#[test]
fn nodes_whose_address_is_not_known_are_said() {
    let mut cap = Capture::new();
    cap.alloc_node(MAIN, 0);
    cap.free_node(MAIN, 0);
    let report = safe(&cap.end());
    assert_eq!(
        report.not_analysed,
        [
            "1 node not analysed: memory allocation (n0 `alloc`): its address is not known",
            "1 node not analysed: memory free (n1 `free`): its address is not known",
        ]
    );
}

/// main: alloc a, [join] free a ; side: R a.
#[test]
fn r8_a_free_beside_a_reader() {
    for joined in [false, true] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        cap.join(SIDE, MAIN);
        let user = cap.node(SIDE, "use");
        if joined {
            cap.join(MAIN, SIDE);
        }
        let free = cap.free_node(MAIN, AT);
        cap.join(MAIN, SIDE);
        let a = cap.graph_memory(alloc, Some(free));
        cap.all(user, Write, a);
        let trace = cap.end();
        if joined {
            safe(&trace);
            continue;
        }
        assert_eq!(
            broken(&trace),
            [(Rule::FreeTooEarly, Some(user), Some(free))]
        );
        let hazard = &verify(&trace).unwrap().hazards[0];
        let join = Fix::Join {
            after: user,
            before: free,
        };
        assert_eq!(hazard.fix, join);
        mended(trace);
    }
}

/// The free comes first by the graph's own order: no join helps, it must move.
/// Nor does it matter whether a buffer names the free node.
#[test]
fn r8_a_use_after_the_free() {
    for named in [true, false] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        let free = cap.free_node(MAIN, AT);
        let user = cap.node(MAIN, "use");
        let a = cap.graph_memory(alloc, named.then_some(free));
        cap.all(user, Write, a);
        let trace = cap.end();
        assert_eq!(
            broken(&trace),
            [(Rule::FreeTooEarly, Some(user), Some(free))]
        );
        let mended = mended(trace);
        assert_eq!(mended.nodes[free.index()].kind, NodeKind::Empty);
        let BufferKind::Graph { free: moved, .. } = mended.buffers[a.index()].kind else {
            panic!("{:?}", mended.buffers);
        };
        assert_eq!(moved, N(3));
    }
}

/// A programmatic edge into the free: the kernel may still run when it starts.
#[test]
fn r8_a_programmatic_edge_orders_no_free() {
    for (kind, ordered) in [(EdgeKind::Programmatic, false), (EdgeKind::Full, true)] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        let user = cap.node(MAIN, "use");
        let free = cap.free_node(MAIN, AT);
        let a = cap.graph_memory(alloc, Some(free));
        cap.all(user, Write, a);
        cap.trace.nodes[free.index()].pdl = PdlWait::OnAllPaths;
        cap.trace.edges[1].kind = kind;
        let trace = cap.end();
        if ordered {
            safe(&trace);
        } else {
            assert_eq!(rules(&trace), [Rule::FreeTooEarly]);
            mended(trace);
        }
    }
}

#[test]
fn r8_free_twice_and_free_of_nothing() {
    let mut cap = Capture::new();
    let alloc = cap.alloc_node(MAIN, AT);
    let first = cap.free_node(MAIN, AT);
    let second = cap.free_node(MAIN, AT);
    cap.graph_memory(alloc, Some(first));
    let trace = cap.end();
    assert_eq!(
        broken(&trace),
        [(Rule::FreeTooEarly, Some(second), Some(first))]
    );
    assert_eq!(verify(&trace).unwrap().verdict, Verdict::Hazard);
    mended(trace);

    // Another graph may have allocated it; registered memory is not the graph's.
    for registered in [false, true] {
        let mut cap = Capture::new();
        if registered {
            cap.persistent("weights", AT, 64);
        }
        cap.free_node(MAIN, AT);
        let trace = cap.end();
        assert_eq!(broken(&trace), [(Rule::FreeTooEarly, N(0), None)]);
        let report = verify(&trace).unwrap();
        let verdict = [Verdict::Possible, Verdict::Hazard][usize::from(registered)];
        assert_eq!(report.verdict, verdict, "{report}");
        assert_eq!(report.to_string().contains("\"weights\""), registered);
        mended(trace);
    }
}

/// main: grid barrier ; side: gemm, beside it or after it.
#[test]
fn r14_spinning_beside_another_kernel() {
    for (sync, apart, hazard) in [
        (BlockSync::Spin, false, true),
        (BlockSync::Spin, true, false),
        (BlockSync::Cooperative, false, false),
        (BlockSync::Independent, false, false),
    ] {
        let mut cap = Capture::new();
        cap.kernel(MAIN, "begin", BlockSync::Independent);
        cap.join(SIDE, MAIN);
        let barrier = cap.kernel(MAIN, "barrier", sync);
        if apart {
            cap.join(SIDE, MAIN);
        }
        let gemm = cap.kernel(SIDE, "gemm", BlockSync::Independent);
        cap.join(MAIN, SIDE);
        cap.kernel(MAIN, "end", BlockSync::Independent);
        let trace = cap.end();
        if !hazard {
            safe(&trace);
            continue;
        }
        assert_eq!(
            broken(&trace),
            [(Rule::CoResidency, Some(barrier), Some(gemm))]
        );
        assert!(verify(&trace).unwrap().hazards[0].proven);
        mended(trace);
    }
}

/// Copies and fills take no multiprocessor that the model knows of; a child
/// graph may hold a kernel.
#[test]
fn r14_beside_nodes_that_are_no_kernels() {
    for (kind, verdict) in [
        (NodeKind::memcpy(), Verdict::Safe),
        (NodeKind::Empty, Verdict::Safe),
        (NodeKind::ChildGraph, Verdict::Possible),
        (NodeKind::kernel(), Verdict::Hazard),
    ] {
        let mut cap = Capture::new();
        cap.kernel(MAIN, "barrier", BlockSync::Spin);
        let other = cap.node(SIDE, "other");
        cap.join(MAIN, SIDE);
        cap.trace.nodes[other.index()].kind = kind;
        assert_eq!(verify(&cap.end()).unwrap().verdict, verdict);
    }
}

/// side: five kernels beside a barrier between the third and the fourth in the
/// host's order. Two joins set all five apart, and two hazards say so.
#[test]
fn r14_two_hazards_for_a_whole_stream() {
    let mut cap = Capture::new();
    for _ in 0..3 {
        cap.kernel(SIDE, "gemm", BlockSync::Independent);
    }
    let barrier = cap.kernel(MAIN, "barrier", BlockSync::Spin);
    for _ in 0..2 {
        cap.kernel(SIDE, "gemm", BlockSync::Independent);
    }
    cap.join(MAIN, SIDE);
    let trace = cap.end();
    assert_eq!(
        broken(&trace),
        [
            (Rule::CoResidency, N(2), Some(barrier)),
            (Rule::CoResidency, Some(barrier), N(4)),
        ]
    );
    let mended = mended(trace.clone());
    assert_eq!(mended.edges.len(), trace.edges.len() + 2);
}

/// A kernel that starts early, by programmatic launch, is beside the one that it
/// follows.
#[test]
fn r14_programmatic_launch_overlaps() {
    for (kind, verdict) in [
        (EdgeKind::Full, Verdict::Safe),
        (EdgeKind::Programmatic, Verdict::Hazard),
    ] {
        let mut cap = Capture::new();
        cap.kernel(MAIN, "gemm", BlockSync::Independent);
        let barrier = cap.kernel(MAIN, "barrier", BlockSync::Spin);
        cap.trace.nodes[barrier.index()].pdl = PdlWait::OnAllPaths;
        cap.trace.edges[0].kind = kind;
        assert_eq!(verify(&cap.end()).unwrap().verdict, verdict);
    }
}

/// The checker believes no certificate that leaves out a rule about nodes: what
/// a trace claims for itself is refused if the rules refuse the trace.
#[test]
fn no_certificate_for_a_hazard_of_nodes() {
    let forged = |trace: &Trace| {
        let claim = certificate::claim(trace).unwrap();
        certificate::check(trace, &claim)
    };
    let memory = |frees: usize, late: bool, named: bool| {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        cap.join(SIDE, MAIN);
        let user = cap.node(SIDE, "use");
        if late {
            cap.join(MAIN, SIDE);
        }
        let free: Vec<_> = (0..frees).map(|_| cap.free_node(MAIN, AT)).collect();
        cap.join(MAIN, SIDE);
        let a = cap.graph_memory(alloc, free.first().copied().filter(|_| named));
        cap.all(user, Write, a);
        cap.end()
    };
    let spin = |apart: bool| {
        let mut cap = Capture::new();
        cap.kernel(MAIN, "barrier", BlockSync::Spin);
        if apart {
            cap.join(SIDE, MAIN);
        }
        cap.kernel(SIDE, "gemm", BlockSync::Independent);
        cap.join(MAIN, SIDE);
        cap.end()
    };
    let mut traces = vec![spin(false), spin(true)];
    for frees in 0..3 {
        for (late, named) in [(false, false), (false, true), (true, false), (true, true)] {
            traces.push(memory(frees, late, named));
        }
    }
    let mut verdicts = [0, 0];
    for trace in traces {
        let ok = verify(&trace).unwrap().verdict == Verdict::Safe;
        verdicts[usize::from(ok)] += 1;
        assert_eq!(forged(&trace).is_ok(), ok, "{trace:?}");
    }
    assert_eq!(verdicts, [11, 3]);
}

/// What the graph allocates holds nothing that anybody can rely on, so a read of it
/// needs a write before it (R13), also of bytes that the file calls carried.
#[test]
fn r13_memory_of_the_graph_holds_nothing_at_first() {
    for carried in [false, true] {
        let mut cap = Capture::new();
        let alloc = cap.alloc_node(MAIN, AT);
        let write = cap.node(MAIN, "write");
        let read = cap.node(MAIN, "read");
        let free = cap.free_node(MAIN, AT);
        let memory = cap.graph_memory(alloc, Some(free));
        cap.trace.buffers[memory.index()].carried = carried;
        cap.part(write, Write, memory, 0, 32);
        cap.part(read, Read, memory, 0, 32);
        let mut trace = cap.end();
        safe(&trace);
        trace.accesses[1].bytes.end = 33;
        assert_eq!(rules(&trace), [Rule::ReadBeforeWrite]);
        assert!(certificate::check(&trace, &certificate::claim(&trace).unwrap()).is_err());
        // The only access is a read.
        trace.accesses.remove(0);
        assert_eq!(rules(&trace), [Rule::ReadBeforeWrite]);
        assert!(certificate::check(&trace, &certificate::claim(&trace).unwrap()).is_err());
    }
}
