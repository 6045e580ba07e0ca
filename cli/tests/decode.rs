//! `streamweir decode` as it is run: output and exit codes.

use std::process::{Command, Output};

use serde_json::Value;

const SHORT: [&str; 9] = [
    "--device",
    "sim",
    "--sessions",
    "3",
    "--rounds",
    "1",
    "--steps",
    "2",
    "--json",
];

fn decode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamweir"))
        .arg("decode")
        .args(arguments)
        .output()
        .unwrap()
}

fn arms(more: &[&str]) -> (i32, Value) {
    let output = decode(&[&SHORT[..], more].concat());
    let stderr = str::from_utf8(&output.stderr).unwrap();
    let value = serde_json::from_slice(&output.stdout).expect(stderr);
    (output.status.code().unwrap(), value)
}

#[test]
fn the_matrix_in_json() {
    let (code, matrix) = arms(&["--index-k", "fp8"]);
    assert_eq!(code, 0);
    assert_eq!(matrix["device"], "sim");
    assert_eq!(matrix["config"], "tiny");
    let arms = matrix["arms"].as_array().unwrap();
    let of = |arm: &Value| {
        let word = |key: &str| arm[key].as_str().unwrap().to_owned();
        (word("overlap"), word("pools"))
    };
    let names: Vec<_> = arms.iter().map(of).collect();
    let names: Vec<_> = names.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(
        names,
        [
            ("off", "tagged"),
            ("indexer", "tagged"),
            ("full", "tagged"),
            ("indexer", "shared"),
            ("full", "shared"),
        ]
    );
    for arm in arms {
        let mut keys: Vec<_> = arm.as_object().unwrap().keys().collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "exec",
                "floor",
                "hazards",
                "index_k",
                "overlap",
                "pools",
                "reserved",
                "sessions",
                "speedup",
                "start_up_ms",
                "tokens_per_s",
                "us_per_step",
                "wrong_sessions"
            ]
        );
        assert_eq!(arm["index_k"], "fp8");
        assert_eq!(arm["exec"], "graph");
        assert!(arm["start_up_ms"].as_f64().is_some_and(|ms| ms > 0.0));
        assert_eq!(arm["sessions"], 3);
        assert!(arm["tokens_per_s"].is_null(), "sim has no clock");
        let (wrong, hazards) = (&arm["wrong_sessions"], &arm["hazards"]);
        match arm["pools"].as_str() {
            Some("tagged") => assert_eq!((wrong, hazards), (&0.into(), &0.into())),
            _ => assert!(hazards.as_u64().unwrap() > 0, "{arm}"),
        }
        assert!(arm["reserved"].as_u64().unwrap() >= arm["floor"].as_u64().unwrap());
    }
    assert!(
        arms.iter().any(|arm| arm["wrong_sessions"] != 0),
        "the shared pool goes wrong: {matrix}"
    );
}

#[test]
fn one_arm_of_choice() {
    let (code, matrix) = arms(&["--overlap", "full", "--pools", "tagged", "--exec", "eager"]);
    assert_eq!(code, 0);
    let [arm] = &matrix["arms"].as_array().unwrap()[..] else {
        panic!("{matrix}");
    };
    assert_eq!(
        (&arm["overlap"], &arm["exec"]),
        (&"full".into(), &"eager".into())
    );
    let [reserved, floor] = ["reserved", "floor"].map(|of| arm[of].as_u64().unwrap());
    assert!(reserved >= floor && floor > 0, "{arm}");
}

/// There is no graph, and still it is said what the shared pool risks.
#[test]
fn eager_steps_are_judged() {
    let (code, matrix) = arms(&["--overlap", "full", "--pools", "shared", "--exec", "eager"]);
    assert_eq!(code, 0, "only tagged arms decide");
    assert!(
        matrix["arms"][0]["hazards"].as_u64().unwrap() > 0,
        "{matrix}"
    );
}

#[test]
fn wrong_words_are_usage_errors() {
    for arguments in [
        &["--config", "mega"][..],
        &["--layers", "0"],
        &["--context", "100"],
        &["--overlap", "some"],
        &["--buckets", "0"],
        &["--profile", "--contexts", "0"],
        &["--profile", "--rounds", "2"],
    ] {
        let output = decode(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let stderr = str::from_utf8(&output.stderr).unwrap();
        assert!(stderr.contains(arguments[1]), "{stderr}");
    }
}

#[test]
fn more_sequences_than_pages_are_refused() {
    for arguments in [
        &["--device", "sim", "--sessions", "4294967295"][..],
        &["--device", "sim", "--soak", "5", "--buckets", "4294967295"],
    ] {
        let output = decode(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = str::from_utf8(&output.stderr).unwrap();
        assert!(
            stderr.contains("4294967295 sequences of up to"),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn a_profile_needs_a_clock() {
    let output = decode(&["--device", "sim", "--profile", "--contexts", "300"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let stderr = str::from_utf8(&output.stderr).unwrap();
    assert!(stderr.contains("no clock"), "{stderr}");
}

/// What the README shows of the matrix, line by line.
#[test]
fn the_table_of_the_readme_is_printed() {
    let readme = include_str!("../../README.md");
    let from = readme.find("  overlap  pools").expect("the table");
    let table = &readme[from..][..readme[from..].find("```").expect("its end")];
    let output = decode(&["--device", "sim"]);
    let printed = str::from_utf8(&output.stdout).unwrap();
    assert!(printed.contains(table), "{printed}\nhas no\n{table}");
}
