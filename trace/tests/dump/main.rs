//! What a reader of capture dumps refuses, and how it says so.

use streamweir_trace::Dump;

/// A dump with one kernel, one block and one operator, of which a test spoils
/// one thing.
const GOOD: &str = r#"{"format":"capture-dump-1","name":"n","label":"safe",
"nodes":[{"id":0,"type":0,"kernel":"k","grid":[1,1,1],"block":[32,1,1],"smem":0,"params":[{"offset":0,"size":8,"hex":"0000010000000000"}]},
{"id":1,"type":1,"src":65536,"src_host":false,"dst":66560,"bytes":512,"src_type":2,"dst_type":2}],
"edges":[[0,1]],
"alloc_trace":[{"action":"segment_alloc","addr":65536,"size":4096,"stream":1},{"action":"alloc","addr":65536,"size":512,"stream":1},{"action":"alloc","addr":66560,"size":512,"stream":1}],
"segments":[{"address":65536,"size":4096,"stream":1,"pool":[1,0],"blocks":[[65536,512,"active_allocated"],[66048,512,"inactive"]]}],
"ops":[{"op":"aten.mul","stream":1,"nodes":[0,1],"tensors":[[65536,512,65536,512,true]]}]}"#;

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let bad = GOOD.replacen(from, to, 1);
    match Dump::from_json(bad.as_bytes()) {
        Ok(_) => panic!("{to} was taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_good_one_is_read() {
    let dump = Dump::from_json(GOOD.as_bytes()).expect("valid");
    assert_eq!((dump.nodes.len(), dump.edges.len()), (2, 1));
    assert_eq!((dump.events.len(), dump.operators.len()), (3, 1));
    assert!(dump.segments[0].private);
}

#[test]
fn each_spoiled_field_is_named() {
    for (from, to, said) in [
        ("capture-dump-1", "capture-dump-2", "\"capture-dump-2\""),
        (r#""id":1"#, r#""id":0"#, "node 0 stands at position 1"),
        (r#""id":1"#, r#""id":99999999999"#, "node 99999999999"),
        (
            r#""kernel":"k","#,
            "",
            "node 0 is a kernel without \"kernel\"",
        ),
        (
            r#""bytes":512"#,
            r#""extent":512"#,
            "node 1 is a copy without \"bytes\"",
        ),
        (r#""hex":"0000"#, r#""hex":"00zz"#, "hexadecimal"),
        (r#""hex":"0000"#, r#""hex":"000"#, "even number"),
        (
            r#""size":8,"#,
            r#""size":4,"#,
            "node 0, parameter 0: 4 bytes",
        ),
        ("[[0,1]]", "[[0,2]]", "edge 0 names node 2"),
        ("[[0,1]]", "[[1,1]]", "node 1 has an edge to itself"),
        ("[[0,1]]", "[[0,-1]]", "-1"),
        ("[[0,1]]", "[[0,1e3]]", "1000"),
        ("[[0,1]]", "[[0,NaN]]", "line 4"),
        ("[[0,1]]", "[[0,18446744073709551616]]", "line 4"),
        (
            r#""nodes":[0,1]"#,
            r#""nodes":[1,0]"#,
            "end before they begin",
        ),
        (
            r#""nodes":[0,1]"#,
            r#""nodes":[0,3]"#,
            "operator 0 (\"aten.mul\") names node 3",
        ),
        (
            "[65536,512,65536,512,true]",
            "[65536,513,65536,512,true]",
            "outside of its storage",
        ),
        (
            "[65536,512,65536,512,true]",
            "[65536,512,65536,18446744073709551615,true]",
            "run past 2^64",
        ),
        (
            "[66048,512",
            "[66000,512",
            "block 0x101d0..0x103d0 overlaps",
        ),
        ("[66048,512", "[69632,512", "outside of its segment"),
        (
            r#""addr":66560,"size":512"#,
            r#""addr":66000,"size":512"#,
            "which is still there",
        ),
        ("\"ops\":", "\"ops\":[],\"ops\":", "duplicate field"),
        ("\"edges\":[[0,1]],", "", "missing field `edges`"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn a_block_freed_twice_is_named() {
    let event = r#"{"action":"free_completed","addr":65536,"size":512,"stream":1}"#;
    let at = r#"{"action":"alloc","addr":66560"#;
    let error = refused(at, &format!("{event},{event},{at}"));
    assert!(error.contains("allocator event 3 frees"), "{error}");
}

#[test]
fn every_prefix_is_refused() {
    for end in 0..GOOD.len() {
        assert!(Dump::from_json(&GOOD.as_bytes()[..end]).is_err(), "{end}");
    }
    let more = format!("{GOOD} {{}}");
    assert!(Dump::from_json(more.as_bytes()).is_err());
}

#[test]
fn what_is_longer_than_any_kernel_takes_is_refused_as_it_is_read() {
    let long = "00".repeat(1 << 17);
    let error = refused("0000010000000000", &long);
    assert!(error.contains("at most 65536 bytes"), "{error}");
}
