//! `streamweir decode` under instruments, and with the layout of somebody's caches.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use streamweir_integration::dsv4::{CacheLayout, IndexKeys};

fn decode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamweir"))
        .args([
            "decode",
            "--device",
            "sim",
            "--sessions",
            "3",
            "--rounds",
            "1",
        ])
        .args(["--steps", "2", "--overlap", "full"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn what_differs_first_is_told_in_json() {
    let output = decode(&["--instruments", "canary,poison,differential", "--json"]);
    let stderr = str::from_utf8(&output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let matrix: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [tagged, shared] = &matrix["arms"].as_array().unwrap()[..] else {
        panic!("{matrix}");
    };
    let of = |arm: &Value| arm["instruments"].clone();
    assert!(of(tagged)["guards"].as_u64().unwrap() > 50, "{tagged}");
    assert!(of(tagged)["steps"].as_u64().unwrap() > 1, "{tagged}");
    assert!(of(tagged)["first"].is_null(), "{tagged}");
    assert_eq!(tagged["wrong_sessions"], 0);
    let first = &of(shared)["first"];
    assert_eq!(first["named_by_verifier"], true, "{shared}");
    assert!(first["scope"].as_str().unwrap().starts_with("layer"));
    assert_ne!(first["expected"], first["found"], "{shared}");
    for arm in [tagged, shared] {
        assert_eq!(of(arm)["damaged"], Value::Array(vec![]), "{arm}");
    }
}

#[test]
fn the_table_says_what_was_found() {
    let output = decode(&["--pools", "shared", "--instruments", "differential"]);
    let text = str::from_utf8(&output.stdout).unwrap();
    for word in [
        "overlap full, shared pools",
        "copies differ",
        "instead of",
        "the verifier has a hazard about this buffer",
    ] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    let output = decode(&["--instruments", "canary,x-ray"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(str::from_utf8(&output.stderr).unwrap().contains("x-ray"));
}

#[test]
fn caches_of_another_layout_are_refused() {
    let file = |name: &str, text: &str| -> PathBuf {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let layout = |keys| CacheLayout::new(keys).unwrap().to_json().unwrap();
    let fp8 = file("fp8.json", &layout(IndexKeys::Fp8));
    let run = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        let output = decode(&["--pools", "tagged", "--layout", path]);
        let stderr = str::from_utf8(&output.stderr).unwrap().to_owned();
        (output.status.code(), stderr)
    };
    let (code, stderr) = run(&fp8);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("pool \"index keys\""), "{stderr}");
    let (code, stderr) = run(&file("broken.json", "{"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cannot be read"), "{stderr}");
    let (code, stderr) = run(&PathBuf::from("no such file"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no such file"), "{stderr}");
    let (code, stderr) = run(&file("bf16.json", &layout(IndexKeys::Bf16)));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}
