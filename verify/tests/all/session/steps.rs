//! What a session is made of: graphs with their memory, events, the list of
//! hazards, and what is no session.

use streamweir_trace::UnknownAccess;
use streamweir_trace::session::SessionError;
use streamweir_verify::session::{add_graph, lower};
use streamweir_verify::{Options, Rule, VerifyError, verify_session_with};

use super::*;
use crate::build::{Capture, MAIN, Read, Write};

/// A graph enters with all its memory, whatever it is called.
#[test]
fn a_graph_enters_as_its_intervals() {
    let mut cap = Capture::new();
    let x = cap.persistent("x", 0x1000, 64);
    let a = cap.scratch(MAIN, "a", 0x8000, 64);
    let write = cap.node(MAIN, "write a");
    let read = cap.node(MAIN, "read a");
    cap.part(write, Read, x, 0, 16);
    cap.part(write, Read, x, 16, 32);
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    cap.trace.name = "decode".into();
    cap.trace.assumptions.push("page ids below 4096".into());
    cap.trace.nodes[0].analysed = false;
    let trace = cap.end();

    let mut session = Session::new("test");
    let [one, two] = ["one", "two"].map(|name| session.add_stream(name));
    let graph = add_graph(&mut session, &trace).unwrap();
    let other = add_graph(&mut session, &trace).unwrap();
    assert_eq!(session.buffers.len(), 2, "known buffers are used again");
    let uses = &session.graphs[graph.index()].uses;
    let read_x = uses.iter().filter(|u| session.buffer(u.buffer).name == "x");
    let read_x: Vec<_> = read_x.collect();
    assert_eq!(read_x.len(), 1, "{uses:?}");
    assert_eq!(read_x[0].bytes, ByteRange::new(0, 32));
    session.push(Step::launch("decode", one, graph));
    session.push(Step::launch("decode again", two, other));
    let report = verify_session(&session).unwrap();
    assert_eq!(report.hazards_total, 1);
    assert_eq!(report.hazards[0].buffers[0].name, "a");
    assert_eq!(report.hazards[0].rule, Rule::InFlight);
    assert_eq!(
        report.assumptions,
        ["graph \"decode\": page ids below 4096"; 2]
    );
    assert_eq!(report.not_analysed.len(), 2);
    assert!(report.not_analysed[0].starts_with("graph \"decode\": 1 node not analysed"));
}

#[test]
fn lowering_keeps_the_steps() {
    let mut rig = Rig::new();
    let x = rig.buffer("x");
    let g = rig.graph("G", &[(Write, x)]);
    rig.launch(ONE, g);
    rig.order(ONE, TWO);
    rig.host("read", Read, x);
    let trace = lower(&rig.session).unwrap();
    assert_eq!(trace.nodes.len(), rig.session.steps.len());
    trace.check().unwrap();
}

/// An event that was recorded again since is waited for as it is now; one that
/// never was holds nobody.
#[test]
fn events_are_taken_at_the_call() {
    for (first, ok) in [(true, false), (false, true)] {
        let mut rig = Rig::new();
        let x = rig.buffer("x");
        let event = rig.session.add_event("event");
        rig.session.push(Step::wait(TWO, event));
        rig.eager(ONE, "write", &[(Write, x)]);
        rig.session.push(Step::record(ONE, event));
        if first {
            // Recorded again elsewhere before the wait is called.
            rig.session.push(Step::record(THREE, event));
        }
        rig.session.push(Step::wait(TWO, event));
        if !first {
            rig.session.push(Step::record(THREE, event));
        }
        rig.eager(TWO, "read", &[(Read, x)]);
        let verdict = verify_session(&rig.session).unwrap().verdict;
        assert_eq!(verdict == Verdict::Safe, ok);
    }
}

#[test]
fn the_list_is_capped_and_the_count_is_not() {
    let mut rig = Rig::new();
    let x = rig.buffer("x");
    for _ in 0..4 {
        rig.eager(ONE, "write", &[(Write, x)]);
        rig.eager(TWO, "write", &[(Write, x)]);
    }
    let options = Options {
        limit: 3,
        ..Options::default()
    };
    let report = verify_session_with(&rig.session, &options).unwrap();
    assert_eq!((report.hazards.len(), report.hazards_total), (3, 16));
}

#[test]
fn a_session_that_does_not_fit_together_is_an_error() {
    let mut rig = Rig::new();
    rig.session.push(Step::launch("nothing", ONE, GraphId(7)));
    assert!(matches!(
        verify_session(&rig.session),
        Err(VerifyError::Session(SessionError::NoSuchEntry { .. }))
    ));
}

/// What a graph touches outside of all its buffers meets the work around it like
/// everything else.
#[test]
fn a_graph_enters_with_its_unknown_accesses() {
    for (mode, conflict) in [(Read, false), (Write, true)] {
        let mut cap = Capture::new();
        let node = cap.node(MAIN, "foreign");
        let range = ByteRange::new(0x7000, 0x7040);
        cap.trace.unknown.push(UnknownAccess { node, range, mode });
        cap.trace.name = "decode".into();
        let trace = cap.end();

        let mut session = Session::new("test");
        let [one, two] = ["one", "two"].map(|name| session.add_stream(name));
        let graph = add_graph(&mut session, &trace).unwrap();
        assert_eq!(
            session.graphs[graph.index()].uses,
            [Use::all(BufferId(0), 0x40, mode)]
        );
        let table = session.add_buffer("table", ByteRange::new(0x7020, 0x7030));
        session.push(Step::launch("decode", one, graph));
        session.push(Step::eager(
            "look up",
            two,
            vec![Use::all(table, 0x10, Read)],
        ));
        let report = verify_session(&session).unwrap();
        assert_eq!(report.verdict == Verdict::Hazard, conflict, "{report}");
        assert_eq!(report.hazards_total, u64::from(conflict));
    }
}
