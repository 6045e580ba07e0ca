//! Allocation logs and lists of lifetimes: what they become, and what is refused
//! by event or line.

use streamweir_trace::{
    AccessMode, AllocLog, BufferId, BufferKind, ByteRange, LogError, LogEvent, NodeId, StreamId,
};

fn log(events: &str) -> Result<AllocLog, LogError> {
    let text = format!(r#"{{"format":"alloc-log-1","streams":2,"origin":0,"events":[{events}]}}"#);
    AllocLog::from_json(text.as_bytes())
}

fn refusal(events: &str) -> String {
    log(events).unwrap_err().to_string()
}

const ALLOC: &str = r#"{"alloc":7,"stream":0,"bytes":100}"#;

#[test]
fn a_log_becomes_a_trace_with_its_order() {
    let log = log(&format!(
        r#"{ALLOC},{{"kernel":0,"stream":0,"reads":[],"writes":[7]}},{{"join":[0,1]}},
           {{"kernel":1,"stream":1,"reads":[7],"writes":[7]}},{{"free":7}},
           {{"kernel":2,"stream":0,"reads":[],"writes":[]}}"#
    ))
    .unwrap();
    let trace = log.to_trace("log", &[ByteRange::new(0x1000, 0x1064)]);
    trace.check().unwrap();
    // Three kernels, and one node that takes the second stream in.
    assert_eq!(trace.nodes.len(), 4);
    let edges: Vec<(u32, u32)> = trace.edges.iter().map(|e| (e.from.0, e.to.0)).collect();
    assert_eq!(edges, [(0, 1), (0, 2), (1, 3), (2, 3)]);
    let accesses: Vec<_> = trace.accesses.iter().map(|a| (a.node.0, a.mode)).collect();
    assert_eq!(
        accesses,
        [(0, AccessMode::Write), (1, AccessMode::ReadWrite)]
    );
    assert_eq!(trace.accesses[0].bytes, ByteRange::new(0, 100));
    let BufferKind::Scratch {
        stream,
        alloc,
        freed_before,
    } = &trace.buffers[0].kind
    else {
        panic!("{:?}", trace.buffers[0].kind);
    };
    assert_eq!((*stream, *freed_before), (StreamId(0), Some(NodeId(2))));
    assert_eq!((alloc.before, alloc.frontier.len()), (NodeId(0), 0));
}

#[test]
fn what_is_wrong_with_a_log_is_said_with_its_event() {
    let free = r#"{"free":7}"#;
    let using = r#"{"kernel":0,"stream":0,"reads":[7],"writes":[]}"#;
    for (events, message) in [
        (
            free.to_owned(),
            "event 0 frees buffer 7 before it is allocated",
        ),
        (
            using.to_owned(),
            "event 0 reads buffer 7 before it is allocated",
        ),
        (
            format!("{ALLOC},{free},{free}"),
            "event 2 frees buffer 7, which event 1 has freed",
        ),
        (
            format!("{ALLOC},{free},{using}"),
            "event 2 reads buffer 7, which event 1 has freed",
        ),
        (
            format!("{ALLOC},{free},{ALLOC}"),
            "event 2 allocates buffer 7, which event 0 has allocated; ids are not used again",
        ),
        (
            format!("{ALLOC},{using},{using}"),
            "event 2 is kernel 0, which has been recorded before; ids are not used again",
        ),
        (
            r#"{"join":[0,2]}"#.to_owned(),
            "event 0 names stream 2, but the log has 2 streams",
        ),
        (
            r#"{"join":[1,1]}"#.to_owned(),
            "event 0 joins stream 1 to itself",
        ),
        (
            r#"{"alloc":1,"stream":0,"bytes":18446744073709551615}"#.to_owned(),
            "event 0 need more than 2^61 bytes",
        ),
    ] {
        let found = refusal(&events);
        assert!(found.contains(message), "{found}\nis not\n{message}");
    }
    for odd in [
        r#"{"alloc":1,"stream":0}"#,
        r#"{"alloc":1,"free":1,"stream":0,"bytes":1}"#,
        r#"{"kernel":1,"stream":0,"reads":[]}"#,
        "{}",
    ] {
        let found = refusal(odd);
        assert!(found.starts_with("event 0 is none of"), "{found}");
    }
    for broken in [
        r#"{"alloc":-1,"stream":0,"bytes":1}"#,
        r#"{"fork":1}"#,
        "7",
        "{",
    ] {
        let found = refusal(broken);
        assert!(found.contains("line 1 column"), "{found}");
    }
}

#[test]
fn sizes_that_only_together_overflow_are_refused() {
    let half = 1_u64 << 60;
    let alloc = |id: u32| format!(r#"{{"alloc":{id},"stream":0,"bytes":{half}}}"#);
    assert!(log(&alloc(0)).is_ok());
    let error = log(&[alloc(0), alloc(1)].join(",")).unwrap_err();
    assert!(matches!(error, LogError::TooLarge { event: 1 }), "{error}");
}

#[test]
fn another_format_or_count_of_streams_is_named() {
    let read = |text: &str| AllocLog::from_json(text.as_bytes()).unwrap_err();
    let error = read(r#"{"format":"alloc-log-2","streams":1,"events":[]}"#);
    assert!(matches!(error, LogError::Format(_)), "{error}");
    for (streams, origin) in [(0, 0), (2, 1), (5000, 0)] {
        let error = read(&format!(
            r#"{{"format":"alloc-log-1","streams":{streams},"origin":{origin},"events":[]}}"#
        ));
        assert!(matches!(error, LogError::Streams { .. }), "{error}");
    }
}

#[test]
fn lifetimes_become_a_log_of_one_stream() {
    let log =
        AllocLog::from_csv("size,id,upper,lower\n10,a,4,0\n\n20, b ,2,1\r\n5,c,6,4\n").unwrap();
    assert_eq!(log.streams, 1);
    let sizes: Vec<_> = log
        .buffers
        .iter()
        .map(|b| (&*b.name, b.bytes, b.align))
        .collect();
    assert_eq!(
        sizes,
        [("buffer a", 10, 1), ("buffer b", 20, 1), ("buffer c", 5, 1)]
    );
    let [a, b, c] = [0, 1, 2].map(BufferId);
    let kernel = |reads: &[BufferId], writes: &[BufferId]| LogEvent::Kernel {
        stream: StreamId(0),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    };
    use LogEvent::{Alloc, Free};
    let expected = [
        Alloc(a),
        kernel(&[], &[a]), // 0
        Alloc(b),
        kernel(&[], &[b]), // 1
        Free(b),
        kernel(&[a], &[]), // 2
        Free(a),
        Alloc(c),
        kernel(&[], &[c]), // 4
        Free(c),           // 6
    ];
    assert_eq!(log.events, expected);
}

#[test]
fn what_is_wrong_with_a_list_is_said_with_its_line() {
    for (text, message) in [
        ("", "line 1: the file is empty"),
        ("id,lower,upper\n", "line 1: column \"size\" is missing"),
        (
            "id,lower,upper,size,colour\n",
            "line 1: no column is called \"colour\"",
        ),
        (
            "id,id,lower,upper,size\n",
            "line 1: column \"id\" occurs twice",
        ),
        (
            "id,lower,upper,size\n0,1,2,3\n1,5,5,3\n",
            "line 3: upper 5 is not above lower 5",
        ),
        (
            "id,lower,upper,size\n0,1,2,3\n\n0,1,2,3\n",
            "line 4: id \"0\" occurs on line 2 already",
        ),
        (
            "id,lower,upper,size\n0,1,2\n",
            "line 2: 3 values, expected 4",
        ),
        (
            "id,lower,upper,size\n0,-1,2,3\n",
            "line 2: lower is \"-1\", expected a number",
        ),
        (
            "id,lower,upper,size\n0,1,2,x\n",
            "line 2: size is \"x\", expected a number",
        ),
        (
            "id,lower,upper,size,alignment\n0,1,2,3,0\n",
            "line 2: alignment is 0",
        ),
        (
            "id,lower,upper,size\n0,1,2,18446744073709551615\n",
            "line 2: the sizes up to here need more than 2^61 bytes",
        ),
    ] {
        let found = AllocLog::from_csv(text).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}\nis not\n{message}");
    }
}

/// The example of the documentation.
#[test]
fn the_documented_log_is_one() {
    let text = include_str!("../../../docs/trace-format.md");
    let (_, section) = text.split_once("# Allocation logs").unwrap();
    let (_, example) = section.split_once("```json\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let log = AllocLog::from_json(example.as_bytes()).unwrap();
    assert_eq!((log.streams, log.buffers.len()), (2, 2));
    assert_eq!(log.events.len(), 9);
}
