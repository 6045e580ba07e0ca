//! The command as it is run: output, exit codes, messages.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command on a machine that has, or seems to have, no GPU.
fn streamweir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamweir"))
        .args(arguments)
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap()
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

fn demo(arguments: &[&str]) -> Value {
    let common = ["demo", "--json", "--replays", "6"];
    let output = streamweir(&[&common, arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(err(&output), "", "a bar belongs on a terminal alone");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().collect();
    keys.sort_unstable();
    keys.into_iter().map(String::as_str).collect()
}

#[test]
fn demo_in_json_has_three_arms_and_one_is_wrong() {
    let demo = demo(&["--device", "sim"]);
    assert_eq!(keys(&demo), ["arms", "device", "size"]);
    assert_eq!(demo["device"], "sim");
    assert_eq!(demo["size"], "tiny");
    let arms = demo["arms"].as_array().unwrap();
    let names: Vec<_> = arms.iter().map(|arm| &arm["name"]).collect();
    assert_eq!(names, ["shared-overlap", "tagged-overlap", "serial"]);
    for arm in arms {
        assert_eq!(
            keys(arm),
            [
                "hazards",
                "name",
                "replays",
                "topk_differs",
                "us_per_replay",
                "wrong"
            ]
        );
        assert_eq!(arm["replays"], 6);
        assert!(arm["us_per_replay"].is_null(), "sim has no clock");
        for count in ["wrong", "topk_differs", "hazards"] {
            let count = arm[count].as_u64().unwrap();
            assert_eq!(count > 0, arm["name"] == "shared-overlap", "{arm}");
        }
    }
}

#[test]
fn demo_repeats_itself_under_a_seed() {
    let run = || demo(&["--device", "sim", "--seed", "5"]);
    assert_eq!(run(), run());
}

#[test]
fn auto_is_sim_where_there_is_no_gpu() {
    assert_eq!(demo(&[])["device"], "sim");
}

#[test]
fn demo_for_people_shows_table_hazard_and_meaning() {
    let output = streamweir(&["demo", "--device", "sim", "--replays", "2"]);
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    for part in [
        "shared-overlap",
        "tagged-overlap",
        "serial",
        "hazard[R2]: ",
        "on stream \"indexer\" in layer 2/indexer",
        "= help: ",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colour belongs on a terminal alone");
    let tagged = text.lines().find(|line| line.contains("tagged-overlap  "));
    assert_eq!(tagged.unwrap().matches("0 of 2").count(), 2);
    assert!(
        text.lines().all(|line| line.chars().count() <= 96),
        "{text}"
    );
}

#[test]
fn an_absent_gpu_is_a_failure_only_when_it_was_asked_for() {
    let output = streamweir(&["demo", "--device", "cuda:0"]);
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert_eq!(out(&output), "");
    assert!(err(&output).starts_with("error: "), "{}", err(&output));

    let output = streamweir(&["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(text.starts_with("No CUDA device: "), "{text}");
    assert!(text.contains("NVRTC"), "{text}");

    let output = streamweir(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        keys(&found),
        ["cache", "devices", "driver", "headers", "nvrtc"]
    );
    assert_eq!(found["devices"], Value::Array(Vec::new()));
    assert!(found["driver"]["problem"].is_string(), "{found}");
}

#[test]
fn usage_errors_exit_with_64() {
    for wrong in [
        &[][..],
        &["dance"],
        &["demo", "--device", "gpu"],
        &["demo", "--device", "cuda:x"],
        &["demo", "--size", "huge"],
        &["demo", "--replays", "0"],
        &["demo", "--seed", "-1"],
        &["doctor", "sim"],
    ] {
        let output = streamweir(wrong);
        assert_eq!(output.status.code(), Some(64), "{wrong:?}");
        assert_eq!(out(&output), "", "{wrong:?}");
        assert_ne!(err(&output), "", "{wrong:?}");
    }
    let output = streamweir(&["demo", "--device", "cuda:x"]);
    let text = err(&output);
    assert!(
        text.contains("`x` is no device number; the first device is `cuda:0`"),
        "{text}"
    );
}

#[test]
fn help_and_version_are_no_errors() {
    for asked in [&["--help"][..], &["--version"], &["demo", "--help"]] {
        let output = streamweir(asked);
        assert_eq!(output.status.code(), Some(0), "{asked:?}");
        assert!(out(&output).contains("streamweir"), "{asked:?}");
    }
}
