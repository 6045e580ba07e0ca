//! The graph for Graphviz: what it looks like, and that no name breaks it.

use streamweir_verify::{dot, verify};

use crate::build::*;
use crate::generate::{hostile, layers};

#[test]
fn a_missing_join_is_drawn_dashed() {
    let mut cap = Capture::new();
    let scores = cap.persistent("scores", 0x1000, 0x400);
    let logits = cap.node(SIDE, "logits");
    let attend = cap.node(MAIN, "attend");
    cap.all(logits, Write, scores);
    cap.all(attend, Read, scores);
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "add");
    let trace = cap.end();
    let text = dot(&trace, &verify(&trace).unwrap()).unwrap();
    insta::assert_snapshot!(text, @r#"
    digraph "test" {
      rankdir=LR;
      node [shape=box, fontname="sans-serif", fontsize=10];
      subgraph "cluster_0" {
        label="main";
        n1 [label="n1 attend", tooltip="n1 attend at engine.rs:11", color=red, fontcolor=red, penwidth=2];
        n2 [label="n2 add", tooltip="n2 add at engine.rs:12"];
      }
      subgraph "cluster_1" {
        label="side";
        n0 [label="n0 logits", tooltip="n0 logits at engine.rs:10", color=red, fontcolor=red, penwidth=2];
      }
      subgraph "cluster_2" {
        label="third";
      }
      n0 -> n2;
      n1 -> n2;
      n0 -> n1 [style=dashed, color=red, fontcolor=red, label="missing: R1"];
    }
    "#);
}

#[test]
fn hostile_names_stay_in_their_quotes() {
    let trace = hostile();
    let text = dot(&trace, &verify(&trace).unwrap()).unwrap();
    let plain = layers(2, &[1]);
    let expected = dot(&plain, &verify(&plain).unwrap()).unwrap();
    // The same statements, whatever the names are.
    assert_eq!(statements(&text), statements(&expected));
}

/// The text with each quoted string replaced by `""`; panics when a quote is
/// left open or a control character stands bare.
fn statements(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(c);
        if c != '"' {
            assert!(c == '\n' || !c.is_control(), "{c:?} outside of quotes");
            continue;
        }
        loop {
            match chars.next().expect("a quote is closed") {
                '"' => break,
                '\\' => drop(chars.next().expect("an escape is complete")),
                c => assert!(!c.is_control(), "{c:?} in quotes"),
            }
        }
        plain.push('"');
    }
    plain
}
