//! The reports in docs/hazards.md are what the verifier prints.

use streamweir_trace::{BlockSync, NodeKind, Trace};
use streamweir_verify::{Rule, verify};

use crate::build::*;

/// Panics unless the page shows the first hazard of this rule as it is printed.
#[track_caller]
fn shown(trace: &Trace, rule: Rule) {
    let report = verify(trace).unwrap();
    let hazard = report.hazards.iter().find(|hazard| hazard.rule == rule);
    let printed = hazard.unwrap_or_else(|| panic!("{report}")).to_string();
    let page = include_str!("../../../docs/hazards.md");
    assert!(
        page.contains(&format!("```text\n{}\n```", printed.trim_end())),
        "docs/hazards.md shows another report than\n{printed}"
    );
}

/// A graph whose scratch lies where another graph keeps its weights.
#[test]
fn r2_bytes_that_no_node_touches() {
    let mut cap = Capture::new();
    cap.persistent("weights of decode", 0x7f00_0000_0000, 0x4000);
    let scratch = cap.scratch(MAIN, "logits", 0x7f00_0000_3000, 0x2000);
    let node = cap.node(MAIN, "project");
    cap.all(node, Write, scratch);
    shown(&cap.end(), Rule::SharedBytes);
}

/// A kernel with a barrier over its grid, beside a product.
#[test]
fn r14_beside_a_kernel_that_spins() {
    let mut cap = Capture::new();
    cap.node(MAIN, "norm");
    cap.join(SIDE, MAIN);
    let spin = cap.node(SIDE, "top_k");
    if let NodeKind::Kernel(kernel) = &mut cap.trace.nodes[spin.index()].kind {
        kernel.sync = BlockSync::Spin;
    }
    cap.node(MAIN, "gemm");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "attend");
    shown(&cap.end(), Rule::CoResidency);
}
