//! Forks and joins in odd places, and nodes on no stream.

use streamweir_trace::{Access, Buffer, ByteRange, Edge, Node, NodeKind, Trace};
use streamweir_verify::Rule;

use super::{drawn, extra, story};
use crate::build::*;

/// Forked by a third stream, and joined by it.
#[test]
fn a_fork_and_a_join_elsewhere() {
    let mut cap = Capture::new();
    let a = cap.persistent("keys", 0x1000, 0x400);
    extra(&mut cap, MAIN, &["norm"]);
    cap.join(SIDE, MAIN);
    cap.join(THIRD, MAIN);
    let read = cap.node(SIDE, "logits");
    let write = cap.node(THIRD, "store_kv");
    cap.join(MAIN, SIDE);
    cap.join(MAIN, THIRD);
    cap.node(MAIN, "attend");
    cap.all(read, Read, a);
    cap.all(write, Write, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::UnorderedConflict), @r#"
    n0 `norm` on "main" is before both:
    stream "side"                stream "third"
    n1 `logits`                  |
      reads "keys"               |
    | - - - -  missing  - - - -> n2 `store_kv`
    |                              writes "keys"
    n3 `attend` on "main" is after both
    "#);
}

/// A foreign graph has no streams, its chains are what is known of them.
#[test]
fn chains_of_a_foreign_graph() {
    let mut trace = story();
    trace.nodes.iter_mut().for_each(|node| node.stream = None);
    trace.streams.clear();
    for node in &mut trace.nodes {
        node.name = format!(
            "void at::native::vectorized_elementwise_kernel<4, {}>",
            node.name
        );
    }
    insta::assert_snapshot!(drawn(&trace, Rule::UnorderedConflict), @r#"
    chain of n4                                 chain of n9
    n1 `void at::na..4, project>` --- fork ---> |
    ... 2 nodes                                 ... 3 nodes
    n4 `void at::na..xer_logits>`               |
      reads "keys"                              |
    | - - - - - - - - missing  - - - - - - - -> n9 `void at::na.., store_kv>`
    |                                             writes "keys"
    ... 1 node                                  ... 2 nodes
    | ----------------- join -----------------> n12 `void at::na..el<4, add>`
    "#);
}

/// Nodes of one stream that nothing orders.
#[test]
fn a_stream_that_is_no_chain() {
    let mut trace = Capture::new().trace;
    let a = trace.add_buffer(Buffer::persistent("keys", ByteRange::new(0, 8)));
    let node = |trace: &mut Trace, name: &str| {
        trace.add_node(Node::new(NodeKind::kernel(), name).on(MAIN))
    };
    let (x, y) = (node(&mut trace, "x"), node(&mut trace, "y"));
    let end = node(&mut trace, "end");
    trace.add_edge(Edge::full(x, end));
    trace.add_edge(Edge::full(y, end));
    for at in [x, y] {
        let bytes = ByteRange::new(0, 8);
        trace.add_access(Access::new(at, a, bytes, Write));
    }
    insta::assert_snapshot!(drawn(&trace, Rule::UnorderedConflict), @r#"
    stream "main"                 stream "main"
    n0 `x`                        |
      writes "keys"               |
    | - - - -  missing - - - - -> n1 `y`
    |                               writes "keys"
    | ---------- join ----------> n2 `end`
    "#);
}

/// Of several forks the last one before both is drawn, and of several joins the
/// first one behind both, whatever stream they are on.
#[test]
fn the_nearest_fork_and_the_nearest_join() {
    let mut cap = Capture::new();
    let a = cap.persistent("keys", 0x1000, 0x400);
    extra(&mut cap, MAIN, &["begin"]);
    cap.join(SIDE, MAIN);
    cap.join(THIRD, MAIN);
    extra(&mut cap, SIDE, &["rope"]);
    extra(&mut cap, THIRD, &["gate"]);
    extra(&mut cap, MAIN, &["norm", "project"]);
    cap.join(SIDE, MAIN);
    extra(&mut cap, MAIN, &["query"]);
    let read = cap.node(SIDE, "logits");
    let write = cap.node(MAIN, "store_kv");
    extra(&mut cap, SIDE, &["topk"]);
    cap.join(MAIN, SIDE);
    extra(&mut cap, MAIN, &["attend"]);
    cap.join(THIRD, MAIN);
    extra(&mut cap, THIRD, &["stage"]);
    cap.join(MAIN, THIRD);
    extra(&mut cap, MAIN, &["add"]);
    cap.all(read, Read, a);
    cap.all(write, Write, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::UnorderedConflict), @r#"
    stream "main"                 stream "side"
    n4 `project` ---- fork -----> |
    ... 1 node                    ... 1 node
    |                             n6 `logits`
    |                               reads "keys"
    n7 `store_kv` <-  missing - - |
      writes "keys"               |
    |                             ... 1 node
    n9 `attend` <----- join ----- |
    "#);
}

/// With very many streams only those of the two are looked at: a fork or a join
/// on another is not drawn, and what is drawn still holds.
#[test]
fn among_very_many_streams() {
    let mut cap = Capture::new();
    let a = cap.persistent("keys", 0x1000, 0x400);
    let begin = cap.node(MAIN, "begin");
    for _ in 0..70 {
        let mut node = Node::new(NodeKind::kernel(), "other");
        node.stream = None;
        let node = cap.trace.add_node(node);
        cap.trace.add_edge(Edge::full(begin, node));
    }
    cap.join(SIDE, MAIN);
    cap.join(THIRD, MAIN);
    let read = cap.node(SIDE, "logits");
    let write = cap.node(THIRD, "store_kv");
    cap.join(MAIN, SIDE);
    cap.join(MAIN, THIRD);
    extra(&mut cap, MAIN, &["add"]);
    cap.all(read, Read, a);
    cap.all(write, Write, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::UnorderedConflict), @r#"
    stream "side"                stream "third"
    n71 `logits`                 |
      reads "keys"               |
    | - - - -  missing  - - - -> n72 `store_kv`
    |                              writes "keys"
    n73 `add` on "main" is after both
    "#);
}

/// Of what is before both on two streams, the later one is drawn.
#[test]
fn the_latest_of_two_forks() {
    let mut cap = Capture::new();
    let a = cap.persistent("keys", 0x1000, 0x400);
    extra(&mut cap, MAIN, &["begin"]);
    cap.join(THIRD, MAIN);
    extra(&mut cap, THIRD, &["gate"]);
    cap.join(SIDE, THIRD);
    cap.join(MAIN, THIRD);
    let read = cap.node(SIDE, "logits");
    let write = cap.node(MAIN, "store_kv");
    cap.all(read, Read, a);
    cap.all(write, Write, a);
    insta::assert_snapshot!(drawn(&cap.end(), Rule::UnorderedConflict), @r#"
    n1 `gate` on "third" is before both:
    stream "main"                 stream "side"
    |                             n2 `logits`
    |                               reads "keys"
    n3 `store_kv` <-  missing - - |
      writes "keys"               |
    no later node is after both
    "#);
}
