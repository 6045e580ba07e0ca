//! Files that were judged wrongly once, each with the reason, and variants of each
//! kind: the nearest file that is safe, and others that are not. The files lie in
//! `verify/tests/data/cases`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use streamweir_verify::audit::{Mode, audit_json};
use streamweir_verify::{Options, Report, Rule, Verdict};

fn case(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let text = fs::read(folder.join(format!("{name}.json"))).expect("a case");
    serde_json::from_slice(&text).expect("JSON")
}

/// The case with one value replaced.
fn variant(name: &str, pointer: &str, value: Value) -> Value {
    let mut case = case(name);
    *case.pointer_mut(pointer).expect("the case has it") = value;
    case
}

fn audit_in(case: &Value, mode: Mode) -> Result<Report, String> {
    let audit = audit_json(case.to_string().as_bytes(), mode, &Options::default());
    audit
        .map(|audit| audit.report)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn judged(case: &Value) -> Report {
    audit_in(case, Mode::Auto).expect("a verdict")
}

#[track_caller]
fn safe(case: &Value) -> Report {
    let report = judged(case);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    report
}

/// The report of a case with one broken rule, proven or only possible.
#[track_caller]
fn broken(case: &Value, rule: Rule, verdict: Verdict) -> Report {
    let report = judged(case);
    assert_eq!(report.verdict, verdict, "{report}");
    for hazard in &report.hazards {
        assert_eq!(hazard.rule, rule, "{report}");
        assert_eq!(hazard.proven, verdict == Verdict::Hazard, "{report}");
    }
    report
}

#[track_caller]
fn refused(case: &Value, says: &str) {
    let error = audit_in(case, Mode::Auto).expect_err("no verdict");
    assert!(error.contains(says), "{error}");
}

fn says(report: &Report, part: &str) -> bool {
    let mut lines = report.assumptions.iter().chain(&report.not_analysed);
    lines.any(|line| line.contains(part))
}

/// Safe was said though the parameter points a megabyte behind its buffer: what it
/// points to was never looked at, because a declared pointer explains its word.
#[test]
fn a_pointer_beyond_its_buffer_is_refused() {
    let param = "/trace/nodes/0/kind/kernel/params/0";
    let says = "parameter 0 (\"p\") of node n0 (\"n\") points 0x100000 bytes into buffer \"w\", which has 0x1000 bytes";
    refused(&case("pointer-beyond"), says);
    let to = |offset: u64, bytes: &str| {
        let value = json!({ "name": "p", "offset": 0, "bytes": bytes, "pointer": { "buffer": 0, "offset": offset } });
        variant("pointer-beyond", param, value)
    };
    refused(
        &to(u64::MAX, "0010000000000000"),
        "points 0xffffffffffffffff bytes into",
    );
    refused(&to(0x1001, "0120000000000000"), "points 0x1001 bytes into");
    refused(
        &to(0, "0020000000000000"),
        "holds the address 0x2000, but points 0x0 bytes into",
    );
    safe(&to(0, "0010000000000000"));
    safe(&to(0xff8, "f81f000000000000"));
}

/// Safe was said of an allocation that ends beyond the last address, and a checker
/// of its certificate then refused it.
#[test]
fn memory_that_ends_beyond_all_addresses_is_refused() {
    refused(&case("alloc-overflow"), "end beyond the address space");
    let kind = "/trace/nodes/0/kind";
    for node in [
        json!({ "memset": { "to": "0xffffffffffffff00", "bytes": 257, "value": 0 } }),
        json!({ "memset": { "to": "0x0", "bytes": 1, "value": 0, "rows": u64::MAX, "pitch": 2 } }),
        json!({ "memcpy": { "to": "0x1000", "from": "0xffffffffffffff00", "bytes": 257 } }),
    ] {
        refused(
            &variant("alloc-overflow", kind, node),
            "end beyond the address space",
        );
    }
    let dump = json!({
        "format": "capture-dump-1", "nodes": [{ "id": 0, "type": 2, "dst": u64::MAX, "bytes": 2 }], "edges": [],
    });
    refused(&dump, "run past 2^64");
}

/// Safe was said though `take` may run before `add`, from which it is to read: two
/// atomics race with nothing, and nothing else was asked.
#[test]
fn a_step_that_may_run_before_its_source_is_r12() {
    let name = "session-atomic-unordered-source";
    let report = broken(&case(name), Rule::External, Verdict::Hazard);
    assert!(
        report.hazards[0].what.contains("may run before"),
        "{report}"
    );
    safe(&variant(
        name,
        "/session/steps/1/kind/eager/stream",
        json!(0),
    ));
    // The same for a launch, and for a copy that only reads.
    let mut launch = variant(
        name,
        "/session/graphs",
        json!([{ "name": "g", "uses": [{ "buffer": 0, "bytes": ["0x0", "0x100"], "mode": "atomic" }] }]),
    );
    launch["session"]["steps"][1]["kind"] = json!({ "launch": { "stream": 1, "graph": 0 } });
    broken(&launch, Rule::External, Verdict::Hazard);
    let uses = "/session/steps/1/kind/eager/uses/0/mode";
    assert_eq!(
        judged(&variant(name, uses, json!("read"))).verdict,
        Verdict::Hazard
    );
}

/// Safe was said of two copies that nothing orders, one writing the host bytes that
/// the other reads: host ends were dropped when the file was read.
#[test]
fn host_bytes_of_copies_are_bytes_like_any_other() {
    let name = "dump-copy-host";
    for mode in [Mode::Auto, Mode::Operators] {
        let report = audit_in(&case(name), mode).expect("a verdict");
        assert_eq!(report.verdict, Verdict::Hazard, "{report}");
        assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);
        assert_eq!(report.hazards[0].buffers[0].name, "host memory at 0x777000");
        let ordered = variant(name, "/edges", json!([[0, 1]]));
        let report = audit_in(&ordered, mode).expect("a verdict");
        assert_eq!(report.verdict, Verdict::Safe, "{report}");
    }
    safe(&variant(name, "/nodes/1/src", json!(7_827_456 + 64)));
    broken(
        &variant(name, "/nodes/1/src", json!(7_827_456 + 63)),
        Rule::UnorderedConflict,
        Verdict::Hazard,
    );
    // By the driver's number for host memory, and for memory of either side.
    for kind in [1, 4] {
        let mut numbered = case(name);
        numbered["nodes"][0]["dst_host"] = json!(false);
        numbered["nodes"][0]["dst_type"] = json!(kind);
        broken(&numbered, Rule::UnorderedConflict, Verdict::Hazard);
    }
    // A recorder that does not know the address writes zero, or nothing.
    let unknown = variant(name, "/nodes/1/src", json!(0));
    assert!(says(
        &safe(&unknown),
        "1 end of copies lie in host memory or arrays"
    ));
}

/// Safe was said of two writes of one tensor that nothing orders: a kernel without
/// parameters in the file was taken for one that has no address.
#[test]
fn parameters_that_are_not_known_may_be_any() {
    let name = "dump-no-params";
    let report = broken(&case(name), Rule::UnorderedConflict, Verdict::Possible);
    assert!(
        says(&report, "the parameters of 1 kernel are not known"),
        "{report}"
    );
    assert!(
        says(&report, "1 node not analysed: kernel (n0 `k0`)"),
        "{report}"
    );
    let report = audit_in(&case(name), Mode::Pointers).expect("a verdict");
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    safe(&variant(name, "/edges", json!([[0, 1]])));
    // To have none is known, too, and then the tensor is not touched.
    let mut none = case(name);
    none["nodes"][0]["params"] = json!([]);
    assert!(says(&safe(&none), "none of its kernels has an address of"));
    // Memory that no operator names may be touched as well.
    let mut unnamed = case(name);
    unnamed["ops"][0]["tensors"] = json!([]);
    unnamed["ops"][1]["tensors"] = json!([]);
    broken(&unnamed, Rule::UnorderedConflict, Verdict::Possible);
}

/// Safe was said of a result in the pool that everyone takes from: when its owner
/// lets go, replays write memory of somebody else (PyTorch 114320).
#[test]
fn results_in_the_general_pool_are_kept_by_nobody() {
    let held = "dump-general-pool-held";
    broken(&case(held), Rule::UnknownMemory, Verdict::Hazard);
    safe(&case("dump-general-pool-repaired"));
    // Let go of while the capture goes on, it is no better.
    let mut freed = case(held);
    for action in ["free_requested", "free_completed"] {
        let event = json!({ "action": action, "addr": 139_637_983_019_008_u64, "size": 4096, "stream": 8192 });
        freed["alloc_trace"]
            .as_array_mut()
            .expect("events")
            .push(event);
    }
    freed["segments"][3]["blocks"][0][2] = json!("inactive");
    broken(&freed, Rule::UnknownMemory, Verdict::Hazard);
    // Which pool it is may not be known; then that is said.
    let mut unknown = case(held);
    unknown["segments"][3]
        .as_object_mut()
        .expect("a segment")
        .remove("pool");
    let report = safe(&unknown);
    assert!(
        says(&report, "of 1 storage the dump does not say which pool"),
        "{report}"
    );
    let mut unknown = case(held);
    unknown.as_object_mut().expect("a dump").remove("segments");
    let report = safe(&unknown);
    assert!(
        says(&report, "does not say what memory the allocator holds"),
        "{report}"
    );
}

/// Safe was said of an operator that reads a block nobody holds: what the
/// allocator's record does not show as held was taken to outlive the graph.
#[test]
fn tensors_in_free_memory_are_used_after_their_free() {
    let name = "dump-operator-names-inactive-block";
    let report = broken(&case(name), Rule::OwnerGone, Verdict::Hazard);
    assert_eq!(
        report.hazards[0].buffers[0].name,
        "freed memory at 0x7f0000400000"
    );
    let state = "/segments/2/blocks/0/2";
    safe(&variant(name, state, json!("active_allocated")));
    safe(&variant(name, state, json!("active_pending_free")));
    // Only captured graphs may take it.
    let private = variant(name, "/segments/2/pool", json!([3, 0]));
    broken(&private, Rule::OwnerGone, Verdict::Possible);
    // It may have been scratch of this capture, if nobody says what was given out.
    let mut untold = private;
    untold
        .as_object_mut()
        .expect("a dump")
        .remove("alloc_trace");
    let report = safe(&untold);
    assert!(
        says(&report, "does not say what the allocator did"),
        "{report}"
    );
    // A fill says itself what it writes.
    let mut fill = case(name);
    fill["nodes"][0] = json!({ "id": 0, "type": 2, "dst": 139_637_980_921_856_u64, "bytes": 64 });
    assert_eq!(judged(&fill).verdict, Verdict::Hazard);
}

/// A name printed a verdict of its own, and hid what came after it.
#[test]
fn names_stay_on_their_line() {
    let mut case = case("terminal-forged-verdict");
    let name = case["trace"]["name"].as_str().expect("a name").to_owned();
    for (table, at) in [("nodes", 0), ("buffers", 0), ("streams", 0)] {
        case["trace"][table][at]["name"] = json!(format!("{name}\u{9b}\u{202e}\u{2066}\r"));
    }
    case["trace"]["assumptions"] = json!([name]);
    case["trace"]["protocol"] = json!([{ "call": name, "what": name }]);
    let report = judged(&case);
    assert_eq!(report.verdict, Verdict::Hazard);
    let text = report.to_string();
    assert!(!text.lines().any(|line| line.starts_with("safe")), "{text}");
    let raw = |c: char| c != '\n' && !streamweir_trace::shows(c);
    assert!(!text.contains(raw), "{text:?}");
    let trace = streamweir_trace::from_json(case.to_string().as_bytes()).expect("a trace");
    let page = streamweir_verify::html(&trace, &report).expect("a page");
    assert!(!page.contains(raw), "a raw character on the page");
    assert!(
        !page.contains("\\u001b") && !page.contains("\\u009b"),
        "one that its script makes raw"
    );
    let graph = streamweir_verify::dot(&trace, &report).expect("a graph");
    assert!(!graph.contains(raw), "{graph:?}");
    // What cannot be read is named the same way.
    case["trace"]["nodes"][0]["stream"] = json!(9);
    let error = audit_in(&case, Mode::Auto).expect_err("no such stream");
    assert!(
        !error.contains(|c| !streamweir_trace::shows(c)),
        "{error:?}"
    );
}

/// R3 was said of a fill of an operator's own scratch, given out and freed while
/// the operator ran.
#[test]
fn a_fill_of_an_operators_own_scratch_is_no_hazard() {
    let name = "capture_backward_safe";
    safe(&case(name));
    // Its other scratch may be as large as what the next operator makes in its place.
    let mut alike = case(name);
    for event in alike["alloc_trace"].as_array_mut().expect("events") {
        if event["addr"] == json!(139_971_163_849_216_u64) && event["size"] == json!(64) {
            event["size"] = json!(4);
        }
    }
    safe(&alike);
    // What was freed before and is filled again is no scratch of the operator.
    let mut freed = case(name);
    freed["nodes"][12] = json!({ "id": 12, "type": 2, "dst": 139_971_163_849_728_u64, "bytes": 4 });
    assert_eq!(judged(&freed).verdict, Verdict::Hazard);
}

/// Columns that two streams write in turn were called possible: from first to last
/// byte they overlap, and they share none.
#[test]
fn columns_have_the_bytes_that_their_strides_give() {
    let name = "capture_columns_interleaved_safe";
    safe(&case(name));
    // The even columns by both.
    let mut same = case(name);
    for at in [6, 7] {
        for tensor in same["ops"][at]["tensors"].as_array_mut().expect("tensors") {
            let storage = tensor[2].as_u64().expect("an address");
            tensor[0] = json!(storage);
        }
    }
    broken(&same, Rule::UnorderedConflict, Verdict::Hazard);
    // Without sizes and strides nothing is known of gaps.
    let mut old = case(name);
    for operator in old["ops"].as_array_mut().expect("operators") {
        for tensor in operator["tensors"].as_array_mut().expect("tensors") {
            tensor.as_array_mut().expect("values").truncate(5);
        }
    }
    broken(&old, Rule::UnorderedConflict, Verdict::Possible);
    // Sizes that are not those of the bytes.
    let mut other = case(name);
    other["ops"][6]["tensors"][0][5] = json!([64, 1025]);
    refused(
        &other,
        "its sizes and strides span 262146 bytes, and 262142 are announced",
    );
    let mut six = case(name);
    six["ops"][6]["tensors"][0]
        .as_array_mut()
        .expect("values")
        .truncate(6);
    refused(&six, "the five values of a tensor, or these with its sizes");
}

/// Two contiguous views that share one row were called possible.
#[test]
fn rows_that_two_streams_write_are_r1() {
    let name = "capture_halves_overlap_race";
    broken(&case(name), Rule::UnorderedConflict, Verdict::Hazard);
    // One row less, and they only touch.
    let mut halves = case(name);
    for tensor in halves["ops"][7]["tensors"].as_array_mut().expect("tensors") {
        tensor[1] = json!(131_072);
        tensor[5][0] = json!(32);
    }
    safe(&halves);
}

/// One cause is one hazard with its members; of these each is held to its bytes.
#[test]
fn a_pair_that_meets_is_found_among_pairs_that_do_not() {
    let name = "capture_columns_interleaved_safe";
    let with_third = |third_meets: bool| {
        let mut case = case(name);
        // The stream of the odd columns writes twice, the second time to the even
        // ones perhaps.
        let (mut node, mut operator) = (case["nodes"][1].clone(), case["ops"][6].clone());
        node["id"] = json!(3);
        case["nodes"].as_array_mut().expect("nodes").push(node);
        operator["nodes"] = json!([3, 4]);
        if third_meets {
            for tensor in operator["tensors"].as_array_mut().expect("tensors") {
                tensor[0] = tensor[2].clone();
            }
        }
        case["ops"]
            .as_array_mut()
            .expect("operators")
            .push(operator);
        case["edges"]
            .as_array_mut()
            .expect("edges")
            .push(json!([1, 3]));
        case
    };
    safe(&with_third(false));
    let report = broken(&with_third(true), Rule::UnorderedConflict, Verdict::Hazard);
    let hazard = &report.hazards[0];
    let second = hazard.second.as_ref().expect("two nodes");
    let mut nodes = [hazard.first.node, second.node].map(|node| node.expect("a node").0);
    nodes.sort_unstable();
    assert_eq!((nodes, hazard.members.len()), ([2, 3], 0), "{report}");
}
