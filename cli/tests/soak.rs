//! `streamweir decode --soak`, over two visits, and states that it does not go on
//! from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The smallest load: two layers with the window alone, and one with entries.
const LOAD: [&str; 7] = [
    "--device",
    "sim",
    "--layers",
    "3",
    "--context",
    "256",
    "--soak",
];

fn soak(replays: &str, state: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamweir"))
        .arg("decode")
        .args(LOAD)
        .args([replays, "--soak-state"])
        .arg(state)
        .args(more)
        .output()
        .unwrap()
}

/// A folder, and a file in it that holds `text`; none without.
fn file(text: Option<&str>) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("state.json");
    if let Some(text) = text {
        fs::write(&file, text).unwrap();
    }
    (folder, file)
}

fn state(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn replays(state: &Value) -> u64 {
    let buckets = state["buckets"].as_object().unwrap().values();
    buckets
        .map(|bucket| {
            assert_eq!(bucket["differing_words"], 0, "{state}");
            bucket["replays"].as_u64().unwrap()
        })
        .sum()
}

#[test]
fn the_buckets_are_chosen_in_any_order() {
    let (_folder, file) = file(None);
    let output = soak("2", &file, &["--buckets", "3,1,3"]);
    assert!(output.status.success(), "{output:?}");
    let state = state(&file);
    let buckets = state["buckets"].as_object().unwrap();
    assert_eq!(buckets.keys().collect::<Vec<_>>(), ["1", "3"]);
}

#[test]
fn a_second_visit_goes_on_from_the_first() {
    let (_folder, file) = file(None);
    let output = soak("1", &file, &[]);
    assert!(output.status.success(), "{output:?}");
    let first = state(&file);
    assert_eq!(
        (&first["batches"], &first["pdl"]),
        (&1.into(), &true.into())
    );
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, first);

    // Enough already: nothing runs, and what is kept stays.
    let before = replays(&first).to_string();
    assert!(soak(&before, &file, &[]).status.success());
    assert_eq!(state(&file), first);

    let more = (replays(&first) + 1).to_string();
    assert!(soak(&more, &file, &[]).status.success());
    let second = state(&file);
    assert_eq!(second["batches"], 2);
    assert_eq!(replays(&second), 2 * replays(&first));

    // Another load than that of the state.
    for (options, says) in [
        (
            &["--pdl", "off"][..],
            "its pdl is true and here it is false",
        ),
        (
            &["--index-k", "fp8"],
            "its index_k is bf16 and here it is fp8",
        ),
        (&["--packing", "ordered"], "its packing is planned"),
        (&["--seed", "2"], "its seed is 1 and here it is 2"),
        (
            &["--buckets", "2"],
            "its list of buckets is 1,2,4 and here it is 2",
        ),
    ] {
        let output = soak("1", &file, options);
        let stderr = str::from_utf8(&output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(says), "{options:?}: {stderr}");
        assert_eq!(state(&file), second, "{options:?}");
    }
}

/// A state from before kernels could start early is of a load in which none did.
#[test]
fn an_older_state_is_of_the_other_load() {
    let old = r#"{"device": "streamweir simulated device", "config": "tiny", "layers": 3,
        "context": 256, "index_k": "bf16", "packing": "planned", "seed": 1, "batches": 1,
        "faults": 0, "buckets": {"1": {"replays": 1, "differing_words": 0},
        "2": {"replays": 1, "differing_words": 0}, "4": {"replays": 3, "differing_words": 0}}}"#;
    let (_folder, file) = file(Some(old));
    let output = soak("1", &file, &[]);
    let stderr = str::from_utf8(&output.stderr).unwrap();
    assert!(
        stderr.contains("its pdl is false and here it is true"),
        "{stderr}"
    );
    let output = soak("5", &file, &["--pdl", "off"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_is_no_state_is_left_alone() {
    for text in ["{", "{}", r#"{"device": 1}"#] {
        let (_folder, file) = file(Some(text));
        let output = soak("1", &file, &[]);
        let stderr = str::from_utf8(&output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(
            stderr.contains("not the state of a soak"),
            "{text}: {stderr}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

/// Words that differ in an earlier visit are not forgotten in a later one.
#[test]
fn a_state_that_is_not_clean_stays_so() {
    let seen = r#"{"device": "streamweir simulated device", "config": "tiny", "layers": 3,
        "context": 256, "index_k": "bf16", "packing": "planned", "pdl": true, "seed": 1,
        "batches": 1, "faults": 0, "buckets": {"1": {"replays": 1, "differing_words": 0},
        "2": {"replays": 1, "differing_words": 0}, "4": {"replays": 3, "differing_words": 2}}}"#;
    let (_folder, file) = file(Some(seen));
    let output = soak("5", &file, &[]);
    assert!(!output.status.success());
    let stderr = str::from_utf8(&output.stderr).unwrap();
    assert!(
        stderr.contains("differ from a run on one stream"),
        "{stderr}"
    );
}
