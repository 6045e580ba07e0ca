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

/// Each rule has a section to link to, and a row in the table at the head.
#[test]
fn every_rule_is_on_the_page() {
    let page = include_str!("../../../docs/hazards.md");
    for rule in Rule::ALL {
        let code = rule.code();
        if *rule == Rule::Reconciliation {
            assert!(page.contains(&format!("`{code}`")));
            continue;
        }
        let row = format!("\n| [{code}](#{}) |", code.to_lowercase());
        assert!(page.contains(&row), "no row for {code}");
        assert!(
            page.contains(&format!("\n## {code}\n")),
            "no section for {code}"
        );
    }
}

/// A rule is written by its number and read back from it.
#[test]
fn rules_are_their_numbers_in_files() {
    for rule in Rule::ALL {
        let text = serde_json::to_string(rule).unwrap();
        assert_eq!(text, format!("\"{}\"", rule.code()));
        assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), *rule);
    }
    let unknown = serde_json::from_str::<Rule>("\"R99\"").unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("\"R99\" is the number of no rule")
    );
}
