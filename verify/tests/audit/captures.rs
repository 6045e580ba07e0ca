//! The nine captures of PyTorch programs on an H200. Each file carries a label
//! that an independent check of all pairs and many replays gave it. The loader
//! never reads it.

use std::fs;
use std::path::{Path, PathBuf};

use streamweir_trace::Dump;
use streamweir_verify::audit::{Audited, Mode};
use streamweir_verify::{Options, Report, Verdict, verify};

use crate::minimal::is_minimal;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/captures")
}

/// Each capture's name, bytes and label.
fn captures() -> Vec<(String, Vec<u8>, String)> {
    let mut all: Vec<_> = fs::read_dir(folder())
        .expect("tests/data/captures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let bytes = fs::read(&path).expect("a file");
            let json: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
            let label = json["label"].as_str().expect("a label").to_owned();
            let name = path.file_stem().expect("a name").to_string_lossy();
            (name.into_owned(), bytes, label)
        })
        .collect();
    all.sort();
    all
}

fn audit(bytes: &[u8], mode: Mode) -> (Audited, Report) {
    let dump = Dump::from_json(bytes).expect("a dump");
    let audited = Audited::new(dump, mode).expect("a trace");
    let report = audited.verify(&Options::default()).expect("a verdict");
    (audited, report)
}

#[test]
fn the_nine_labels_are_right_and_nothing_else_is_alleged() {
    let captures = captures();
    assert_eq!(captures.len(), 9);
    let mut hazards = 0;
    for (name, bytes, label) in captures {
        let (audited, report) = audit(&bytes, Mode::Auto);
        assert_eq!(audited.mode, Mode::Operators, "{name}");
        let expected = match label.as_str() {
            "safe" => Verdict::Safe,
            "hazard" => Verdict::Hazard,
            other => panic!("{name}: label {other}"),
        };
        assert_eq!(report.verdict, expected, "{name}:\n{report}");
        hazards += report.hazards.len();
        assert!(!report.assumptions.is_empty(), "{name}");
        assert!(
            report.not_analysed.is_empty(),
            "{name}: {:?}",
            report.not_analysed
        );
    }
    assert!(hazards > 0);
}

#[test]
fn pointers_prove_nothing_of_kernels_and_promise_nothing() {
    for (name, bytes, label) in captures() {
        let (_, report) = audit(&bytes, Mode::Pointers);
        assert!(!report.assumptions.is_empty(), "{name}");
        match report.verdict {
            Verdict::Safe => assert_eq!(label, "safe", "{name}"),
            Verdict::Possible => {}
            // Copies say what they touch, and two of them prove a hazard.
            Verdict::Hazard => assert_eq!(name, "workspace_shared", "{report}"),
        }
    }
}

/// The fixes of a capture, applied one after the other, end in a safe verdict,
/// and none of them asks for an order that it could do without.
#[test]
fn fixes_mend_what_a_program_got_wrong() {
    let mut mended = 0;
    for (name, bytes, label) in captures() {
        let mut trace = audit(&bytes, Mode::Operators).0.trace;
        for _ in 0..8 {
            let report = verify(&trace).expect("a verdict");
            assert_eq!(report.verdict == Verdict::Safe, report.hazards.is_empty());
            let Some(hazard) = report.hazards.first() else {
                break;
            };
            assert_eq!(label, "hazard", "{name}:\n{hazard}");
            is_minimal(&trace, hazard);
            trace = hazard.fix.apply(&trace);
            mended += 1;
        }
        let report = verify(&trace).expect("a verdict");
        assert_eq!(report.verdict, Verdict::Safe, "{name}:\n{report}");
    }
    assert!(mended >= 3, "{mended}");
}
