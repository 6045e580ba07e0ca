//! A driver that lies is caught.

use streamweir_trace::{
    BlockSync, CopyNode, Edge, EdgeKind, FillNode, KernelNode, Node, NodeId, NodeKind, Param,
    PdlWait, PointerParam, Trace, TraceError,
};
use streamweir_verify::{
    Difference, Rule, Verdict, VerifyError, certificate, driver_trace, reconcile, verify_driver,
};

use crate::build::*;

/// Two streams, three kernels with parameters, a copy and a fill.
fn recorded() -> Trace {
    let mut cap = Capture::new();
    let q = cap.persistent("q", 0x1000, 64);
    let keys = cap.persistent("keys", 0x2000, 64);
    let out = cap.persistent("out", 0x3000, 64);
    let fill = cap.node(MAIN, "fill");
    let project = cap.node(MAIN, "project");
    cap.join(SIDE, MAIN);
    let logits = cap.node(SIDE, "logits");
    let copy = cap.node(MAIN, "copy");
    cap.join(MAIN, SIDE);
    let attend = cap.node(MAIN, "attend");
    cap.all(fill, Write, q);
    cap.all(project, ReadWrite, q);
    cap.all(logits, Read, q);
    cap.all(logits, ReadWrite, keys);
    cap.all(copy, Read, q);
    cap.all(copy, Write, out);
    cap.all(attend, Read, keys);
    cap.all(attend, ReadWrite, out);
    let mut trace = cap.end();
    let pointer = |name: &str, offset, buffer: streamweir_trace::BufferId, address: u64| Param {
        name: name.into(),
        offset,
        bytes: address.to_le_bytes().to_vec(),
        pointer: Some(PointerParam {
            buffer: Some(buffer),
            offset: 0,
        }),
        fields: Vec::new(),
    };
    let len = |offset| Param {
        name: "len".into(),
        offset,
        bytes: 16_u32.to_le_bytes().to_vec(),
        pointer: None,
        fields: Vec::new(),
    };
    let kernel = |function: &str, params| {
        NodeKind::Kernel(KernelNode {
            function: function.into(),
            grid: [4, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 1024,
            params,
            ..KernelNode::default()
        })
    };
    trace.nodes[0].kind = NodeKind::Memset(FillNode::linear(0x1000, 64, 0));
    trace.nodes[1].kind = kernel("project", vec![pointer("q", 0, q, 0x1000), len(8)]);
    trace.nodes[2].kind = kernel(
        "logits",
        vec![
            pointer("q", 0, q, 0x1000),
            pointer("keys", 8, keys, 0x2000),
            len(16),
        ],
    );
    trace.nodes[3].kind = NodeKind::Memcpy(CopyNode::linear(0x3000, 0x1000, 64));
    trace.nodes[4].kind = kernel(
        "attend",
        vec![
            pointer("keys", 0, keys, 0x2000),
            pointer("out", 8, out, 0x3000),
        ],
    );
    safe(&trace);
    trace
}

/// What an honest driver says, in an order of its own.
fn read_back(recorded: &Trace) -> (Trace, Vec<Option<NodeId>>) {
    let order = [4, 2, 0, 3, 1].map(NodeId);
    let place = |node: NodeId| NodeId::at(order.iter().position(|&n| n == node).unwrap());
    let mut trace = Trace::new("driver");
    for node in order {
        let mut kind = recorded.node(node).kind.clone();
        if let NodeKind::Kernel(kernel) = &mut kind {
            for param in &mut kernel.params {
                param.name.clear();
                param.pointer = None;
            }
        }
        trace.add_node(Node::new(kind, ""));
    }
    for edge in &recorded.edges {
        trace.add_edge(Edge {
            from: place(edge.from),
            to: place(edge.to),
            kind: edge.kind,
        });
    }
    (trace, order.map(Some).to_vec())
}

fn differences(recorded: &Trace, driver: &Trace, matching: &[Option<NodeId>]) -> Vec<Difference> {
    let report = verify_driver(recorded, driver, matching).unwrap();
    let mismatches = reconcile(recorded, driver, matching).unwrap();
    assert_eq!(
        report.verdict == Verdict::Safe,
        mismatches.is_empty(),
        "{report}"
    );
    let as_hazards = report
        .hazards
        .iter()
        .filter(|h| h.rule == Rule::Reconciliation)
        .count();
    assert_eq!(as_hazards, mismatches.len());
    mismatches
        .into_iter()
        .map(|mismatch| mismatch.difference)
        .collect()
}

#[test]
fn an_honest_driver_is_safe_with_a_certificate_about_its_edges() {
    let recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    assert_eq!(differences(&recorded, &driver, &matching), []);
    let report = verify_driver(&recorded, &driver, &matching).unwrap();
    let decided = driver_trace(&recorded, &driver, &matching).unwrap();
    certificate::check(&decided, &report.certificate.unwrap()).unwrap();
}

#[test]
fn every_dropped_edge_is_caught() {
    let recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    for at in 0..driver.edges.len() {
        let mut lying = driver.clone();
        lying.edges.remove(at);
        let found = differences(&recorded, &lying, &matching);
        let lost = recorded.edges[at];
        assert!(
            matches!(&found[..], [Difference::MissingEdge { to, .. }] if to.node == Some(lost.to)),
            "{lost:?}: {found:?}"
        );
        // The order is the driver's: what the edge protected is now a race.
        let report = verify_driver(&recorded, &lying, &matching).unwrap();
        assert!(
            report
                .hazards
                .iter()
                .any(|h| h.rule == Rule::UnorderedConflict),
            "{lost:?}\n{report}"
        );
    }
}

#[test]
fn more_order_than_recorded_is_no_difference() {
    let recorded = recorded();
    let (mut driver, matching) = read_back(&recorded);
    let place = |node: u32| {
        NodeId::at(
            matching
                .iter()
                .position(|&m| m == Some(NodeId(node)))
                .unwrap(),
        )
    };
    // logits -> copy instead of project -> copy: still implied.
    driver
        .edges
        .retain(|edge| (edge.from, edge.to) != (place(1), place(3)));
    driver.add_edge(Edge::full(place(2), place(3)));
    assert_eq!(differences(&recorded, &driver, &matching), []);
}

#[test]
fn every_altered_parameter_is_caught() {
    let recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    let mut tried = 0;
    for node in 0..driver.nodes.len() {
        let NodeKind::Kernel(kernel) = &driver.nodes[node].kind else {
            continue;
        };
        for param in 0..kernel.params.len() {
            for byte in 0..kernel.params[param].bytes.len() {
                let mut lying = driver.clone();
                if let NodeKind::Kernel(kernel) = &mut lying.nodes[node].kind {
                    kernel.params[param].bytes[byte] ^= 1;
                }
                let found = differences(&recorded, &lying, &matching);
                assert!(
                    matches!(&found[..], [Difference::Param { .. }]),
                    "{found:?}"
                );
                tried += 1;
            }
            let mut lying = driver.clone();
            if let NodeKind::Kernel(kernel) = &mut lying.nodes[node].kind {
                kernel.params.remove(param);
            }
            let found = differences(&recorded, &lying, &matching);
            assert!(
                matches!(&found[..], [Difference::Param { driver: None, .. }]),
                "{found:?}"
            );
        }
    }
    // Five pointers and two lengths.
    assert_eq!(tried, 5 * 8 + 2 * 4);
}

#[test]
fn an_altered_pointer_names_where_it_lands() {
    let recorded = recorded();
    let (mut driver, matching) = read_back(&recorded);
    // attend is the driver's node 0; its first parameter is keys.
    if let NodeKind::Kernel(kernel) = &mut driver.nodes[0].kind {
        kernel.params[0].bytes = 0x1008_u64.to_le_bytes().to_vec();
    }
    let mismatches = reconcile(&recorded, &driver, &matching).unwrap();
    assert_eq!(
        mismatches[0].to_string(),
        "n4 `attend`: parameter 0 \"keys\" recorded as 0x2000, but the driver has 0x1008, which is in \"q\""
    );
}

#[test]
fn every_altered_launch_and_operand_is_caught() {
    let recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    type Alter = fn(&mut NodeKind);
    let alter: [(usize, &str, Alter); 15] = [
        (0, "function", |k| {
            if let NodeKind::Kernel(k) = k {
                k.function.push('2')
            }
        }),
        (0, "grid", |k| {
            if let NodeKind::Kernel(k) = k {
                k.grid[2] = 2
            }
        }),
        (0, "block", |k| {
            if let NodeKind::Kernel(k) = k {
                k.block[0] = 64
            }
        }),
        (0, "shared bytes", |k| {
            if let NodeKind::Kernel(k) = k {
                k.shared_bytes = 0
            }
        }),
        (3, "destination", |k| {
            if let NodeKind::Memcpy(c) = k {
                c.to += 8
            }
        }),
        (3, "source", |k| {
            if let NodeKind::Memcpy(c) = k {
                c.from += 8
            }
        }),
        (3, "length", |k| {
            if let NodeKind::Memcpy(c) = k {
                c.bytes += 8
            }
        }),
        (0, "launch", |k| {
            if let NodeKind::Kernel(k) = k {
                k.sync = BlockSync::Cooperative
            }
        }),
        (3, "rows", |k| {
            if let NodeKind::Memcpy(c) = k {
                c.rows = 2
            }
        }),
        (2, "rows", |k| {
            if let NodeKind::Memset(f) = k {
                f.rows = 2
            }
        }),
        (2, "element", |k| {
            if let NodeKind::Memset(f) = k {
                (f.element, f.value) = (4, 0x01020304)
            }
        }),
        (3, "pitches", |k| {
            if let NodeKind::Memcpy(c) = k {
                (c.rows, c.bytes, c.to_pitch, c.from_pitch) = (2, 32, 40, 32)
            }
        }),
        (2, "destination", |k| {
            if let NodeKind::Memset(f) = k {
                f.to += 8
            }
        }),
        (2, "length", |k| {
            if let NodeKind::Memset(f) = k {
                f.bytes += 8
            }
        }),
        (2, "value", |k| {
            if let NodeKind::Memset(f) = k {
                f.value = 1
            }
        }),
    ];
    for (node, what, alter) in alter {
        let mut lying = driver.clone();
        alter(&mut lying.nodes[node].kind);
        let found = differences(&recorded, &lying, &matching);
        let named = |found: &Difference| matches!(found, Difference::Property { property, .. } if property == what);
        assert!(found.iter().any(named), "{what}: {found:?}");
    }
    let mut lying = driver;
    lying.nodes[1].kind = NodeKind::Empty;
    assert!(matches!(
        &differences(&recorded, &lying, &matching)[..],
        [Difference::Kind { .. }]
    ));
}

/// A parameter that nobody recorded, also of a kernel that has none.
#[test]
fn every_extra_parameter_is_caught() {
    let mut recorded = recorded();
    for bare in [false, true] {
        if bare && let NodeKind::Kernel(kernel) = &mut recorded.nodes[4].kind {
            kernel.params.clear();
        }
        let (mut lying, matching) = read_back(&recorded);
        if let NodeKind::Kernel(kernel) = &mut lying.nodes[0].kind {
            kernel.params.push(Param {
                name: String::new(),
                offset: 64,
                bytes: vec![1; 8],
                pointer: None,
                fields: Vec::new(),
            });
        }
        let found = differences(&recorded, &lying, &matching);
        let extra = |found: &Difference| {
            matches!(
                found,
                Difference::Param {
                    declared: None,
                    driver: Some(_),
                    offset: 64,
                    ..
                }
            )
        };
        assert!(found.iter().any(extra), "{found:?}");
    }
}

/// A programmatic edge that the driver lacks, and one that it has in full.
#[test]
fn a_dropped_programmatic_edge_is_caught() {
    let mut recorded = recorded();
    let last = NodeId(4);
    for edge in recorded.edges.iter_mut().filter(|edge| edge.to == last) {
        edge.kind = EdgeKind::Programmatic;
    }
    recorded.nodes[last.index()].pdl = PdlWait::OnAllPaths;
    let (driver, matching) = read_back(&recorded);
    assert_eq!(differences(&recorded, &driver, &matching), []);
    let mut stronger = driver.clone();
    for edge in &mut stronger.edges {
        edge.kind = EdgeKind::Full;
    }
    assert_eq!(differences(&recorded, &stronger, &matching), []);
    let early: Vec<usize> = (0..driver.edges.len())
        .filter(|&at| driver.edges[at].kind == EdgeKind::Programmatic)
        .collect();
    assert!(!early.is_empty());
    for at in early {
        let mut lying = driver.clone();
        lying.edges.remove(at);
        let found = reconcile(&recorded, &lying, &matching).unwrap();
        let missing = |kind: &EdgeKind| *kind == EdgeKind::Programmatic;
        assert!(
            found.iter().any(|found| matches!(
                &found.difference,
                Difference::MissingEdge { kind, .. } if missing(kind)
            )),
            "{found:?}"
        );
    }
}

#[test]
fn nodes_that_are_missing_extra_or_there_twice() {
    let recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    // Nobody recorded node 3 of the driver, so the recorded copy is missing.
    let mut unmatched = matching.clone();
    unmatched[3] = None;
    let found = differences(&recorded, &driver, &unmatched);
    assert!(
        matches!(
            &found[..],
            [
                Difference::MissingInDriver,
                Difference::ExtraInDriver { .. }
            ]
        ),
        "{found:?}"
    );
    let report = verify_driver(&recorded, &driver, &unmatched).unwrap();
    assert_eq!(report.not_analysed.len(), 1, "{report}");

    let mut twice = driver.clone();
    let mut matching = matching;
    twice.add_node(driver.nodes[3].clone());
    matching.push(matching[3]);
    let found = differences(&recorded, &twice, &matching);
    assert!(
        matches!(&found[..], [Difference::MatchedTwice { .. }]),
        "{found:?}"
    );
}

#[test]
fn what_the_record_does_not_know_is_not_compared() {
    let mut recorded = recorded();
    let (driver, matching) = read_back(&recorded);
    for node in &mut recorded.nodes {
        node.kind = match node.kind {
            NodeKind::Kernel(_) => NodeKind::kernel(),
            NodeKind::Memcpy(_) => NodeKind::memcpy(),
            _ => NodeKind::memset(),
        };
    }
    assert_eq!(differences(&recorded, &driver, &matching), []);
}

#[test]
fn a_pointer_outside_its_declared_buffer() {
    let mut recorded = recorded();
    if let NodeKind::Kernel(kernel) = &mut recorded.nodes[1].kind {
        kernel.params[0].bytes = 0x5000_u64.to_le_bytes().to_vec();
    }
    // The recording contradicts itself, whatever the driver says.
    let (driver, matching) = read_back(&recorded);
    let error = verify_driver(&recorded, &driver, &matching).expect_err("no trace");
    assert!(
        matches!(
            &error,
            VerifyError::Malformed(TraceError::PointerElsewhere { buffer, holds: 0x5000, .. }) if buffer == "q"
        ),
        "{error}"
    );
}

#[test]
fn a_matching_of_other_traces_is_an_error() {
    let recorded = recorded();
    let (driver, mut matching) = read_back(&recorded);
    assert!(matches!(
        reconcile(&recorded, &driver, &matching[1..]),
        Err(VerifyError::Matching { .. })
    ));
    matching[0] = Some(NodeId(99));
    assert!(matches!(
        verify_driver(&recorded, &driver, &matching),
        Err(VerifyError::Matching { .. })
    ));
}
