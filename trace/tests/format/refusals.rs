//! Files that must be refused, each with the text that its author will read.

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

/// Buffers of the graph's own memory that do not agree, or not with the nodes,
/// on which node frees it.
#[test]
fn free_nodes_that_are_contradicted() {
    let mut file = valid();
    file["trace"]["nodes"] = json!([
        { "kind": { "mem_alloc": { "at": "0x40", "bytes": 64 } }, "name": "alloc" },
        { "kind": { "mem_free": { "at": "0x40" } }, "name": "free" },
        { "kind": { "mem_alloc": { "at": "0x80", "bytes": 64 } }, "name": "alloc" },
        { "kind": { "mem_free": { "at": "0x80" } }, "name": "free" },
    ]);
    file["trace"]["accesses"] = json!([]);
    let claims = |claims: &[(u32, u32)]| {
        let mut file = file.clone();
        let buffers = claims.iter().map(|(alloc, free)| {
            json!({
                "name": format!("of {alloc}"),
                "kind": { "graph": { "alloc": alloc, "free": free } },
                "range": if *alloc == 0 { ["0x40", "0x80"] } else { ["0x80", "0xc0"] },
            })
        });
        file["trace"]["buffers"] = buffers.collect();
        read(&file)
    };
    claims(&[(0, 1), (0, 1), (2, 3)]).expect("each allocation has its free node");
    let says = |made: &[(u32, u32)], expected| {
        assert_says(&claims(made).expect_err("contradicted"), expected);
    };
    says(
        &[(0, 1), (0, 3)],
        "buffer \"of 0\" says that node n3 frees what node n0 allocates, but buffer \"of 0\" says that n1 does",
    );
    says(
        &[(0, 1), (2, 1)],
        "but buffer \"of 0\" has it free what n0 allocates",
    );
    says(&[(0, 3)], "but one is at 0x40, the other at 0x80");
    says(&[(0, 2)], "but that is no free node");
}

/// A buffer of the graph's own memory needs a node that allocates it.
#[test]
fn graph_memory_that_its_node_does_not_allocate() {
    let says = |kind: Value, range: [&str; 2], expected: &str| {
        let mut file = valid();
        file["trace"]["nodes"] =
            json!([{ "kind": kind, "name": "n" }, { "kind": "empty", "name": "end" }]);
        file["trace"]["accesses"] = json!([]);
        file["trace"]["edges"] = json!([]);
        file["trace"]["buffers"] =
            json!([{ "name": "g", "kind": { "graph": { "alloc": 0 } }, "range": range }]);
        assert_says(&read(&file).expect_err("not allocated"), expected);
    };
    let page = ["0x1000", "0x2000"];
    says(
        json!("empty"),
        page,
        "buffer \"g\" says that node n0 allocates it, but that is no allocation but a node of kind empty",
    );
    says(
        json!({ "mem_free": { "at": "0x1000" } }),
        page,
        "no allocation but a node of kind memory free",
    );
    let alloc = |at: &str, bytes: u64| json!({ "mem_alloc": { "at": at, "bytes": bytes } });
    says(
        alloc("0x1000", 0xfff),
        page,
        "but it allocates 0x1000..0x1fff",
    );
    says(
        alloc("0x1001", 0x1000),
        page,
        "but it allocates 0x1001..0x2001",
    );
    says(
        alloc("0xffffffffffffff00", 512),
        page,
        "has 0x200 bytes at 0xffffffffffffff00, which end beyond the address space",
    );
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

/// Memory that ends beyond the last address has no place, whatever says so.
#[test]
fn memory_beyond_the_address_space() {
    let top = u64::MAX;
    for (kind, at, bytes) in [
        (
            json!({ "mem_alloc": { "at": "0x1000", "bytes": top } }),
            "0x1000",
            "0xffffffffffffffff",
        ),
        (
            json!({ "memset": { "to": "0xfffffffffffffff0", "bytes": 17, "value": 0 } }),
            "0xfffffffffffffff0",
            "0x11",
        ),
        (
            json!({ "memset": { "to": "0x1000", "bytes": 16, "value": 0, "rows": 3, "pitch": top / 2 } }),
            "0x1000",
            "0x10",
        ),
        (
            json!({ "memcpy": { "to": "0xfffffffffffffff0", "from": "0x1000", "bytes": 17 } }),
            "0xfffffffffffffff0",
            "0x11",
        ),
        (
            json!({ "memcpy": { "to": "0x1000", "from": "0x100", "bytes": 1, "rows": 2, "from_pitch": top - 0xff } }),
            "0x100",
            "0xffffffffffffff01",
        ),
    ] {
        let says = format!(
            "node n1 (\"end\") has {bytes} bytes at {at}, which end beyond the address space"
        );
        assert_says(&refusal("/trace/nodes/1/kind", kind), &says);
    }
    // The last byte of all is a byte like any other.
    let mut file = valid();
    file["trace"]["nodes"][1]["kind"] =
        json!({ "mem_alloc": { "at": "0x1000", "bytes": top - 0x1000 } });
    read(&file).expect("it ends where addresses end");
}

/// A declared pointer says where it points; the reader holds it to that.
#[test]
fn pointers_outside_of_their_buffer() {
    let param = "/trace/nodes/0/kind/kernel/params/0";
    let refused = |bytes: &str, offset: u64| {
        let value = json!({ "name": "out", "offset": 0, "bytes": bytes, "pointer": { "buffer": 0, "offset": offset } });
        refusal(param, value)
    };
    assert_says(
        &refused("0020000000000000", 0x10_0000),
        "parameter 0 (\"out\") of node n0 (\"store\") points 0x100000 bytes into buffer \"keys\", which has 0x1000 bytes",
    );
    assert_says(
        &refused("0120000000000000", 0x1001),
        "points 0x1001 bytes into",
    );
    assert_says(
        &refused("0020000000000000", u64::MAX),
        "points 0xffffffffffffffff bytes into",
    );
    assert_says(
        &refused("0020000000000000", 0),
        "holds the address 0x2000, but points 0x0 bytes into buffer \"keys\", which is 0x1000",
    );
    // An address has eight bytes.
    for (bytes, len) in [("", 0), ("00100000", 4), ("00100000000000", 7)] {
        assert_says(
            &refused(bytes, 0),
            &format!("is declared to be an address, but the parameter has {len} bytes"),
        );
    }
    for (bytes, offset) in [("0010000000000000", 0), ("0020000000000000", 0x1000)] {
        let mut file = valid();
        let pointer = json!({ "buffer": 0, "offset": offset });
        file["trace"]["nodes"][0]["kind"]["kernel"]["params"][0] =
            json!({ "offset": 0, "bytes": bytes, "pointer": pointer });
        read(&file).expect("inside, or where an empty slice at the end begins");
    }
}

#[test]
fn elements_of_no_such_size() {
    let fill = json!({ "memset": { "to": "0x1000", "bytes": 9, "value": 0, "element": 3 } });
    assert_says(
        &refusal("/trace/nodes/1/kind", fill),
        "node n1 (\"end\") fills elements of 3 bytes; there are such of 1, 2 and 4",
    );
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

/// Addresses inside a parameter are held to the same.
#[test]
fn addresses_in_fields_that_lie_elsewhere() {
    let param = "/trace/nodes/0/kind/kernel/params/0";
    let with = |bytes: &str, at: u32, offset: u64| {
        let fields = json!([{ "at": at, "buffer": 0, "offset": offset }]);
        json!({ "name": "rows", "offset": 0, "bytes": bytes, "fields": fields })
    };
    let two = "08100000000000000010000000000000";
    assert_says(
        &refusal(param, with(two, 8, 0x1001)),
        "byte 8 of parameter 0 (\"rows\") of node n0 (\"store\") points 0x1001 bytes into buffer \"keys\"",
    );
    assert_says(
        &refusal(param, with(two, 8, 8)),
        "holds the address 0x1000, but points 0x8 bytes into buffer \"keys\", which is 0x1008",
    );
    assert_says(
        &refusal(param, with(two, 16, 0)),
        "byte 16 of parameter 0 (\"rows\") of node n0 (\"store\") is declared to be an address, but the parameter has 16 bytes",
    );
    for (at, offset) in [(0, 8), (8, 0)] {
        let mut file = valid();
        file["trace"]["nodes"][0]["kind"]["kernel"]["params"][0] = with(two, at, offset);
        read(&file).expect("each address is where it says");
    }
}
