//! `streamweir audit` as it is run.

mod common;

use std::path::Path;
use std::process::Output;
use std::{env, fs, process};

use serde_json::{Value, json};

use common::{Scratch, data, list, run};

fn audit(arguments: &[&str]) -> Output {
    run("audit", arguments)
}

fn capture(name: &str) -> String {
    data("tests/data/captures", name)
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// A trace in which nothing is assumed and nothing is wrong.
const BARE: &str =
    r#"{"format":"streamweir-trace","version":2,"trace":{"name":"bare","nodes":[],"edges":[]}}"#;

#[test]
fn nine_captures_nine_labels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/captures");
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files.len(), 9);
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    arguments.push("--json");
    let output = audit(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let list = list(&output);
    assert_eq!(list.len(), 9);
    for (file, found) in files.iter().zip(&list) {
        let text: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(found["file"], json!(file));
        assert_eq!(found["verdict"], text["label"], "{file}");
    }
}

#[test]
fn an_entry_has_the_documented_fields() {
    let file = capture("moe_inplace_race");
    let found = list(&audit(&[&file, "--json"]));
    let found = &found[0];
    let mut fields = keys(found);
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "assumptions",
            "file",
            "hazards",
            "hazards_total",
            "not_analysed",
            "stats",
            "undeclared",
            "verdict"
        ]
    );
    let mut stats = keys(&found["stats"]);
    stats.sort_unstable();
    assert_eq!(
        stats,
        [
            "accesses",
            "comparisons",
            "edges",
            "milliseconds",
            "nodes",
            "streams"
        ]
    );
    assert_eq!(found["stats"]["nodes"], 8);
    assert_eq!(found["stats"]["streams"], 2);
    assert!(found["stats"]["milliseconds"].as_f64().unwrap() > 0.0);
    let hazards = found["hazards"].as_array().unwrap();
    assert_eq!(found["hazards_total"], hazards.len());
    let pairs: Vec<_> = hazards
        .iter()
        .map(|h| {
            json!([
                h["rule"],
                h["first"]["node"],
                h["second"]["node"],
                h["members"]
            ])
        })
        .collect();
    // The shared expert's product reads what the routed experts alter twice: one
    // join is missing.
    assert_eq!(json!(pairs), json!([["R1", 1, 5, [[1, 6]]]]));
    for hazard in hazards {
        let mut fields = keys(hazard);
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "buffers",
                "bytes",
                "first",
                "fix",
                "members",
                "otherwise",
                "proven",
                "rule",
                "second"
            ]
        );
        assert_eq!(hazard["proven"], true);
        assert_eq!(hazard["bytes"], json!(["0x7f2dd8e00000", "0x7f2dd8e10000"]));
        assert!(hazard["fix"].as_str().unwrap().contains("join"));
        for side in ["first", "second"] {
            let mut fields = keys(&hazard[side]);
            fields.sort_unstable();
            assert_eq!(fields, ["name", "node", "scope", "stream"]);
        }
        assert_eq!(hazard["first"]["scope"], "aten.mm.default");
    }
    let again = list(&audit(&[&file, "--json"]));
    assert_eq!(again[0]["hazards"], found["hazards"], "stable");
}

#[test]
fn the_worst_file_decides_how_the_command_ends() {
    let bare = Scratch::new("bare.json", BARE);
    let broken = Scratch::new("broken.json", "{\"format\":");
    let (safe, hazard) = (capture("moe_shared_safe"), capture("moe_inplace_race"));
    let code = |arguments: &[&str]| audit(arguments).status.code();
    assert_eq!(code(&[bare.path()]), Some(0));
    assert_eq!(code(&[bare.path(), "--strict"]), Some(0));
    assert_eq!(code(&[&safe]), Some(0));
    assert_eq!(code(&[&safe, "--strict"]), Some(3));
    assert_eq!(code(&[&hazard, &safe, "--strict"]), Some(1));
    assert_eq!(code(&[&safe, &hazard, bare.path()]), Some(1));
    assert_eq!(code(&[&hazard, broken.path(), &safe]), Some(2));
    assert_eq!(code(&[&safe, "--mode", "pointers"]), Some(3));
    assert_eq!(code(&["no such file", &hazard]), Some(2));
    for wrong in [
        &[][..],
        &["--json"],
        &[&safe, "--mode", "guess"],
        &[&safe, "--frob"],
    ] {
        assert_eq!(code(wrong), Some(64), "{wrong:?}");
    }
}

#[test]
fn unreadable_files_have_an_entry_that_says_why() {
    let broken = Scratch::new("cut.json", &BARE[..BARE.len() - 4]);
    let other = Scratch::new("other.json", r#"{"format":"capture-dump-9"}"#);
    let output = audit(&["--json", broken.path(), "no such file", other.path()]);
    assert_eq!(output.status.code(), Some(2));
    let list = list(&output);
    for entry in &list {
        let mut fields = keys(entry);
        fields.sort_unstable();
        assert_eq!(fields, ["error", "file"]);
    }
    let error = |at: usize| list[at]["error"].as_str().unwrap();
    assert!(error(0).contains("EOF"), "{}", error(0));
    assert!(error(1).contains("cannot be read"), "{}", error(1));
    assert!(error(2).contains("\"capture-dump-9\""), "{}", error(2));
}

/// What people try first, and what they are told then.
#[test]
fn what_cannot_be_read_is_said_in_words() {
    let empty = Scratch::new("empty.json", "");
    let log = Scratch::new("log.json", r#"{"format":"alloc-log-1","streams":1}"#);
    let words = Scratch::new("words.json", "PK\u{3}\u{4}\u{0}");
    let list_ = Scratch::new("list.json", "[]");
    let folder = env::temp_dir();
    let said = |path: &str| {
        let output = audit(&[path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(output.stdout.is_empty(), "{path}");
        let text = String::from_utf8(output.stderr).unwrap();
        let told = text.strip_prefix(&format!("error: {path}: ")).unwrap();
        told.trim_end().to_owned()
    };
    assert_eq!(
        said(folder.to_str().unwrap()),
        "is a directory; name the files in it"
    );
    assert_eq!(said(empty.path()), "is empty; was it written to its end?");
    let log = said(log.path());
    assert!(
        log.ends_with(". `streamweir place` reads allocation logs"),
        "{log}"
    );
    for other in [words.path(), list_.path()] {
        let told = said(other);
        assert!(
            told.starts_with("neither a trace, a session nor a capture dump: "),
            "{told}"
        );
    }
}

/// A drawing that cannot be written ends the command with 2, after the verdict.
#[test]
fn a_verdict_is_not_lost_with_its_drawing() {
    let file = Scratch::new("no folder", "");
    let race = capture("moe_inplace_race");
    let missing = env::temp_dir().join("no such folder").join("page.html");
    for (arguments, why) in [
        (
            vec![&*race, "--html", missing.to_str().unwrap()],
            "cannot be written",
        ),
        (
            vec![&*race, &race, "--dot", file.path()],
            "is no folder: what is drawn of several files",
        ),
    ] {
        let output = audit(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("hazard[R1]"), "{text}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(why), "{told}");
        let entries = list(&audit(&[&arguments[..], &["--json"]].concat()));
        assert_eq!(entries[0]["verdict"], "hazard");
    }
}

#[test]
fn the_text_names_the_file_and_the_hazard() {
    let file = capture("dsv4_topk_before_join");
    let output = audit(&[&file]);
    assert_eq!(output.status.code(), Some(1));
    let text = str::from_utf8(&output.stdout).unwrap();
    for part in [
        file.as_str(),
        "hazard[R1]",
        "aten.topk.default",
        "aten.index.Tensor",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn drawings_go_to_the_path_or_into_the_folder() {
    let folder = env::temp_dir().join(format!("streamweir-audit-{}-drawings", process::id()));
    let _ = fs::remove_dir_all(&folder);
    let several = folder.join("several");
    fs::create_dir_all(&folder).unwrap();
    let (page, graph) = (folder.join("one.html"), folder.join("one.dot"));
    let (race, safe) = (capture("moe_inplace_race"), capture("moe_shared_safe"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let output = audit(&[&race, "--html", &path(&page), "--dot", &path(&graph)]);
    assert_eq!(output.status.code(), Some(1));
    let events = folder.join("one.chrome.json");
    let output_again = audit(&[&race, "--chrome", &path(&events)]);
    assert_eq!(output_again.status.code(), Some(1));
    let events: Value = serde_json::from_str(&fs::read_to_string(&events).unwrap()).unwrap();
    assert_eq!(events["streamweir"]["capture"], "moe_inplace_race");
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("moe_inplace_race")
    );
    assert!(fs::read_to_string(&graph).unwrap().contains("digraph"));
    let output = audit(&[&race, &safe, &safe, "--html", &path(&several)]);
    assert_eq!(output.status.code(), Some(1));
    for name in ["moe_inplace_race", "moe_shared_safe", "moe_shared_safe-2"] {
        assert!(several.join(name).with_extension("html").exists(), "{name}");
    }
    audit(&[&race, &safe, "--chrome", &path(&several)]);
    for name in ["moe_inplace_race", "moe_shared_safe"] {
        let file = several.join(name).with_extension("chrome.json");
        assert!(file.exists(), "{name}");
    }
    let nowhere = folder.join("no").join("folder.html");
    assert_eq!(
        audit(&[&race, "--html", &path(&nowhere)]).status.code(),
        Some(2)
    );
    fs::remove_dir_all(&folder).unwrap();
}

/// Two batches through one staging buffer. The second is filled in while the
/// first may still be copied, unless the host waits for the stream.
fn two_batches(waits: bool) -> String {
    let part = |buffer: u32, mode: &str| json!([{ "buffer": buffer, "bytes": ["0x0", "0x100"], "mode": mode }]);
    let step = |name: &str, kind: Value| json!({ "name": name, "kind": kind });
    let mut steps = Vec::new();
    for _ in 0..2 {
        steps.push(step(
            "fill",
            json!({ "host": { "uses": part(0, "write") } }),
        ));
        let (from, to) = (json!({ "buffer": 0 }), json!({ "buffer": 1 }));
        let copy = json!({ "stream": 0, "from": from, "to": to, "bytes": 256 });
        steps.push(step("stage", json!({ "copy": copy })));
        steps.push(step(
            "decode",
            json!({ "launch": { "stream": 0, "graph": 0 } }),
        ));
        if waits {
            steps.push(step("wait", json!({ "sync_stream": { "stream": 0 } })));
        }
    }
    let session = json!({
        "name": "two batches",
        "streams": [{ "name": "main" }],
        "buffers": [
            { "name": "staged", "host": true, "range": ["0x1000", "0x1100"] },
            { "name": "tokens", "range": ["0x9000", "0x9100"] },
        ],
        "graphs": [{ "name": "decode", "uses": part(1, "read") }],
        "steps": steps,
    });
    json!({ "format": "streamweir-session", "version": 1, "session": session }).to_string()
}

#[test]
fn a_session_is_audited_as_a_session() {
    let racing = Scratch::new("racing.json", &two_batches(false));
    let waiting = Scratch::new("waiting.json", &two_batches(true));
    let output = audit(&[racing.path(), waiting.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let list = list(&output);
    assert_eq!(list[0]["verdict"], "hazard");
    let hazards = list[0]["hazards"].as_array().unwrap();
    assert_eq!(hazards.len(), 1, "{hazards:?}");
    assert_eq!(hazards[0]["rule"], "R12");
    assert_eq!(hazards[0]["first"]["name"], "stage");
    assert_eq!(hazards[0]["second"]["name"], "fill");
    assert_eq!(list[0]["stats"]["nodes"], 6);
    assert_eq!(list[0]["stats"]["streams"], 1);
    assert_eq!(list[1]["verdict"], "safe");
    assert_eq!(audit(&[waiting.path(), "--strict"]).status.code(), Some(0));

    let output = audit(&[racing.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = str::from_utf8(&output.stdout).unwrap();
    assert!(text.contains("hazard[R12]"), "{text}");
    let footer = "hazard: session \"two batches\", 1 hazard (6 steps,";
    assert!(text.contains(footer), "{text}");
    assert!(!text.contains("capture"), "{text}");
}

/// A session has pages, too: steps are drawn as nodes are.
#[test]
fn a_session_is_drawn() {
    let racing = Scratch::new("drawn.json", &two_batches(false));
    let [page, graph] = ["drawn.html", "drawn.dot"].map(|name| Scratch::new(name, ""));
    let output = audit(&[racing.path(), "--html", page.path(), "--dot", graph.path()]);
    assert_eq!(output.status.code(), Some(1));
    let page = fs::read_to_string(page.path()).unwrap();
    assert!(page.contains("two batches") && page.contains("stage"));
    let graph = fs::read_to_string(graph.path()).unwrap();
    assert!(graph.contains("stage") && graph.contains("decode"));
    let events = Scratch::new("drawn.chrome.json", "");
    audit(&[racing.path(), "--chrome", events.path()]);
    let events: Value = serde_json::from_slice(&fs::read(events.path()).unwrap()).unwrap();
    let process = &events["traceEvents"][0]["args"]["name"];
    let process = process.as_str().unwrap();
    assert!(process.starts_with("session \"two batches\""), "{process}");
}

/// Whether text may be printed: whole lines of what simply shows.
fn is_plain(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).expect("UTF-8");
    text.chars()
        .all(|c| c == '\n' || streamweir::trace::shows(c))
}

/// A name cannot print a verdict, in whatever form the answer is.
#[test]
fn names_of_a_file_are_printed_escaped() {
    let file = data("verify/tests/data/cases", "terminal-forged-verdict");
    let output = audit(&[&file]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.lines().any(|line| line.starts_with("safe")), "{text}");
    assert!(is_plain(&output.stdout), "{text:?}");
    let marks = "\u{9b}31m\u{202e}\u{2066}\u{7f}";
    let text = fs::read_to_string(&file).unwrap();
    let marked = text.replace("\"name\": \"x\"", &format!("\"name\": \"x{marks}\""));
    let marked = Scratch::new("marked.json", &marked);
    for form in [&[][..], &["--json"]] {
        let output = audit(&[&[marked.path()], form].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(is_plain(&output.stdout), "{:?}", output.stdout);
    }
    let found = list(&audit(&[marked.path(), "--json"]));
    let name = &found[0]["hazards"][0]["buffers"][0];
    assert_eq!(name, &json!(format!("x{marks}")), "JSON keeps its meaning");
    let absent = "no such file\n\u{1b}[2Jsafe: capture\u{202e}";
    let output = audit(&[absent]);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_plain(&output.stderr), "{:?}", output.stderr);
    assert_eq!(
        output.stderr.iter().filter(|&&byte| byte == b'\n').count(),
        1
    );
}

/// What is drawn never takes the place of what is read.
#[test]
fn a_page_is_not_written_over_a_file_that_is_audited() {
    let one = Scratch::new("drawn-one.json", BARE);
    let other = Scratch::new("drawn-other.json", BARE);
    let refused = |arguments: &[&str]| {
        let output = audit(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(fs::read_to_string(one.path()).unwrap(), BARE, "{error}");
        assert_eq!(fs::read_to_string(other.path()).unwrap(), BARE, "{error}");
        error
    };
    for form in ["--html", "--dot", "--chrome"] {
        let error = refused(&[one.path(), form, one.path()]);
        assert!(error.contains("that is read"), "{error}");
    }
    for [form, other] in [
        ["--html", "--dot"],
        ["--html", "--chrome"],
        ["--dot", "--chrome"],
    ] {
        let error = refused(&[one.path(), form, "/tmp/same", other, "/tmp/same"]);
        assert!(error.contains("name two"), "{error}");
    }
    #[cfg(unix)]
    {
        let link = format!("{}.html", one.path());
        for make in [
            fs::hard_link::<&str, &str>,
            std::os::unix::fs::symlink::<&str, &str>,
        ] {
            make(one.path(), &link).unwrap();
            let error = refused(&[one.path(), "--html", &link]);
            fs::remove_file(&link).unwrap();
            assert!(error.contains("that is read"), "{error}");
        }
        // One of several files is a page in the folder that pages are written to.
        let folder = format!("{}.d", one.path());
        fs::create_dir(&folder).unwrap();
        let stem = Path::new(other.path())
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap();
        let page = format!("{folder}/{stem}.html");
        std::os::unix::fs::symlink(one.path(), &page).unwrap();
        let error = refused(&[one.path(), other.path(), "--html", &folder]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("that is read"), "{error}");
    }
}

/// A device that never ends is read up to a cap that is said.
#[cfg(target_os = "linux")]
#[test]
fn a_file_without_an_end_is_refused() {
    for command in ["audit", "place"] {
        let output = run(command, &["/dev/zero"]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("has more than 268435456 bytes"), "{error}");
    }
}
