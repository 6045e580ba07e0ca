//! The session file: what is written is read back, what was written once stays
//! readable, and what is wrong is refused by name.

use proptest::prelude::*;
use serde_json::{Value, json};
use streamweir_trace::session::{Place, Session, SessionError, Step, StepKind, Use};
use streamweir_trace::{
    AccessMode, BufferId, ByteRange, EventId, GraphId, SourceLine, StepId, StreamId,
};

/// Every field and every word of the format.
const COMPLETE: &str = include_str!("data/session-complete.v1.json");

/// Only the fields that a file must have.
const MINIMAL: &str = include_str!("data/session-minimal.v1.json");

fn complete() -> Session {
    let mut session = Session::new("every word");
    let main = session.add_stream("main");
    let loader = session.add_external_stream("loader");
    let event = session.add_event("loaded");
    let pinned = session.add_host_buffer("pinned", ByteRange::new(0x1000, 0x1100));
    let keys = session.add_buffer("keys", ByteRange::new(0x7f00_0000_0000, 0x7f00_0000_0200));
    let all = ByteRange::new(0, 0x100);
    let graph = session.add_graph(
        "decode",
        vec![
            Use::new(keys, all, AccessMode::Read),
            Use::new(keys, all, AccessMode::Atomic),
        ],
    );
    session.graphs[0]
        .assumptions
        .push("page ids below 4096".into());
    session.graphs[0].not_analysed.push("1 node".into());
    let fill = session.push(Step::host(
        "fill",
        vec![Use::new(pinned, all, AccessMode::Write)],
    ));
    let to = Place {
        buffer: keys,
        at: 0x80,
    };
    let mut load = Step::copy("load", loader, Place::start(pinned), to, 0x100);
    load.launch = Some(SourceLine {
        file: "src/load.rs".into(),
        line: 7,
    });
    session.push(load.reading_from(fill));
    session.push(Step::record(loader, event));
    session.push(Step::wait(main, event));
    session.push(Step::launch("decode", main, graph));
    session.push(Step::eager(
        "sample",
        main,
        vec![Use::new(keys, all, AccessMode::ReadWrite)],
    ));
    session.push(Step::sync_event(event));
    session.push(Step::sync_stream(main));
    session.push(Step::new("synchronise", StepKind::SyncDevice));
    session.assumptions.push("one host thread".into());
    session
}

#[test]
fn the_complete_file_is_written_and_read() {
    let written = complete().to_json() + "\n";
    assert_eq!(written, COMPLETE);
    assert_eq!(Session::from_json(COMPLETE.as_bytes()).unwrap(), complete());
}

#[test]
fn absent_fields_take_their_documented_values() {
    let mut minimal = Session::new("minimal");
    let stream = minimal.add_stream("s");
    let buffer = minimal.add_buffer("b", ByteRange::new(0, 8));
    let place = Place::start(buffer);
    minimal.push(Step::copy("copy", stream, place, place, 8));
    assert_eq!(Session::from_json(MINIMAL.as_bytes()).unwrap(), minimal);
}

#[test]
fn the_example_of_the_documentation_is_a_session() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/session-format.md");
    let page = std::fs::read_to_string(page).expect("docs/session-format.md");
    let (_, rest) = page.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let session = Session::from_json(example.as_bytes()).expect("valid");
    // What the text above the example says of it.
    let names: Vec<&str> = session.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(
        names,
        ["fill", "stage", "record", "decode", "synchronise", "fill"]
    );
}

/// The complete file with one change made to its session.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Session, SessionError> {
    let mut file: Value = serde_json::from_str(COMPLETE).unwrap();
    change(&mut file);
    Session::from_json(file.to_string().as_bytes())
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    use SessionError as E;
    type Change = fn(&mut Value);
    type Expected = fn(&SessionError) -> bool;
    let cases: [(&str, Change, Expected); 18] = [
        (
            "format",
            |f| f["format"] = json!("streamweir-trace"),
            |e| matches!(e, E::Format(_)),
        ),
        (
            "version",
            |f| f["version"] = json!(2),
            |e| matches!(e, E::Version { found: 2 }),
        ),
        (
            "field",
            |f| f["session"]["speed"] = json!(1),
            |e| matches!(e, E::Json(_)),
        ),
        (
            "field of a step",
            |f| f["session"]["steps"][0]["x"] = json!(1),
            |e| matches!(e, E::Json(_)),
        ),
        (
            "word",
            |f| f["session"]["steps"][8]["kind"] = json!("sync_world"),
            |e| matches!(e, E::Json(_)),
        ),
        (
            "stream",
            |f| f["session"]["steps"][2]["kind"]["record"]["stream"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "streams",
                        ..
                    }
                )
            },
        ),
        (
            "synchronised stream",
            |f| f["session"]["steps"][7]["kind"]["sync_stream"]["stream"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "streams",
                        ..
                    }
                )
            },
        ),
        (
            "event",
            |f| f["session"]["steps"][6]["kind"]["sync_event"]["event"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "events",
                        ..
                    }
                )
            },
        ),
        (
            "graph",
            |f| f["session"]["steps"][4]["kind"]["launch"]["graph"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "graphs",
                        ..
                    }
                )
            },
        ),
        (
            "buffer of a use",
            |f| f["session"]["steps"][5]["kind"]["eager"]["uses"][0]["buffer"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "buffers",
                        ..
                    }
                )
            },
        ),
        (
            "buffer of a graph",
            |f| f["session"]["graphs"][0]["uses"][0]["buffer"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "buffers",
                        ..
                    }
                )
            },
        ),
        (
            "buffer of a copy",
            |f| f["session"]["steps"][1]["kind"]["copy"]["to"]["buffer"] = json!(9),
            |e| {
                matches!(
                    e,
                    E::NoSuchEntry {
                        table: "buffers",
                        ..
                    }
                )
            },
        ),
        (
            "use past the end",
            |f| f["session"]["graphs"][0]["uses"][0]["bytes"] = json!(["0x0", "0x201"]),
            |e| matches!(e, E::OutsideBuffer { len: 0x200, .. }),
        ),
        (
            "copy past the end",
            |f| f["session"]["steps"][1]["kind"]["copy"]["bytes"] = json!(0x101),
            |e| matches!(e, E::OutsideBuffer { .. }),
        ),
        (
            "copy past all ends",
            |f| {
                let copy = &mut f["session"]["steps"][1]["kind"]["copy"];
                copy["from"]["at"] = json!(1);
                copy["bytes"] = json!(u64::MAX);
            },
            |e| matches!(e, E::PastTheEnd { at: 1, .. }),
        ),
        (
            "range",
            |f| f["session"]["buffers"][0]["range"] = json!(["0x2000", "0x1000"]),
            |e| matches!(e, E::Json(_)),
        ),
        (
            "reads from itself",
            |f| f["session"]["steps"][1]["reads_from"] = json!([1]),
            |e| {
                matches!(
                    e,
                    E::ReadsFromLater {
                        from: StepId(1),
                        ..
                    }
                )
            },
        ),
        (
            "reads from nothing",
            |f| f["session"]["steps"][4]["reads_from"] = json!([0]),
            |e| {
                matches!(
                    e,
                    E::ReadsFromNothing {
                        from: StepId(0),
                        ..
                    }
                )
            },
        ),
    ];
    for (what, change, expected) in cases {
        let error = changed(change).expect_err(what);
        assert!(expected(&error), "{what}: {error:?}");
    }
}

/// A short file that asks for more than fits.
#[test]
fn launches_that_multiply_are_refused() {
    let mut session = Session::new("many");
    let stream = session.add_stream("s");
    let buffer = session.add_buffer("b", ByteRange::new(0, 8));
    let graph = session.add_graph("g", vec![Use::all(buffer, 8, AccessMode::Read); 5000]);
    for _ in 0..5000 {
        session.push(Step::launch("g", stream, graph));
    }
    assert!(matches!(session.check(), Err(SessionError::TooLarge)));
    session.steps.truncate(800);
    session.check().unwrap();
}

#[test]
fn ranges_made_by_hand_are_looked_at() {
    let mut session = complete();
    session.buffers[0].range.end = 0;
    assert!(matches!(
        session.check(),
        Err(SessionError::InvertedRange { .. })
    ));
    let mut session = complete();
    session.graphs[0].uses[0].bytes.start = 0x101;
    assert!(matches!(
        session.check(),
        Err(SessionError::InvertedRange { .. })
    ));
}

/// A source is judged by address: it may have written through another buffer.
#[test]
fn sources_are_judged_by_address() {
    for (start, feeds) in [(4, true), (8, false)] {
        let mut session = Session::new("views");
        let stream = session.add_stream("s");
        let a = session.add_buffer("a", ByteRange::new(0, 8));
        let b = session.add_buffer("b", ByteRange::new(start, start + 8));
        let write = session.push(Step::eager(
            "w",
            stream,
            vec![Use::all(a, 8, AccessMode::Write)],
        ));
        let read = Step::eager("r", stream, vec![Use::all(b, 8, AccessMode::Read)]);
        session.push(read.reading_from(write));
        assert_eq!(session.check().is_ok(), feeds);
    }
}

fn kind() -> impl Strategy<Value = StepKind> {
    let stream = || (0..2_u32).prop_map(StreamId);
    let event = || Just(EventId(0));
    let used = (0..2_u32, 0..=8_u64, 0..=8_u64).prop_map(|(buffer, x, y)| {
        let bytes = ByteRange::new(x.min(y), x.max(y));
        Use::new(BufferId(buffer), bytes, AccessMode::ReadWrite)
    });
    let uses = proptest::collection::vec(used, 0..3);
    let place = || {
        (0..2_u32, 0..=4_u64).prop_map(|(buffer, at)| Place {
            buffer: BufferId(buffer),
            at,
        })
    };
    prop_oneof![
        stream().prop_map(|stream| StepKind::Launch {
            stream,
            graph: GraphId(0)
        }),
        (stream(), uses.clone()).prop_map(|(stream, uses)| StepKind::Eager { stream, uses }),
        (stream(), place(), place(), 0..=4_u64).prop_map(|(stream, from, to, bytes)| {
            StepKind::Copy {
                stream,
                from,
                to,
                bytes,
            }
        }),
        uses.prop_map(|uses| StepKind::Host { uses }),
        (stream(), event()).prop_map(|(stream, event)| StepKind::Record { stream, event }),
        (stream(), event()).prop_map(|(stream, event)| StepKind::Wait { stream, event }),
        event().prop_map(|event| StepKind::SyncEvent { event }),
        stream().prop_map(|stream| StepKind::SyncStream { stream }),
        Just(StepKind::SyncDevice),
    ]
}

proptest! {
    #[test]
    fn a_session_is_read_back_as_it_was(
        kinds in proptest::collection::vec((kind(), ".{0,6}"), 0..10),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut session = Session::new("random");
        session.add_stream("a");
        session.add_stream("b");
        session.add_event("e");
        session.add_buffer("x", ByteRange::new(u64::MAX - 8, u64::MAX));
        session.add_host_buffer("y", ByteRange::new(0, 8));
        session.add_graph("g", vec![Use::all(BufferId(0), 8, AccessMode::Write)]);
        session.steps = kinds.into_iter().map(|(kind, name)| Step::new(name, kind)).collect();
        session.check()?;
        let text = session.to_json();
        prop_assert_eq!(&Session::from_json(text.as_bytes())?, &session);
        // A file that lost its end is never read as a shorter session.
        let kept = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(Session::from_json(kept).is_err());
    }
}
