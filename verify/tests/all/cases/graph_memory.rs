//! Memory that a graph allocates, named or not, what is read from it, and words that
//! lead into it.

use super::*;

/// Memory that the graph allocates itself has a keeper, whether or not a buffer
/// names it; and a page of a report about memory without a name can be made.
#[test]
fn a_fill_of_memory_that_the_graph_allocates() {
    let mut cap = Capture::new();
    let nodes = ["alloc", "fill", "free"].map(|name| cap.node(MAIN, name));
    let kinds = [
        NodeKind::MemAlloc(AllocNode {
            at: 0x1000,
            bytes: 64,
        }),
        NodeKind::Memset(FillNode::linear(0x1000, 64, 0)),
        NodeKind::MemFree(FreeNode { at: 0x1000 }),
    ];
    for (node, kind) in nodes.into_iter().zip(kinds) {
        cap.trace.nodes[node.index()].kind = kind;
    }
    let mut trace = cap.end();
    let report = safe(&trace);
    check(&trace, &report.certificate.unwrap()).unwrap();
    trace.nodes[1].kind = NodeKind::Memset(FillNode::linear(0x1020, 64, 0));
    let report = possible(&trace, Rule::UnknownMemory);
    assert!(streamweir_verify::html(&trace, &report).is_ok());
    for hazard in &report.hazards {
        let _ = hazard.fix.apply(&trace);
    }
}

/// The allocation does not say its address; the buffer that names it does. What
/// lies on those bytes is gone with it, and was not there before it.
#[test]
fn an_allocation_without_an_address_has_that_of_its_buffer() {
    let mut trace = read(include_str!("../../data/use-after-unnamed-free.json"));
    trace.nodes[0].kind = NodeKind::MemAlloc(AllocNode::default());
    trace.add_buffer(Buffer {
        name: "g".into(),
        kind: BufferKind::Graph {
            alloc: NodeId(0),
            free: Some(NodeId(1)),
        },
        range: ByteRange::new(0x1000, 0x2000),
        carried: false,
    });
    hazard(&trace, Rule::FreeTooEarly);
    // The free is found by the buffer's address, too.
    let mut unnamed = trace.clone();
    unnamed.buffers[1].kind = BufferKind::Graph {
        alloc: NodeId(0),
        free: None,
    };
    let report = hazard(&unnamed, Rule::FreeTooEarly);
    assert_eq!(report.hazards_total, 1, "{report}");
    let mut early = trace.clone();
    early.edges = vec![
        Edge::full(NodeId(2), NodeId(0)),
        Edge::full(NodeId(0), NodeId(1)),
    ];
    early.streams[0].end.frontier = vec![NodeId(1)];
    hazard(&early, Rule::OwnerGone);
    let mut between = trace.clone();
    between.edges = vec![
        Edge::full(NodeId(0), NodeId(2)),
        Edge::full(NodeId(2), NodeId(1)),
    ];
    between.streams[0].end.frontier = vec![NodeId(1)];
    safe(&between);
    // Beside a buffer that names other bytes of the allocation.
    let mut beside = trace;
    beside.buffers[1].range = ByteRange::new(0x1008, 0x2000);
    hazard(&beside, Rule::FreeTooEarly);
    beside.buffers[1].range = ByteRange::new(0x1010, 0x2000);
    safe(&beside);
}

/// A kernel on a stream with one word among its parameters.
fn word_kernel(at: u64) -> NodeKind {
    NodeKind::Kernel(KernelNode {
        params: vec![Param::new("", 0, at.to_le_bytes().to_vec())],
        ..KernelNode::default()
    })
}

/// main: allocate 64 bytes at 0x1000, then k, then free; side: l beside k. `k` and `l`
/// have a word each.
fn unnamed_memory(k: u64, l: u64) -> Trace {
    let mut cap = Capture::new();
    let alloc = cap.node(MAIN, "alloc");
    cap.join(SIDE, MAIN);
    let one = cap.node(MAIN, "k");
    let two = cap.node(SIDE, "l");
    cap.join(MAIN, SIDE);
    let free = cap.node(MAIN, "free");
    let mut trace = cap.end();
    let kinds = [
        (
            alloc,
            NodeKind::MemAlloc(AllocNode {
                at: 0x1000,
                bytes: 64,
            }),
        ),
        (one, word_kernel(k)),
        (two, word_kernel(l)),
        (free, NodeKind::MemFree(FreeNode { at: 0x1000 })),
    ];
    for (node, kind) in kinds {
        trace.nodes[node.index()].kind = kind;
    }
    trace
}

/// What the graph allocates is known memory, whether or not a buffer names it: words
/// into it are possible accesses.
#[test]
fn words_into_memory_that_no_buffer_names() {
    // One kernel alone, and two of which one has a word elsewhere.
    safe(&unnamed_memory(0x1000, 0));
    safe(&unnamed_memory(0x1000, 0x1040));
    // Both at once; the word need not be the first byte.
    let race = unnamed_memory(0x1000, 0x103f);
    let report = possible(&race, Rule::UnorderedConflict);
    assert_eq!(report.hazards[0].bytes, ByteRange::new(0x1000, 0x1040));
    assert_eq!(report.hazards[0].buffers[0].name, "memory of n0");
    // In order, a promise about the words, or a word that the author has left over.
    let mut ordered = race.clone();
    ordered.add_edge(Edge::full(NodeId(1), NodeId(2)));
    safe(&ordered);
    let mut vouched = race.clone();
    vouched.promises.push(Promise {
        of: "l".into(),
        nodes: vec![NodeId(2)],
        what: Promised::LeftOver {
            words: 1,
            buffers: Vec::new(),
            reason: "unused".into(),
        },
        line: None,
    });
    safe(&vouched);
    // After the free, and not after the allocation.
    let mut late = unnamed_memory(0x1000, 0);
    late.edges = vec![
        Edge::full(NodeId(0), NodeId(3)),
        Edge::full(NodeId(3), NodeId(1)),
        Edge::full(NodeId(0), NodeId(2)),
    ];
    late.streams[0].end.frontier = vec![NodeId(1), NodeId(2)];
    possible(&late, Rule::FreeTooEarly);
    let mut early = unnamed_memory(0x1000, 0);
    early.edges = vec![
        Edge::full(NodeId(0), NodeId(3)),
        Edge::full(NodeId(1), NodeId(3)),
        Edge::full(NodeId(2), NodeId(3)),
    ];
    possible(&early, Rule::OwnerGone);
    // An allocation that was recorded later has nothing to do with the word.
    let mut before = unnamed_memory(0x1000, 0);
    before.nodes.swap(0, 1);
    before.edges = vec![
        Edge::full(NodeId(0), NodeId(1)),
        Edge::full(NodeId(1), NodeId(2)),
        Edge::full(NodeId(2), NodeId(3)),
    ];
    safe(&before);
}

/// Of an allocation that a buffer names in part, the rest is memory without a name.
/// Of bytes that the driver gives out again, the allocation recorded last is meant.
#[test]
fn memory_that_a_buffer_names_in_part_and_memory_given_out_again() {
    let mut trace = unnamed_memory(0x1020, 0x1030);
    let named = |range| Buffer {
        name: "g".into(),
        kind: BufferKind::Graph {
            alloc: NodeId(0),
            free: None,
        },
        range,
        carried: false,
    };
    trace.add_buffer(named(ByteRange::new(0x1000, 0x1020)));
    let report = possible(&trace, Rule::UnorderedConflict);
    assert_eq!(report.hazards[0].bytes, ByteRange::new(0x1020, 0x1040));
    trace.buffers[0].range = ByteRange::new(0x1020, 0x1030);
    safe(&trace);

    let mut again = unnamed_memory(0x1000, 0);
    let add = |trace: &mut Trace, kind, name: &str| {
        let last = NodeId::at(trace.nodes.len() - 1);
        let node = trace.add_node(streamweir_trace::Node::new(kind, name).on(MAIN));
        trace.add_edge(Edge::full(last, node));
        node
    };
    let made = AllocNode {
        at: 0x1000,
        bytes: 64,
    };
    add(&mut again, NodeKind::MemAlloc(made), "again");
    let user = add(&mut again, word_kernel(0x1000), "user");
    let free = FreeNode { at: 0x1000 };
    let free = add(&mut again, NodeKind::MemFree(free), "free again");
    again.streams[0].end.frontier = vec![free];
    safe(&again);
    // Beside the second allocation: that the first would be there does not help.
    again.edges.retain(|edge| edge.to != user);
    again.add_edge(Edge::full(NodeId(0), user));
    again.add_edge(Edge::full(NodeId(4), free));
    again.add_edge(Edge::full(NodeId(3), NodeId(4)));
    possible(&again, Rule::OwnerGone);
}

/// A copy out of memory that the graph allocates and nothing has filled.
#[test]
fn a_copy_reads_what_nothing_wrote() {
    let mut trace = unnamed_memory(0, 0);
    trace.add_buffer(Buffer::persistent("out", ByteRange::new(0x8000, 0x8040)));
    trace.nodes[1].kind = NodeKind::Memcpy(CopyNode::linear(0x8000, 0x1000, 64));
    let report = hazard(&trace, Rule::ReadBeforeWrite);
    let help = "write bytes 0x0..0x40 of \"memory of n0\" before n1 `k`";
    assert!(report.hazards[0].help.starts_with(help), "{report}");
    // The remedy names the memory, to have something to write.
    safe(&report.hazards[0].fix.apply(&trace));
    trace.nodes[2].kind = NodeKind::Memset(FillNode::linear(0x1000, 64, 0));
    hazard(&trace, Rule::UnorderedConflict);
    trace.add_edge(Edge::full(NodeId(2), NodeId(1)));
    let report = safe(&trace);
    check(&trace, &report.certificate.unwrap()).unwrap();
    trace.nodes[2].kind = NodeKind::Memset(FillNode::linear(0x1000, 63, 0));
    hazard(&trace, Rule::ReadBeforeWrite);
}

/// A pointer that is declared to point into a buffer is an address of it, whatever the
/// node declares of others: with nothing said about that buffer it may be touched.
#[test]
fn a_declared_pointer_without_an_access_is_a_word() {
    let mut cap = Capture::new();
    let [v, w] = [("v", 0x1000), ("w", 0x1040)].map(|(name, at)| cap.persistent(name, at, 64));
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(two, Write, v);
    let mut trace = cap.end();
    let pointing = |trace: &mut Trace, offset: u64, as_field: bool| {
        let at = 0x1000 + offset;
        let mut param = Param::new("v", 0, at.to_le_bytes().to_vec());
        match as_field {
            true => param.fields.push(FieldPointer {
                at: 0,
                buffer: Some(v),
                offset,
            }),
            false => {
                param.pointer = Some(PointerParam {
                    buffer: Some(v),
                    offset,
                });
            }
        }
        trace.nodes[one.index()].kind = NodeKind::Kernel(KernelNode {
            params: vec![param],
            ..KernelNode::default()
        });
    };
    for as_field in [false, true] {
        pointing(&mut trace, 8, as_field);
        possible(&trace, Rule::UnorderedConflict);
        // It says what it touches of the buffer: other bytes, or none.
        for bytes in [(32, 32), (0, 0)] {
            let mut said = trace.clone();
            let bytes = ByteRange::new(bytes.0, bytes.1);
            said.add_access(Access::new(one, v, bytes, Write));
            safe(&said);
        }
        // What it says of another buffer is no answer, but for these very bytes.
        let mut other = trace.clone();
        other.add_access(Access::new(one, w, ByteRange::new(0, 64), Read));
        possible(&other, Rule::UnorderedConflict);
        // Kept, or left over.
        let mut kept = trace.clone();
        kept.promises.push(Promise {
            of: "one".into(),
            nodes: vec![one],
            what: Promised::Keeps {
                name: String::new(),
                range: ByteRange::new(0x1000, 0x1040),
                owner: "library".into(),
            },
            line: None,
        });
        safe(&kept);
        // One past the end there is nothing of `v`; what begins there may be meant.
        pointing(&mut trace, 64, as_field);
        safe(&trace);
        let mut beyond = trace.clone();
        beyond.add_access(Access::new(two, w, ByteRange::new(0, 8), Write));
        possible(&beyond, Rule::UnorderedConflict);
    }
}
