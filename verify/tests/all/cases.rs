//! Files that were once judged wrongly, each with the right verdict and the reason,
//! and with variants of the same kind.

use streamweir_trace::{
    Access, AccessMode, AllocNode, Buffer, BufferId, BufferKind, ByteRange, CopyNode, Edge,
    FieldPointer, FillNode, FreeNode, Keeper, KernelNode, NodeId, NodeKind, Param, PointerParam,
    Promise, Promised, Trace, TraceError, from_json,
};
use streamweir_verify::certificate::{check, claim};
use streamweir_verify::{Report, Rule, Verdict, verify};

use crate::build::*;

fn read(file: &str) -> Trace {
    from_json(file.as_bytes()).expect("a trace")
}

/// Panics unless the verdict is a hazard of this rule first, and the checker
/// refuses what the trace claims for itself.
#[track_caller]
fn hazard(trace: &Trace, rule: Rule) -> Report {
    let report = verify(trace).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    assert!(
        report.hazards.iter().any(|h| h.rule == rule && h.proven),
        "{report}"
    );
    refused(trace);
    report
}

#[track_caller]
fn possible(trace: &Trace, rule: Rule) -> Report {
    let report = verify(trace).unwrap();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert!(report.hazards.iter().any(|h| h.rule == rule), "{report}");
    refused(trace);
    report
}

#[track_caller]
fn refused(trace: &Trace) {
    let claim = claim(trace).unwrap();
    assert!(check(trace, &claim).is_err(), "certified");
}

/// Persistent memory keeps its bytes whether or not the file says so: scratch in
/// the same place destroys what the next replay reads.
#[test]
fn persistent_memory_is_kept_whatever_the_file_says() {
    let trace = read(include_str!("../data/persistent-not-carried.json"));
    hazard(&trace, Rule::SharedBytes);
    // A buffer that no node of this graph touches, and memory of the driver's.
    let mut untouched = trace.clone();
    untouched.accesses.remove(0);
    hazard(&untouched, Rule::SharedBytes);
    let mut foreign = trace.clone();
    foreign.buffers[0].kind = BufferKind::Foreign {
        keeper: Keeper::Engine,
    };
    hazard(&foreign, Rule::SharedBytes);
    // The scratch beside it is safe.
    let mut beside = trace;
    beside.buffers[1].range = ByteRange::new(0x2000, 0x3000);
    safe(&beside);
}

/// The graph frees the bytes before the node reads them, and no buffer says so.
#[test]
fn bytes_that_the_graph_has_freed_are_gone() {
    let trace = read(include_str!("../data/use-after-unnamed-free.json"));
    let report = hazard(&trace, Rule::FreeTooEarly);
    assert_eq!(report.hazards[0].first.node, Some(NodeId(2)));
    // Between the two it is safe; beside them it may be.
    let mut between = trace.clone();
    between.edges = vec![
        Edge::full(NodeId(0), NodeId(2)),
        Edge::full(NodeId(2), NodeId(1)),
    ];
    between.streams[0].end.frontier = vec![NodeId(1)];
    safe(&between);
    let mut beside = trace.clone();
    beside.edges = vec![
        Edge::full(NodeId(0), NodeId(1)),
        Edge::full(NodeId(0), NodeId(2)),
    ];
    beside.streams[0].end.frontier = vec![NodeId(1), NodeId(2)];
    hazard(&beside, Rule::FreeTooEarly);
    // Before the allocation the bytes are not there yet.
    let mut early = trace.clone();
    early.edges = vec![
        Edge::full(NodeId(2), NodeId(0)),
        Edge::full(NodeId(0), NodeId(1)),
    ];
    early.streams[0].end.frontier = vec![NodeId(1)];
    hazard(&early, Rule::OwnerGone);
    // A second allocation of the same bytes makes them good again; one that ends
    // a byte too early does not.
    let mut again = trace.clone();
    for (bytes, good) in [(4096, true), (8, false)] {
        let alloc = again.add_node(streamweir_trace::Node::new(
            NodeKind::MemAlloc(AllocNode { at: 0x1000, bytes }),
            "again",
        ));
        let free = again.add_node(streamweir_trace::Node::new(
            NodeKind::MemFree(FreeNode { at: 0x1000 }),
            "free again",
        ));
        again.edges = vec![
            Edge::full(NodeId(0), NodeId(1)),
            Edge::full(NodeId(1), alloc),
            Edge::full(alloc, NodeId(2)),
            Edge::full(NodeId(2), free),
        ];
        again.streams[0].end.frontier = vec![free];
        if good {
            safe(&again);
        } else {
            hazard(&again, Rule::FreeTooEarly);
        }
        again.nodes.truncate(3);
    }
}

/// A buffer of the graph's own memory needs a node that allocates it.
#[test]
fn graph_memory_needs_an_allocation_node() {
    let refused = from_json(include_bytes!("../data/graph-alloc-is-empty.json"));
    let error = refused.unwrap_err();
    assert!(matches!(error, TraceError::NotAllocated { .. }), "{error}");
}

/// Nothing is known of where the capture ended, and that is said, by the report
/// and by the certificate.
#[test]
fn an_unknown_end_is_said() {
    let mut trace = read(include_str!("../data/r6-no-end.json"));
    let said = "all work leads to where the capture ended, which the trace does not say";
    let report = safe(&trace);
    assert!(
        report.assumptions.iter().any(|line| line == said),
        "{report}"
    );
    let mut silent = report.certificate.unwrap();
    silent.about.assumptions.clear();
    assert!(check(&trace, &silent).is_err());
    // With an end the side stream is seen not to be joined.
    trace.streams[0].end.frontier = vec![NodeId(0)];
    hazard(&trace, Rule::Protocol);
    // Work on the origin alone has nothing to be joined.
    let mut alone = Capture::new();
    alone.node(MAIN, "k");
    let mut alone = alone.end();
    alone.streams[0].end.frontier.clear();
    assert!(safe(&alone).assumptions.is_empty());
}

/// A word may touch nothing, so it does not touch what is destroyed.
#[test]
fn a_word_hides_no_untouched_bytes() {
    let mut trace = read(include_str!("../data/untouched-hidden-by-a-word.json"));
    hazard(&trace, Rule::SharedBytes);
    // With the word behind the write, and without it.
    trace.possible[0].node = NodeId(1);
    trace.nodes[0].kind = NodeKind::kernel();
    hazard(&trace, Rule::SharedBytes);
    trace.possible.clear();
    hazard(&trace, Rule::SharedBytes);
}

/// The fill's operands are in the file, and nothing declares them.
#[test]
fn operands_of_copies_and_fills_are_accesses() {
    let trace = read(include_str!("../data/memset-operands.json"));
    let report = hazard(&trace, Rule::UnorderedConflict);
    assert_eq!(
        report.undeclared,
        ["`n` writes \"w\", which nothing declares: it counts all the same; declare it"]
    );
    // A declaration of some of its bytes, or to read them, does not cover it.
    for (bytes, mode) in [((0x10, 0x1000), Write), ((0, 0x1000), Read)] {
        let mut part = trace.clone();
        let bytes = ByteRange::new(bytes.0, bytes.1);
        part.add_access(Access::new(NodeId(0), BufferId(0), bytes, mode));
        hazard(&part, Rule::UnorderedConflict);
    }
    // A copy reads and writes; its rows are exact.
    let copy = |to, from, rows| {
        let mut other = trace.clone();
        other.nodes[0].kind = NodeKind::Memcpy(CopyNode {
            rows,
            to_pitch: 0x80,
            from_pitch: 0x80,
            ..CopyNode::linear(to, from, 0x10)
        });
        other.add_buffer(Buffer::persistent("v", ByteRange::new(0x8000, 0x9000)));
        other
    };
    hazard(&copy(0x1000, 0x8000, 1), Rule::UnorderedConflict);
    safe(&copy(0x8000, 0x1000, 1));
    let mut between = copy(0x1000, 0x8000, 3);
    between.accesses[0].bytes = ByteRange::new(0x90, 0xa0);
    safe(&between);
    between.accesses[0].bytes = ByteRange::new(0x8f, 0x90);
    hazard(&between, Rule::UnorderedConflict);
}

/// Memory in no buffer is memory all the same: two copies to the same place there
/// race, whoever's it is; and nobody is known to keep what a fill writes.
#[test]
fn operands_outside_of_all_buffers() {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 64);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    let mut trace = cap.end();
    trace.nodes[one.index()].kind = NodeKind::Memcpy(CopyNode::linear(0x9000, 0x1000, 64));
    trace.nodes[two.index()].kind = NodeKind::Memcpy(CopyNode::linear(0x9020, 0x1000, 64));
    let report = hazard(&trace, Rule::UnorderedConflict);
    assert_eq!(report.hazards[0].bytes, ByteRange::new(0x9020, 0x9040));
    trace.nodes[two.index()].kind = NodeKind::Memcpy(CopyNode::linear(0x9040, 0x1000, 64));
    let report = safe(&trace);
    let line = "memory outside of all buffers that copies touch is kept alive, and nothing else touches it meanwhile (n0 `one`, n1 `two`)";
    assert!(
        report.assumptions.iter().any(|said| said == line),
        "{report}"
    );
    trace.nodes[two.index()].kind = NodeKind::Memset(FillNode::linear(0xa000, 64, 0));
    possible(&trace, Rule::UnknownMemory);
    assert_eq!(trace.buffer(a).name, "a");
}

/// A kernel on each of two streams that nothing orders, the first with this word
/// as its parameter, the second reading all of `a`.
fn with_word(word: u64) -> Trace {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0x1000, 0x100);
    let one = cap.node(MAIN, "one");
    let two = cap.node(SIDE, "two");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(two, Read, a);
    let mut trace = cap.end();
    if let NodeKind::Kernel(kernel) = &mut trace.nodes[one.index()].kind {
        kernel.params.push(Param {
            name: "p".into(),
            offset: 0,
            bytes: word.to_le_bytes().to_vec(),
            pointer: None,
            fields: Vec::new(),
        });
    }
    trace
}

/// A word in known memory that nothing explains is a possible access.
#[test]
fn words_that_nothing_explains() {
    possible(&with_word(0x1000), Rule::UnorderedConflict);
    possible(&with_word(0x10ff), Rule::UnorderedConflict);
    for nowhere in [0, 0xfff, 0x1100, 0x1000 << 32] {
        assert!(safe(&with_word(nowhere)).assumptions.is_empty());
    }
    // What its node touches explains it, one past the end does not.
    let mut declared = with_word(0x1008);
    let mut read = |bytes: (u64, u64)| {
        declared.accesses.truncate(1);
        let bytes = ByteRange::new(bytes.0, bytes.1);
        declared.add_access(Access::new(NodeId(0), BufferId(0), bytes, Read));
        declared.clone()
    };
    safe(&read((0, 9)));
    possible(&read((0, 8)), Rule::UnorderedConflict);
    // Half a word, and a word that is not aligned, are none.
    let mut odd = with_word(0x1000);
    if let NodeKind::Kernel(kernel) = &mut odd.nodes[0].kind {
        kernel.params[0].offset = 4;
    }
    safe(&odd);
}

fn promise(trace: &mut Trace, what: Promised) {
    trace.promises.push(Promise {
        of: "library".into(),
        nodes: vec![NodeId(0)],
        what,
        line: None,
    });
}

/// Somebody vouches for a word: the verdict and the certificate say so.
#[test]
fn words_that_somebody_vouches_for() {
    let mut left = with_word(0x1000);
    promise(
        &mut left,
        Promised::LeftOver {
            words: 1,
            buffers: vec![BufferId(0)],
            reason: "unused fields".into(),
        },
    );
    let report = safe(&left);
    assert_eq!(
        report.assumptions,
        ["`library`: 1 word of its parameters left over, pointing into \"a\" (unused fields)"]
    );
    let mut silent = report.certificate.unwrap();
    silent.about.assumptions.clear();
    assert!(check(&left, &silent).is_err());
    // It covers no operand.
    left.nodes[0].kind = NodeKind::Memset(FillNode::linear(0x1000, 8, 0));
    hazard(&left, Rule::UnorderedConflict);

    let keeps = |range: (u64, u64)| Promised::Keeps {
        name: "workspace".into(),
        range: ByteRange::new(range.0, range.1),
        owner: "the handle".into(),
    };
    let mut kept = with_word(0x1010);
    promise(&mut kept, keeps((0x1000, 0x1010)));
    possible(&kept, Rule::UnorderedConflict);
    kept.promises.clear();
    promise(&mut kept, keeps((0x1000, 0x1011)));
    let report = safe(&kept);
    assert_eq!(
        report.assumptions,
        ["`library`: the handle keeps \"workspace\" at 0x1000..0x1011 alive"]
    );
}

/// A word in scratch that had been freed, and in scratch that is there again.
#[test]
fn words_in_freed_scratch() {
    let word_in = |live: bool| {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0x1000, 64);
        let fill = cap.node(MAIN, "fill");
        cap.all(fill, Write, a);
        cap.free(a);
        if live {
            cap.scratch(MAIN, "b", 0x1000, 64);
        }
        cap.node(MAIN, "stale");
        let mut trace = cap.end();
        if let NodeKind::Kernel(kernel) = &mut trace.nodes[1].kind {
            kernel.params.push(Param {
                name: String::new(),
                offset: 0,
                bytes: 0x1008_u64.to_le_bytes().to_vec(),
                pointer: None,
                fields: Vec::new(),
            });
        }
        trace
    };
    let gone = possible(&word_in(false), Rule::OwnerGone);
    // To register what was freed would mend nothing.
    assert!(
        gone.to_string().contains("when the graph is gone"),
        "{gone}"
    );
    safe(&word_in(true));
}

/// Memory that only the driver knows: who touches it may race, and somebody must
/// keep it.
#[test]
fn memory_that_only_the_driver_knows() {
    let foreign = |keeper, mode: AccessMode| {
        let mut cap = Capture::new();
        let one = cap.node(MAIN, "one");
        let two = cap.node(SIDE, "two");
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        let f = cap.persistent("memory at 0x1000", 0x1000, 64);
        cap.trace.buffers[f.index()].kind = BufferKind::Foreign { keeper };
        cap.all(one, mode, f);
        cap.all(two, Read, f);
        cap.end()
    };
    hazard(&foreign(Keeper::Call, Write), Rule::UnorderedConflict);
    possible(&foreign(Keeper::Nobody, Read), Rule::UnknownMemory);
    let report = safe(&foreign(Keeper::Engine, Read));
    assert_eq!(
        report.assumptions,
        ["the engine keeps memory alive that only the driver knows (\"memory at 0x1000\")"]
    );
}

/// What a library finds in a workspace may be what another graph of the group has
/// left there: nothing is carried in it.
#[test]
fn a_workspace_carries_nothing() {
    let counter = |kind: BufferKind, mode: AccessMode| {
        let mut cap = Capture::new();
        let w = cap.persistent("counters", 0x1000, 16);
        cap.trace.buffers[w.index()].kind = kind;
        let bump = cap.node(MAIN, "bump");
        cap.all(bump, mode, w);
        cap.end()
    };
    let workspace = BufferKind::Workspace { stream: MAIN };
    hazard(
        &counter(workspace.clone(), ReadWrite),
        Rule::ReadBeforeWrite,
    );
    hazard(&counter(workspace.clone(), Atomic), Rule::ReadBeforeWrite);
    safe(&counter(workspace, Write));
    safe(&counter(BufferKind::Persistent, ReadWrite));
    // Taken where scratch was freed, it has nothing to lose.
    let mut cap = Capture::new();
    let t = cap.scratch(MAIN, "t", 0x1000, 16);
    let set = cap.node(MAIN, "set");
    cap.free(t);
    let w = cap.persistent("ws", 0x1000, 16);
    cap.trace.buffers[w.index()].kind = BufferKind::Workspace { stream: MAIN };
    let [gemm, reduce] = ["gemm", "reduce"].map(|name| cap.node(MAIN, name));
    cap.all(set, Write, t);
    cap.all(gemm, Write, w);
    cap.all(reduce, Read, w);
    safe(&cap.end());
}

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
    let mut trace = read(include_str!("../data/use-after-unnamed-free.json"));
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
