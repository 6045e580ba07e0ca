//! `streamweir place` as it is run.

mod common;

use std::process::Output;

use common::{Scratch, data, list, run};

fn place(arguments: &[&str]) -> Output {
    run("place", arguments)
}

fn log(name: &str) -> String {
    data("place/tests/data", name)
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

const LIFETIMES: &str = "id,lower,upper,size\na,0,4,10\nb,1,2,20\nc,4,6,5\nd,1,6,7\n";

#[test]
fn logs_are_placed_and_the_verifier_finds_nothing() {
    let files = ["s1_n1000", "s2_n1000", "s4_n1000", "s8_n1000"].map(log);
    for mode in ["planned", "live", "foreign"] {
        for policy in ["isolated", "ordered"] {
            let mut arguments = vec!["--json", "--budget-ms", "20", "--mode", mode];
            arguments.extend(["--policy", policy]);
            arguments.extend(files.iter().map(String::as_str));
            let output = place(&arguments);
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            let list = list(&output);
            assert_eq!(list.len(), files.len());
            for (entry, file) in list.iter().zip(&files) {
                let mut keys: Vec<_> = entry.as_object().unwrap().keys().collect();
                keys.sort_unstable();
                let expected = [
                    "buffers",
                    "file",
                    "floor",
                    "floor_kind",
                    "hazards",
                    "height",
                    "kind",
                    "milliseconds",
                    "mode",
                    "ns_per_op",
                    "policy",
                    "ratio",
                    "streams",
                    "untouched",
                    "valid",
                ];
                assert_eq!(keys, expected);
                assert_eq!(entry["file"], **file);
                assert_eq!(entry["kind"], "alloc-log");
                assert_eq!(
                    (&entry["mode"], &entry["policy"]),
                    (&mode.into(), &policy.into())
                );
                assert_eq!(entry["buffers"], 1000);
                assert_eq!(
                    (&entry["valid"], &entry["hazards"]),
                    (&true.into(), &0.into())
                );
                let number = |key: &str| entry[key].as_u64().unwrap();
                assert!(number("height") >= number("floor"), "{entry}");
                let ratio = number("height") as f64 / number("floor") as f64;
                assert!((entry["ratio"].as_f64().unwrap() - ratio).abs() < 1e-5);
                let lives = if mode == "planned" {
                    "planned"
                } else {
                    "online"
                };
                assert!(entry["floor_kind"].as_str().unwrap().starts_with(lives));
            }
        }
    }
}

#[test]
fn lifetimes_are_placed_at_their_floor() {
    let file = Scratch::new("good.csv", LIFETIMES);
    let output = place(&["--json", file.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let entry = &list(&output)[0];
    assert_eq!(entry["kind"], "csv");
    assert_eq!(
        (&entry["height"], &entry["floor"]),
        (&37.into(), &37.into())
    );
    assert_eq!(entry["floor_kind"], "planned maximum load");

    let output = place(&[file.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = str::from_utf8(&output.stdout).unwrap();
    for part in [
        "37 bytes, 1.0000 of the floor of 37 (planned maximum load)",
        "the verifier finds no hazard",
        "stream 0: peak 37, reserved 37, floor 37, 0.0 % above it; most cost",
        "buffer a (10 bytes",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

/// The file does not list its lifetimes in the order in which they begin.
#[test]
fn lifetimes_in_any_order_are_taken_as_they_begin() {
    let file = Scratch::new("unsorted.csv", LIFETIMES);
    for mode in ["live", "foreign"] {
        let output = place(&["--json", "--mode", mode, file.path()]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let entry = &list(&output)[0];
        assert_eq!(
            (&entry["valid"], &entry["hazards"]),
            (&true.into(), &0.into()),
            "{entry}"
        );
    }
}

#[test]
fn a_capacity_that_is_too_small_is_said_with_what_is_needed() {
    let file = Scratch::new("capacity.csv", LIFETIMES);
    let output = place(&["--capacity", "37", file.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let output = place(&["--capacity", "36", "--json", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let said = "a capacity of 36 bytes is too small: no layout takes less than 37 (maximum load)";
    assert!(err(&output).contains(said), "{}", err(&output));
    assert_eq!(list(&output)[0]["error"], said);
}

#[test]
fn a_bad_file_is_one_error_and_the_others_are_placed() {
    let good = Scratch::new("beside.csv", LIFETIMES);
    let bad = Scratch::new("bad.csv", "id,lower,upper,size\na,3,3,1\n");
    let unordered = Scratch::new(
        "unordered.json",
        r#"{"format":"alloc-log-1","streams":2,"origin":0,"events":[
            {"kernel":0,"stream":0,"reads":[],"writes":[]},
            {"alloc":0,"stream":0,"bytes":4},
            {"kernel":1,"stream":1,"reads":[],"writes":[0]}]}"#,
    );
    let output = place(&[
        "--json",
        bad.path(),
        good.path(),
        unordered.path(),
        "/nowhere",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let list = list(&output);
    assert_eq!(list.len(), 4);
    let error = |at: usize| list[at]["error"].as_str().unwrap();
    assert!(
        error(0).starts_with("line 2: upper 3 is not above lower 3"),
        "{}",
        error(0)
    );
    assert_eq!(list[1]["valid"], true);
    assert!(
        error(2).starts_with("event 2: a kernel on stream 1 uses buffer 0"),
        "{}",
        error(2)
    );
    assert!(error(3).starts_with("cannot be read"), "{}", error(3));
    assert_eq!(
        err(&output).matches("error: ").count(),
        3,
        "{}",
        err(&output)
    );
}

/// Nothing says whether their bytes may be shared, so that is what is said.
#[test]
fn buffers_that_no_kernel_touches_are_said() {
    let log = r#"{"format":"alloc-log-1","streams":1,"events":[
        {"alloc":0,"stream":0,"bytes":4096},{"alloc":1,"stream":0,"bytes":1000},
        {"kernel":0,"stream":0,"reads":[],"writes":[0]},{"free":0},{"free":1}]}"#;
    let log = Scratch::new("untouched.json", log);
    let output = run("place", &[log.path()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("1 buffer is touched by no kernel (1000 bytes): counted in the height, and nothing checks its place"),
        "{text}"
    );
    let found = list(&run("place", &[log.path(), "--json"]));
    assert_eq!(found[0]["untouched"], serde_json::json!([1, 1000]));
}

#[test]
fn a_layout_is_drawn_and_never_over_its_own_file() {
    let input = Scratch::new("drawn.csv", LIFETIMES);
    let drawing = Scratch::new("layout.svg", "");
    let (lifetimes, svg) = (input.path(), drawing.path());
    let output = place(&[lifetimes, "--plot", svg]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let drawing = std::fs::read_to_string(svg).unwrap();
    // The background, and for each buffer a filled rectangle and its edge.
    assert_eq!(drawing.matches("<rect").count(), 1 + 2 * 4, "{drawing}");
    assert!(drawing.contains("of the floor"), "{drawing}");

    let output = place(&[lifetimes, "--plot", lifetimes]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("is not written"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(lifetimes).unwrap(), LIFETIMES);
    // Two files into one that is no folder.
    let output = place(&[lifetimes, lifetimes, "--plot", svg]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("is no folder"), "{}", err(&output));
}
