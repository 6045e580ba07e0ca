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

mod graph_memory;

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
