//! Shared bytes and lives: what stands in order, and where order is missing.

use streamweir_trace::EdgeKind;
use streamweir_verify::Rule;

use super::{drawn, extra, hazard};
use crate::build::*;

/// side: R a; main: W b, where b took the bytes of a too early.
#[test]
fn r2_unordered() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "qkv_a", 0x1000, 0x400);
    let fill = cap.node(MAIN, "project");
    cap.join(SIDE, MAIN);
    let read = cap.node(SIDE, "store_kv");
    cap.free(a);
    let b = cap.scratch(MAIN, "hidden", 0x1000, 0x400);
    let write = cap.node(MAIN, "norm");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "attend");
    cap.all(fill, Write, a);
    cap.all(read, Read, a);
    cap.all(write, Write, b);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    stream "main"                   stream "side"
    n0 `project` ----- fork ------> |
    |                               n1 `store_kv`
    |                                 reads "qkv_a"
    n2 `norm` <- - - missing  - - - |
      writes "hidden"               |
    n3 `attend` <------ join ------ |
    "#);
}

/// a1 -> b1 -> a2 on one stream: all ordered, and yet b destroys a.
#[test]
fn r2_ordered_on_one_stream() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "state", 0x1000, 0x400);
    let first = cap.node(MAIN, "update");
    extra(&mut cap, MAIN, &["norm", "norm"]);
    let b = cap.scratch(MAIN, "tmp", 0x1000, 0x400);
    let between = cap.node(MAIN, "project");
    let last = cap.node(MAIN, "emit");
    cap.all(first, Write, a);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(hazard(&cap.end(), Rule::SharedBytes).to_string(), @r#"
    hazard[R2]: "tmp" is used between two uses of "state", and they share bytes
      --> n3 `project` writes on stream "main" at engine.rs:13
      ::: n4 `emit` reads on stream "main" at engine.rs:14
       |
       | stream "main"
       | n0 `update`
       |   writes "state"
       | ... 2 nodes
       | n3 `project`
       |   writes "tmp"
       | n4 `emit`
       |   reads "state"
       |
       = buffer: b0 "state", scratch, tag "main", at 0x1000..0x1400
       = buffer: b1 "tmp", scratch, tag "main", at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: give "tmp" bytes of its own: keep the other buffer until its last use, or take the two from isolated pools
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r2
    "#);
}

/// The same over two streams, ordered by a third.
#[test]
fn r2_ordered_over_streams() {
    let mut cap = Capture::new();
    let a = cap.persistent("state", 0x1000, 0x400);
    let first = cap.node(SIDE, "update");
    extra(&mut cap, SIDE, &["norm"]);
    cap.join(THIRD, SIDE);
    extra(&mut cap, THIRD, &["pass"]);
    cap.join(MAIN, THIRD);
    extra(&mut cap, MAIN, &["norm"]);
    let b = cap.scratch(MAIN, "tmp", 0x1000, 0x400);
    let between = cap.node(MAIN, "project");
    let last = cap.node(MAIN, "emit");
    cap.all(first, Write, a);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    stream "main"                stream "side"
    |                            n0 `update`
    |                              writes "state"
    ... 1 node                   ... 1 node
    n4 `project` <--- before --- |
      writes "tmp"               |
    "#);
}

#[test]
fn r4_before_the_alloc_point() {
    let mut cap = Capture::new();
    extra(&mut cap, MAIN, &["project"]);
    let a = cap.scratch(MAIN, "scores", 0x1000, 0x400);
    let write = cap.node(SIDE, "logits");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "attend");
    cap.all(write, Write, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::OwnerGone), @r#"
    stream "main"                          stream "side"
    n0 `project`                           |
      here "scores" is taken               |
    | - - - - - - - missing - - - - - - -> n1 `logits`
    |                                        writes "scores"
    n2 `attend` <--------- join ---------- |
    "#);
}

#[test]
fn r4_after_the_free() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "scores", 0x1000, 0x400);
    let write = cap.node(MAIN, "project");
    cap.free(a);
    extra(&mut cap, MAIN, &["norm", "gate"]);
    let late = cap.node(MAIN, "attend");
    cap.all(write, Write, a);
    cap.all(late, Read, a);
    insta::assert_snapshot!(hazard(&cap.end(), Rule::OwnerGone).to_string(), @r#"
    hazard[R4]: "scores" is used by a node recorded after its free
      --> n3 `attend` reads on stream "main" at engine.rs:13
       |
       | in the order of recording
       | n0 `project`
       |   "scores" is freed
       | ... 2 nodes
       | n3 `attend`
       |   reads "scores"
       |
       = buffer: b0 "scores", scratch, tag "main", at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: keep "scores" until n3 `attend` is recorded
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r4
    "#);
}

/// The use before, on the stream of the one behind; what comes between, on
/// another.
#[test]
fn r2_between_two_uses_of_another_stream() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "state", 0x1000, 0x400);
    let before = cap.node(MAIN, "set");
    let first = cap.node(MAIN, "update");
    extra(&mut cap, MAIN, &["norm"]);
    cap.join(SIDE, MAIN);
    extra(&mut cap, SIDE, &["rope"]);
    let b = cap.scratch(SIDE, "tmp", 0x1000, 0x400);
    let between = cap.node(SIDE, "project");
    extra(&mut cap, SIDE, &["quantise", "store"]);
    cap.join(MAIN, SIDE);
    extra(&mut cap, MAIN, &["gate"]);
    let last = cap.node(MAIN, "emit");
    cap.all(before, Write, a);
    cap.all(first, Write, a);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    stream "main"                  stream "side"
    n1 `update`                    |
      writes "state"               |
    ... 1 node                     ... 1 node
    | --------- before ----------> n4 `project`
    |                                writes "tmp"
    ... 1 node                     ... 2 nodes
    n8 `emit` <----- before ------ |
      reads "state"                |
    "#);
}

/// Three streams and two columns: the use before has a line of its own.
#[test]
fn r2_between_uses_on_three_streams() {
    let mut cap = Capture::new();
    let a = cap.scratch(THIRD, "state", 0x1000, 0x400);
    let first = cap.node(THIRD, "update");
    cap.join(SIDE, THIRD);
    let b = cap.scratch(SIDE, "tmp", 0x1000, 0x400);
    let between = cap.node(SIDE, "project");
    cap.join(MAIN, SIDE);
    let last = cap.node(MAIN, "emit");
    cap.all(first, Write, a);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    n0 `update` on "third" comes first
      writes "state"
    stream "main"                 stream "side"
    |                             n1 `project`
    |                               writes "tmp"
    n2 `emit` <----- before ----- |
      reads "state"               |
    "#);
}

/// A use of other bytes is not what is destroyed, nor is one that nothing puts
/// in front.
#[test]
fn r2_the_use_before_is_of_the_same_bytes_and_ordered() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "state", 0x1000, 0x400);
    let first = cap.node(MAIN, "low");
    let other = cap.node(MAIN, "high");
    cap.join(SIDE, MAIN);
    let aside = cap.node(SIDE, "aside");
    let b = cap.scratch(MAIN, "tmp", 0x1000, 0x100);
    let between = cap.node(MAIN, "project");
    cap.join(MAIN, SIDE);
    let last = cap.node(MAIN, "emit");
    cap.part(first, Write, a, 0, 0x200);
    cap.part(other, Write, a, 0x200, 0x400);
    cap.part(aside, Read, a, 0x200, 0x400);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    stream "main"
    n0 `low`
      writes "state"
    ... 1 node
    n3 `project`
      writes "tmp"
    n4 `emit`
      reads "state"
    "#);
}

/// A programmatic edge to a kernel that does not wait: one stream, and no order.
#[test]
fn r1_on_one_stream_with_a_programmatic_edge() {
    let mut cap = Capture::new();
    let a = cap.persistent("keys", 0x1000, 0x400);
    let write = cap.node(MAIN, "store_kv");
    let read = cap.node(MAIN, "attend");
    cap.trace.edges[0].kind = EdgeKind::Programmatic;
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::UnorderedConflict), @r#"
    stream "main"                 stream "main"
    n0 `store_kv`                 |
      writes "keys"               |
    | - - - -  missing - - - - -> n1 `attend`
    |                               reads "keys"
    no later node is after both
    "#);
}

/// A chain that goes on with a node of no stream: the column has the name of
/// the one, and the other is said.
#[test]
fn r2_between_uses_on_a_chain_that_leaves_its_stream() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "state", 0x1000, 0x400);
    let b = cap.scratch(MAIN, "tmp", 0x1000, 0x400);
    let first = cap.node(MAIN, "update");
    let between = cap.node(MAIN, "project");
    cap.trace.nodes[between.index()].stream = None;
    let last = cap.node(MAIN, "emit");
    cap.all(first, Write, a);
    cap.all(between, Write, b);
    cap.all(last, Read, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::SharedBytes), @r#"
    stream "main"
    n0 `update`
      writes "state"
    n1 `project`
      on no known stream
      writes "tmp"
    n2 `emit`
      reads "state"
    "#);
}
