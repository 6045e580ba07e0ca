//! Programmatic dependent launch: three times per node.

use streamweir_trace::{Edge, EdgeKind, NodeId, PdlWait, Phase, Trace};
use streamweir_verify::Rule;

use crate::build::*;

/// Three nodes in a row. `kinds` are the two edges; node 0 writes, and the last
/// node reads in `phase`.
fn row(kinds: [EdgeKind; 2], waits: [PdlWait; 2], phase: Phase) -> Trace {
    let mut cap = Capture::new();
    let a = cap.persistent("a", 0, 64);
    for name in ["write", "between", "read"] {
        cap.node(MAIN, name);
    }
    cap.all(NodeId(0), Write, a);
    cap.all(NodeId(2), Read, a);
    let mut trace = cap.end();
    trace.accesses[1].phase = phase;
    trace.edges = vec![
        Edge {
            kind: kinds[0],
            ..Edge::full(NodeId(0), NodeId(1))
        },
        Edge {
            kind: kinds[1],
            ..Edge::full(NodeId(1), NodeId(2))
        },
    ];
    trace.nodes[1].pdl = waits[0];
    trace.nodes[2].pdl = waits[1];
    trace
}

use EdgeKind::{Full, Programmatic as Prog};
use PdlWait::{None as Silent, OnAllPaths as Waits};
use Phase::{AfterWait as After, BeforeWait as Before};

#[test]
fn which_rows_are_ordered() {
    for (kinds, waits, phase, ordered) in [
        ([Full, Full], [Silent, Silent], Before, true),
        // The last node starts while the one between still runs, but the
        // first has ended by then.
        ([Full, Prog], [Silent, Waits], Before, true),
        ([Full, Prog], [Silent, Waits], After, true),
        // Nothing declared: the edge orders nothing.
        ([Full, Prog], [Silent, Silent], After, false),
        ([Full, Prog], [Silent, Silent], Before, false),
        // The wait of the one between carries over a full edge.
        ([Prog, Full], [Waits, Silent], Before, true),
        // Without it, the one between may end before the first does.
        ([Prog, Full], [Silent, Silent], After, false),
        // It may trigger before its own wait: the last may start while the
        // first still runs, but not pass its own wait.
        ([Prog, Prog], [Waits, Waits], Before, false),
        ([Prog, Prog], [Waits, Waits], After, true),
        ([Prog, Prog], [Silent, Waits], After, false),
        ([Prog, Prog], [Waits, Silent], After, false),
    ] {
        let trace = row(kinds, waits, phase);
        let expected: &[Rule] = if ordered {
            &[]
        } else {
            &[Rule::UnorderedConflict]
        };
        assert_eq!(rules(&trace), expected, "{kinds:?} {waits:?} {phase:?}");
    }
}

/// The shortcut for whole hand-overs must not skip over a start that is earlier
/// than the first wait of its chain.
#[test]
fn hand_over_with_an_access_before_a_later_wait() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    for name in ["write a", "write b", "write b again"] {
        cap.node(MAIN, name);
    }
    cap.all(NodeId(0), Write, a);
    cap.all(NodeId(1), Write, b);
    cap.all(NodeId(2), Write, b);
    let mut trace = cap.end();
    for edge in &mut trace.edges {
        edge.kind = Prog;
    }
    trace.nodes[1].pdl = Waits;
    trace.nodes[2].pdl = Waits;
    safe(&trace);
    trace.accesses[2].phase = Before;
    let broken = broken(&trace);
    assert!(broken.contains(&(Rule::SharedBytes, Some(NodeId(0)), Some(NodeId(2)))));
    assert!(broken.contains(&(Rule::UnorderedConflict, Some(NodeId(1)), Some(NodeId(2)))));
}

/// A driver's unjoined work is a question of edges, whatever they promise.
#[test]
fn programmatic_edges_join() {
    let trace = row([Prog, Prog], [Silent, Silent], After);
    assert_eq!(rules(&trace), [Rule::UnorderedConflict]);
}
