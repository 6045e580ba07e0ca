//! What a reader of capture dumps refuses, and how it says so.

use streamweir_trace::dump::{CopyEnd, DumpNode, Pool};
use streamweir_trace::{ByteRange, Dump};

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
    assert_eq!((dump.known_events().len(), dump.operators.len()), (3, 1));
    assert_eq!(dump.known_segments()[0].pool, Pool::Private);
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

/// GOOD with one thing changed that is right in form.
fn read(from: &str, to: &str) -> Dump {
    assert!(GOOD.contains(from), "{from}");
    Dump::from_json(GOOD.replacen(from, to, 1).as_bytes()).expect("valid")
}

/// What a file leaves out is not known, which is something else than nothing.
#[test]
fn what_is_left_out_is_not_known() {
    let empty = |field: &str| {
        let from = GOOD.find(&format!("\"{field}\":[")).expect("a list");
        let to = from + GOOD[from..].find('\n').unwrap_or(GOOD.len() - from);
        GOOD[from..to].to_owned()
    };
    let events = empty("alloc_trace");
    assert_eq!(read(&events, "").events, None);
    assert_eq!(
        read(&events, "\"alloc_trace\":[],").events,
        Some(Vec::new())
    );
    let segments = empty("segments");
    assert_eq!(read(&segments, "").segments, None);
    assert_eq!(
        read(&segments, "\"segments\":[],").segments,
        Some(Vec::new())
    );
    let pool = read(",\"pool\":[1,0]", "").known_segments()[0].pool;
    assert_eq!(pool, Pool::Unknown);
    let params = r#","params":[{"offset":0,"size":8,"hex":"0000010000000000"}]"#;
    for (to, known) in [("", false), (",\"params\":[]", true)] {
        let dump = read(params, to);
        let DumpNode::Kernel { params, .. } = &dump.nodes[0] else {
            panic!("a kernel");
        };
        assert_eq!(params.is_some(), known);
    }
}

#[test]
fn an_end_of_a_copy_is_on_one_side_or_nobody_knows_where() {
    let range = ByteRange::new(65536, 66048);
    for (host, kind, end) in [
        ("false", "2", CopyEnd::Device(range)),
        ("true", "2", CopyEnd::Host(range)),
        ("false", "1", CopyEnd::Host(range)),
        ("false", "4", CopyEnd::Unified(range)),
        ("false", "3", CopyEnd::Unknown(512)),
    ] {
        let from = r#""src_host":false,"dst":66560,"bytes":512,"src_type":2"#;
        let to = format!(r#""src_host":{host},"dst":66560,"bytes":512,"src_type":{kind}"#);
        let dump = read(from, &to);
        assert!(
            matches!(dump.nodes[1], DumpNode::Copy { from, .. } if from == end),
            "{to}"
        );
    }
    let dump = read(
        r#""src":65536,"src_host":false"#,
        r#""src":0,"src_host":true"#,
    );
    let unknown = CopyEnd::Unknown(512);
    assert!(matches!(dump.nodes[1], DumpNode::Copy { from, .. } if from == unknown));
}

/// Five values, or eight.
#[test]
fn tensors_may_say_how_their_elements_lie() {
    let old = "[65536,512,65536,512,true]";
    assert_eq!(read(old, old).operators[0].tensors[0].view, None);
    let dump = read(old, "[65536,510,65536,512,true,[16,8],[16,2],2]");
    let view = dump.operators[0].tensors[0].view.clone().expect("given");
    assert_eq!((&*view.dims, view.element), (&[(16, 32), (8, 4)][..], 2));
    for (new, says) in [
        (
            "[65536,512,65536,512,true,[16,8]]",
            "the five values of a tensor",
        ),
        (
            "[65536,512,65536,512,true,[16,8],[16,2]]",
            "the five values of a tensor",
        ),
        (
            "[65536,512,65536,512,true,[16,8],[16],2]",
            "a tensor has 2 sizes and 1 strides",
        ),
        (
            "[65536,512,65536,512,true,[16,8],[16,2],2]",
            "span 510 bytes, and 512 are announced",
        ),
        (
            "[65536,512,65536,512,true,[16,0],[16,2],2]",
            "span 0 bytes, and 512 are announced",
        ),
        (
            "[65536,512,65536,512,true,[16],[-2],2]",
            "invalid value: integer `-2`",
        ),
        (
            "[65536,512,65536,512,true,[2],[9223372036854775808],2]",
            "a stride of more than",
        ),
        (
            "[65536,512,65536,512,true,[3],[9223372036854775807],2]",
            "span more than 2^64",
        ),
    ] {
        let error = refused(old, new);
        assert!(error.contains(says), "{new}: {error}");
    }
}
