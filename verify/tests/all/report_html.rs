//! The page of a report, as a file. What it does in a browser is tested there.

use streamweir_trace::NodeId;
use streamweir_verify::{VerifyError, html, verify};

use crate::build::*;
use crate::generate::{hostile, layers};

#[test]
fn the_page_is_whole_and_loads_nothing() {
    let trace = layers(2, &[1]);
    let page = html(&trace, &verify(&trace).unwrap()).unwrap();
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
    for outside in [
        "src=",
        "@import",
        "url(",
        "<link",
        "fetch(",
        "unsafe-inline",
        "{{",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    // A reader without scripts gets the text.
    assert!(page.contains("<noscript><pre>hazard[R1]"));
}

#[test]
fn no_name_adds_markup() {
    let tags = |page: &str| page.matches('<').count();
    let (bad, plain) = (hostile(), layers(2, &[1]));
    let page = |trace| html(trace, &verify(trace).unwrap()).unwrap();
    assert_eq!(tags(&page(&bad)), tags(&page(&plain)));
    assert!(!page(&bad).contains("<img") && !page(&bad).contains("<svg"));
}

#[test]
fn a_large_page_is_not_large() {
    let trace = layers(630, &[300]);
    let page = html(&trace, &verify(&trace).unwrap()).unwrap();
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

/// A report of another trace has ids that this one lacks.
#[test]
fn a_report_of_another_trace_draws_nothing_and_harms_nothing() {
    let other = layers(2, &[1]);
    let report = verify(&other).unwrap();
    let page = html(&Capture::new().end(), &report).unwrap();
    assert!(page.contains(r#""marks":[{"nodes":[],"missing":null,"buffers":[]"#));
}

#[test]
fn a_trace_that_does_not_fit_together_has_no_page() {
    let trace = layers(1, &[]);
    let report = verify(&trace).unwrap();
    let mut broken = trace;
    broken.edges[0].to = NodeId(999);
    assert!(matches!(
        html(&broken, &report),
        Err(VerifyError::Malformed(_))
    ));
}
