//! Files that must be refused, each with the text that its author will read.

mod memory;

use serde_json::{Value, json};
use streamweir_trace::{TraceError, from_json};

/// A small file that is valid until a test breaks one thing in it.
fn valid() -> Value {
    json!({
        "format": "streamweir-trace",
        "version": 3,
        "trace": {
            "name": "decode",
            "streams": [{ "name": "main", "tag": "main", "end": { "frontier": [1], "joined": true } }],
            "scopes": ["layer 0"],
            "nodes": [
                { "kind": { "kernel": { "function": "f", "params": [
                    { "offset": 0, "bytes": "0010000000000000", "pointer": { "buffer": 0, "offset": 0 } }
                ] } }, "name": "store", "stream": 0, "scope": 0 },
                { "kind": "empty", "name": "end" },
            ],
            "edges": [{ "from": 0, "to": 1 }],
            "buffers": [
                { "name": "keys", "kind": "persistent", "range": ["0x1000", "0x2000"] },
                { "name": "scores", "kind": { "scratch": {
                    "stream": 0, "alloc": { "frontier": [0], "before": 1 }, "freed_before": 2
                } }, "range": ["0x2000", "0x2100"] },
            ],
            "accesses": [{ "node": 0, "buffer": 0, "bytes": ["0x0", "0x1000"], "mode": "write" }],
            "unknown": [{ "node": 0, "range": ["0x9000", "0x9001"], "mode": "read" }],
            "protocol": [{ "call": "c", "what": "w", "stream": 0, "node": 1 }],
        },
    })
}

/// The error of the valid file with the value at `pointer` replaced.
#[track_caller]
fn refusal(pointer: &str, value: Value) -> TraceError {
    let mut file = valid();
    *file
        .pointer_mut(pointer)
        .expect("the field is in the valid file") = value;
    read(&file).expect_err("the broken file must be refused")
}

fn read(file: &Value) -> Result<streamweir_trace::Trace, TraceError> {
    from_json(file.to_string().as_bytes())
}

#[track_caller]
fn assert_says(error: &TraceError, expected: &str) {
    let text = error.to_string();
    assert!(text.contains(expected), "expected {expected:?} in {text:?}");
}

#[test]
fn the_unbroken_file_is_read() {
    read(&valid()).expect("valid");
}

#[test]
fn what_is_no_json() {
    let whole = valid().to_string();
    let cut = from_json(&whole.as_bytes()[..whole.len() / 2]).expect_err("cut off");
    assert_says(&cut, "not a trace file: EOF while parsing");
    let more = from_json(format!("{whole}{whole}").as_bytes()).expect_err("two files");
    assert_says(&more, "not a trace file: trailing characters");
    let empty = from_json(b"").expect_err("empty");
    assert_says(
        &empty,
        "not a trace file: EOF while parsing a value at line 1 column 0",
    );
}

#[test]
fn another_format() {
    let error = refusal("/format", json!("chrome-trace"));
    assert_eq!(
        error.to_string(),
        r#"not a trace file: "format" is "chrome-trace", expected "streamweir-trace""#
    );
    assert_says(
        &from_json(b"{}").expect_err("no header"),
        "missing field `format`",
    );
}

#[test]
fn another_version_is_named_before_its_fields_are_judged() {
    let mut file = valid();
    file["version"] = json!(4);
    file["trace"]["a field of the future"] = json!(true);
    assert_eq!(
        read(&file).expect_err("newer").to_string(),
        "trace file of version 4; this build reads versions 2 to 3. Write the file again with a matching release"
    );
    assert_says(&refusal("/version", json!(0)), "trace file of version 0;");
    assert_says(&refusal("/version", json!("1")), "expected u32");
}

#[test]
fn an_unknown_field_in_every_object() {
    for object in [
        "",
        "/trace",
        "/trace/streams/0",
        "/trace/streams/0/end",
        "/trace/nodes/0",
        "/trace/nodes/0/kind/kernel",
        "/trace/nodes/0/kind/kernel/params/0",
        "/trace/nodes/0/kind/kernel/params/0/pointer",
        "/trace/edges/0",
        "/trace/buffers/0",
        "/trace/buffers/1/kind/scratch",
        "/trace/buffers/1/kind/scratch/alloc",
        "/trace/accesses/0",
        "/trace/unknown/0",
        "/trace/protocol/0",
    ] {
        let mut file = valid();
        file.pointer_mut(object).expect("an object")["colour"] = json!(1);
        let error = read(&file).expect_err(object);
        assert_says(&error, "unknown field `colour`");
    }
}

#[test]
fn an_unknown_word() {
    let error = refusal("/trace/accesses/0/mode", json!("modify"));
    assert_says(
        &error,
        "unknown variant `modify`, expected one of `read`, `write`, `read_write`, `atomic`",
    );
    assert_says(
        &refusal("/trace/nodes/1/kind", json!("warp")),
        "unknown variant `warp`",
    );
    assert_says(
        &refusal("/trace/buffers/0/kind", json!("heap")),
        "unknown variant `heap`",
    );
}

#[test]
fn a_missing_field() {
    let mut file = valid();
    file["trace"]["accesses"][0]
        .as_object_mut()
        .expect("an object")
        .remove("mode");
    assert_says(&read(&file).expect_err("no mode"), "missing field `mode`");
}

#[test]
fn a_field_given_twice() {
    let text = valid()
        .to_string()
        .replacen(r#""version":3"#, r#""version":3,"version":3"#, 1);
    assert_says(
        &from_json(text.as_bytes()).expect_err("twice"),
        "duplicate field `version`",
    );
}

#[test]
fn an_id_without_an_entry() {
    for (pointer, value, expected) in [
        (
            "/trace/streams/0/end/frontier/0",
            2,
            r#"stream s0 ("main") names n2, but the trace has 2 nodes"#,
        ),
        (
            "/trace/nodes/0/stream",
            1,
            r#"node n0 ("store") names s1, but the trace has 1 streams"#,
        ),
        (
            "/trace/nodes/0/scope",
            7,
            r#"node n0 ("store") names p7, but the trace has 1 scopes"#,
        ),
        (
            "/trace/nodes/0/kind/kernel/params/0/pointer/buffer",
            2,
            r#"node n0 ("store") names b2, but the trace has 2 buffers"#,
        ),
        (
            "/trace/edges/0/from",
            2,
            "edge 0 names n2, but the trace has 2 nodes",
        ),
        (
            "/trace/edges/0/to",
            9,
            "edge 0 names n9, but the trace has 2 nodes",
        ),
        (
            "/trace/buffers/1/kind/scratch/stream",
            1,
            r#"buffer b1 ("scores") names s1, but the trace has 1 streams"#,
        ),
        (
            "/trace/buffers/1/kind/scratch/alloc/frontier/0",
            2,
            r#"buffer b1 ("scores") names n2, but the trace has 2 nodes"#,
        ),
        // Positions lie between nodes: 2 is the end of the capture, 3 is not.
        (
            "/trace/buffers/1/kind/scratch/alloc/before",
            3,
            r#"buffer b1 ("scores") names n3, but the trace has 2 nodes"#,
        ),
        (
            "/trace/buffers/1/kind/scratch/freed_before",
            3,
            r#"buffer b1 ("scores") names n3, but the trace has 2 nodes"#,
        ),
        (
            "/trace/accesses/0/node",
            2,
            "access 0 names n2, but the trace has 2 nodes",
        ),
        (
            "/trace/accesses/0/buffer",
            2,
            "access 0 names b2, but the trace has 2 buffers",
        ),
        (
            "/trace/unknown/0/node",
            2,
            "unknown access 0 names n2, but the trace has 2 nodes",
        ),
        (
            "/trace/protocol/0/stream",
            1,
            r#"protocol entry 0 ("c") names s1, but the trace has 1 streams"#,
        ),
        (
            "/trace/protocol/0/node",
            2,
            r#"protocol entry 0 ("c") names n2, but the trace has 2 nodes"#,
        ),
    ] {
        assert_eq!(
            refusal(pointer, json!(value)).to_string(),
            expected,
            "{pointer}"
        );
    }
    let mut file = valid();
    file["trace"]["streams"][0]["parent"] = json!(1);
    assert_eq!(
        read(&file).expect_err("no such parent").to_string(),
        r#"stream s0 ("main") names s1, but the trace has 1 streams"#
    );
}

#[test]
fn an_id_that_no_table_can_hold() {
    assert_says(
        &refusal("/trace/edges/0/to", json!(-1)),
        "invalid value: integer `-1`, expected u32",
    );
    assert_says(
        &refusal("/trace/edges/0/to", json!(1_u64 << 32)),
        "expected u32",
    );
}

#[test]
fn an_edge_from_a_node_to_itself() {
    assert_eq!(
        refusal("/trace/edges/0/to", json!(0)).to_string(),
        "node n0 has an edge to itself"
    );
}

#[test]
fn an_access_outside_its_buffer() {
    assert_eq!(
        refusal("/trace/accesses/0/bytes", json!(["0xfff", "0x1001"])).to_string(),
        r#"node n0 touches bytes 0xfff..0x1001 of buffer "keys", which has 0x1000 bytes"#
    );
}

#[test]
fn a_range_that_is_none() {
    let backwards = refusal("/trace/buffers/0/range", json!(["0x2000", "0x1000"]));
    assert_says(
        &backwards,
        "byte range 0x2000..0x1000 ends before it starts",
    );
    for bound in ["4096", "0x", "0xg", "0x+1", "-0x1", "0x10000000000000000"] {
        let error = refusal("/trace/buffers/0/range/0", json!(bound));
        assert_says(
            &error,
            &format!("expected a 64-bit hexadecimal number such as \"0x1f00\", found {bound:?}"),
        );
    }
    assert_says(
        &refusal("/trace/buffers/0/range/0", json!(4096)),
        "expected a 64-bit hexadecimal number",
    );
    assert_says(
        &refusal("/trace/buffers/0/range", json!(["0x0"])),
        "invalid length 1",
    );
}

#[test]
fn parameter_bytes_that_are_no_bytes() {
    for bytes in ["0", "0ff", "0g", "0x00", "é"] {
        let error = refusal("/trace/nodes/0/kind/kernel/params/0/bytes", json!(bytes));
        assert_says(&error, "expected an even number of hexadecimal digits");
    }
}

/// What a file calls its things is shown escaped.
#[test]
fn names_in_errors_stay_on_their_line() {
    let mut file = valid();
    file["trace"]["nodes"][1]["name"] = json!("x\nsafe: \u{1b}[8m\u{9b}\u{202e}");
    file["trace"]["nodes"][1]["stream"] = json!(9);
    let text = read(&file).expect_err("no such stream").to_string();
    assert!(
        text.starts_with("node n1 (\"x\\nsafe: \\u{1b}[8m\\u{9b}\\u{202e}\")"),
        "{text:?}"
    );
    let field = valid()
        .to_string()
        .replacen("\"scopes\"", "\"\\u001b[2J\"", 1);
    let text = from_json(field.as_bytes())
        .expect_err("no such field")
        .to_string();
    assert!(
        !text.contains('\u{1b}') && text.contains("\\u{1b}[2J"),
        "{text:?}"
    );
}
