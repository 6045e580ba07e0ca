//! What a person sees of a hazard: the drawing of each kind, as printed.

mod driver;
mod order;
mod session;
mod shape;

use streamweir_trace::{BlockSync, ByteRange, NodeId, NodeKind, PossibleAccess, StreamId, Trace};
use streamweir_verify::{Hazard, Rule, verify};

use crate::build::*;
use crate::generate::hostile;

/// The first hazard of this rule.
#[track_caller]
fn hazard(trace: &Trace, rule: Rule) -> Hazard {
    let report = verify(trace).unwrap();
    let found = report.hazards.iter().find(|hazard| hazard.rule == rule);
    found.unwrap_or_else(|| panic!("{report}")).clone()
}

fn drawn(trace: &Trace, rule: Rule) -> String {
    hazard(trace, rule).drawing.join("\n")
}

fn extra(cap: &mut Capture, stream: StreamId, names: &[&str]) {
    for name in names {
        cap.node(stream, name);
    }
}

/// main forks side, both do much, and the join comes too late.
fn story() -> Trace {
    let mut cap = Capture::new();
    let keys = cap.persistent("keys", 0x1000, 0x400);
    extra(&mut cap, MAIN, &["norm", "project"]);
    cap.join(SIDE, MAIN);
    extra(&mut cap, SIDE, &["rope", "quantise"]);
    let logits = cap.node(SIDE, "indexer_logits");
    extra(&mut cap, SIDE, &["topk"]);
    extra(&mut cap, MAIN, &["query", "rope", "gate"]);
    let store = cap.node(MAIN, "store_kv");
    extra(&mut cap, MAIN, &["experts", "experts"]);
    cap.join(MAIN, SIDE);
    extra(&mut cap, MAIN, &["add", "norm"]);
    cap.all(logits, Read, keys);
    cap.all(store, Write, keys);
    cap.end()
}

#[test]
fn r1_between_a_fork_and_a_join() {
    let hazard = hazard(&story(), Rule::UnorderedConflict);
    insta::assert_snapshot!(hazard.to_string(), @r#"
    hazard[R1]: nothing orders two accesses of the same bytes of "keys"
      --> n4 `indexer_logits` reads on stream "side" at engine.rs:14
      ::: n9 `store_kv` writes on stream "main" at engine.rs:19
       |
       | stream "main"                 stream "side"
       | n1 `project` ---- fork -----> |
       | ... 3 nodes                   ... 2 nodes
       | |                             n4 `indexer_logits`
       | |                               reads "keys"
       | n9 `store_kv` <-  missing - - |
       |   writes "keys"               |
       | ... 2 nodes                   ... 1 node
       | n12 `add` <------ join ------ |
       |
       = buffer: b0 "keys", persistent, at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: add a join of stream "side", after n4 `indexer_logits`, into "main" before n9 `store_kv`
       = or: let n9 `store_kv` write bytes of its own instead of "keys"
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r1
    "#);
}

/// The write that comes too late would not have been enough: with a join there would
/// be bytes that nothing has written.
#[test]
fn r13_a_write_that_comes_too_late() {
    let mut cap = Capture::new();
    let a = cap.scratch(SIDE, "scores", 0x1000, 0x400);
    let write = cap.node(SIDE, "logits");
    extra(&mut cap, MAIN, &["query"]);
    let read = cap.node(MAIN, "attend");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "add");
    cap.part(write, Write, a, 0, 0x200);
    cap.all(read, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::ReadBeforeWrite), @r#"
    stream "main"                  stream "side"
    ... 1 node                     |
    |                              n0 `logits`
    |                                writes "scores"
    n2 `attend` <- -  missing  - - |
      reads "scores"               |
    n3 `add` <------- join ------- |
    "#);
}

/// A pointer found in a parameter says nothing of reading or writing.
#[test]
fn possible() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "workspace", 0x1000, 0x400);
    cap.node(MAIN, "norm");
    cap.join(SIDE, MAIN);
    let write = cap.node(SIDE, "gemm");
    let touch = cap.node(MAIN, "split_k");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "attend");
    cap.all(write, Write, a);
    cap.trace.possible.push(PossibleAccess {
        node: touch,
        buffer: a,
        bytes: ByteRange::new(0, 0x400),
        param: Some(2),
        offset: 0,
    });
    insta::assert_snapshot!(hazard(&cap.end(), Rule::UnorderedConflict).to_string(), @r#"
    possible[R1]: nothing orders two accesses of the same bytes of "workspace"
      --> n1 `gemm` writes on stream "side" at engine.rs:11
      ::: n2 `split_k` on stream "main" at engine.rs:12
       |
       | stream "main"                         stream "side"
       | n0 `norm` ---------- fork ----------> |
       | |                                     n1 `gemm`
       | |                                       writes "workspace"
       | n2 `split_k` <- - - - missing - - - - |
       |   may touch "workspace"               |
       | n3 `attend` <--------- join --------- |
       |
       = buffer: b0 "workspace", scratch, tag "main", at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: add a join of stream "side", after n1 `gemm`, into "main" before n2 `split_k`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r1
    "#);
}

/// Nothing writes it at all: one node, and nothing to draw.
#[test]
fn r13_no_write() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "scores", 0x1000, 0x400);
    let read = cap.node(MAIN, "attend");
    cap.all(read, Read, a);
    let hazard = hazard(&cap.end(), Rule::ReadBeforeWrite);
    assert_eq!(hazard.drawing, [""; 0]);
    insta::assert_snapshot!(hazard.to_string(), @r#"
    hazard[R13]: "scores" is read before anything has written it in this replay
      --> n0 `attend` reads on stream "main" at engine.rs:10
       |
       = buffer: b0 "scores", scratch, tag "main", at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: write bytes 0x0..0x400 of "scores" before n0 `attend`, or make it persistent if it is to last from one replay to the next
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r13
    "#);
}

#[test]
fn r14_beside_a_kernel_that_spins() {
    let mut cap = Capture::new();
    extra(&mut cap, MAIN, &["norm"]);
    cap.join(SIDE, MAIN);
    let spin = cap.node(SIDE, "topk_barrier");
    if let NodeKind::Kernel(kernel) = &mut cap.trace.nodes[spin.index()].kind {
        kernel.sync = BlockSync::Spin;
    }
    extra(&mut cap, MAIN, &["gemm"]);
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "attend");
    insta::assert_snapshot!(hazard(&cap.end(), Rule::CoResidency).to_string(), @r#"
    hazard[R14]: kernels may run together, and the blocks of one spin on each other with nothing to guarantee that all of them are resident
      --> n1 `topk_barrier` on stream "side" at engine.rs:11
      ::: n2 `gemm` on stream "main" at engine.rs:12
       |
       | stream "main"               stream "side"
       | n0 `norm` ----- fork -----> |
       | |                           n1 `topk_barrier`
       | n2 `gemm` <- - missing  - - |
       | n3 `attend` <---- join ---- |
       |
       = help: add a join of stream "side", after n1 `topk_barrier`, into "main" before n2 `gemm`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r14
    "#);
}

/// Whatever the names are, a line is one line, and no wider than a terminal.
#[test]
fn no_name_breaks_a_line() {
    let mut trace = hostile();
    trace.nodes[NodeId(0).index()].name.push_str("\n\r\t");
    let report = verify(&trace).unwrap();
    assert!(
        report
            .hazards
            .iter()
            .any(|hazard| !hazard.drawing.is_empty())
    );
    for hazard in &report.hazards {
        for line in &hazard.drawing {
            assert!(line.chars().count() <= 73, "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}
