//! A driver that lies, and what nobody looked at (R10), as they are printed.

use streamweir_trace::{Edge, Node, NodeId, NodeKind};
use streamweir_verify::{Report, verify, verify_driver};

use crate::build::*;

/// `project` and then, after a join, `attend`, which reads what `logits` wrote.
fn recorded() -> Capture {
    let mut cap = Capture::new();
    let indexer = cap.trace.add_scope("layer 2/indexer");
    let scores = cap.persistent("scores", 0x1000, 0x400);
    cap.node(MAIN, "project");
    cap.join(SIDE, MAIN);
    let logits = cap.node(SIDE, "logits");
    cap.trace.nodes[logits.index()].scope = Some(indexer);
    cap.join(MAIN, SIDE);
    let attend = cap.node(MAIN, "attend");
    cap.all(logits, Write, scores);
    cap.all(attend, Read, scores);
    cap
}

/// The report about a driver that has the nodes and leaves the join out.
fn without_the_join() -> Report {
    let declared = recorded().end();
    let mut driver = declared.clone();
    driver
        .edges
        .retain(|edge| *edge != Edge::full(NodeId(1), NodeId(2)));
    let matching: Vec<Option<NodeId>> = (0..3).map(|at| Some(NodeId(at))).collect();
    verify_driver(&declared, &driver, &matching).unwrap()
}

#[test]
fn a_driver_that_lacks_a_recorded_order() {
    insta::assert_snapshot!(without_the_join().to_string(), @r#"
    hazard[R1]: nothing orders two accesses of the same bytes of "scores"
      --> n1 `logits` writes on stream "side" in layer 2/indexer at engine.rs:11
      ::: n2 `attend` reads on stream "main" at engine.rs:12
       |
       | stream "main"                  stream "side"
       | n0 `project` ----- fork -----> |
       | |                              n1 `logits`
       | |                                writes "scores"
       | n2 `attend` <- -  missing  - - |
       |   reads "scores"               |
       | no later node is after both
       |
       = buffer: b0 "scores", persistent, at 0x1000..0x1400
       = bytes: 0x1000..0x1400 (1024 bytes)
       = help: add a join of stream "side", after n1 `logits`, into "main" before n2 `attend`
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r1

    hazard[R6]: the work of stream "side" is not joined
      --> n1 `logits` on stream "side" in layer 2/indexer at engine.rs:11
       |
       | stream "main"                    stream "side"
       | n0 `project` ------ fork ------> |
       | ... 1 node                       |
       | |                                n1 `logits`
       | end of the capture <- missing  - |
       |
       = help: join stream "side", after n1 `logits`, into "main" before the capture ends
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md#r6

    hazard[reconciliation]: the driver's graph lacks the edge to n2 `attend`
      --> n1 `logits` on stream "side" in layer 2/indexer at engine.rs:11
      ::: n2 `attend` on stream "main" at engine.rs:12
       |
       | stream "main"               stream "side"
       | n0 `project` --- fork ----> |
       | |                           n1 `logits`
       | n2 `attend` -  no order - - |
       | no later node is after both
       |
       = help: do not replay this graph: capture it again, and report the difference
       = see: https://github.com/streamweir/streamweir/blob/main/docs/hazards.md

    hazard: capture "test", 3 hazards (3 nodes, 2 edges, 3 streams, 2 accesses compared 2 times)
    "#);
}

#[test]
fn what_is_not_analysed_stands_beside_the_verdict() {
    let mut cap = recorded();
    for (kind, name) in [
        (NodeKind::Host, "log"),
        (NodeKind::ChildGraph, "sampler"),
        (NodeKind::ChildGraph, "sampler"),
        (NodeKind::Conditional, "while"),
        (NodeKind::Unknown(99), "?"),
    ] {
        let node = cap.trace.add_node(Node::new(kind, name).on(MAIN));
        cap.trace.add_edge(Edge::full(NodeId(2), node));
    }
    let mut trace = cap.end();
    trace.streams[0].end.frontier = (3..8).map(NodeId).collect();
    insta::assert_snapshot!(verify(&trace).unwrap().to_string(), @r#"
    safe: capture "test" (8 nodes, 8 edges, 3 streams, 2 accesses compared 1 time)
      = 1 node not analysed: host function (n3 `log`): the function may touch any host memory, and device memory it maps
      = 2 nodes not analysed: child graph (n4 `sampler`, n5 `sampler`): its nodes are not expanded, and may touch any memory that they refer to
      = 1 node not analysed: conditional (n6 `while`): whether its body runs, and how often, is decided on the device
      = 1 node not analysed: unknown (n7 `?`): this version does not know the driver's kind
    "#);
}
