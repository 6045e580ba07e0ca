//! Random sessions against a device that is played out.
//!
//! The oracle knows nothing of edges. It has a host that makes one call after
//! the other, streams that take their work in order, events and graphs, and it
//! goes through every state that such a machine can reach: which step has been
//! called, which runs, which is over. Two steps that touch the same bytes, one of
//! them writing, are in conflict when in some state both run. That is what the
//! verifier must find from the lowered trace, no more and no less.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;
use streamweir_trace::session::{Place, Session, Step, StepKind, Use};
use streamweir_trace::{AccessMode, BufferId, ByteRange, EventId, GraphId, StepId, StreamId};
use streamweir_verify::session::mend;
use streamweir_verify::{Options, Rule, Verdict, verify_session_with};

const STREAMS: u32 = 3;
const EVENTS: u32 = 2;
const GRAPHS: u32 = 2;
const BUFFERS: u32 = 3;
const LEN: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    NotCalled,
    Called,
    Runs,
    Over,
}

type State = Vec<Phase>;

/// For each step the steps that must be over before it may run, once called.
fn waits_for(session: &Session) -> Vec<Vec<usize>> {
    let steps = &session.steps;
    let last_record = |before: usize, event: EventId| {
        steps[..before]
            .iter()
            .rposition(|s| matches!(s.kind, StepKind::Record { event: e, .. } if e == event))
    };
    (0..steps.len())
        .map(|at| {
            let mut waits: Vec<usize> = Vec::new();
            let same_stream = |other: &usize| steps[*other].stream() == steps[at].stream();
            if steps[at].stream().is_some() {
                waits.extend((0..at).filter(same_stream));
            }
            match steps[at].kind {
                StepKind::Launch { graph, .. } => waits.extend((0..at).filter(|&other| {
                    matches!(steps[other].kind, StepKind::Launch { graph: g, .. } if g == graph)
                })),
                StepKind::Wait { event, .. } | StepKind::SyncEvent { event } => {
                    waits.extend(last_record(at, event));
                }
                StepKind::SyncStream { stream } => {
                    waits.extend((0..at).filter(|&other| steps[other].stream() == Some(stream)));
                }
                StepKind::SyncDevice => {
                    waits.extend((0..at).filter(|&other| steps[other].stream().is_some()));
                }
                _ => {}
            }
            waits
        })
        .collect()
}

/// Every pair of steps that some state runs together.
fn together(session: &Session) -> BTreeSet<(usize, usize)> {
    let count = session.steps.len();
    let waits = waits_for(session);
    let on_host: Vec<bool> = session.steps.iter().map(|s| s.stream().is_none()).collect();
    let mut pairs = BTreeSet::new();
    let mut seen: HashSet<State> = HashSet::new();
    let mut open: Vec<State> = vec![vec![Phase::NotCalled; count]];
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let running: Vec<usize> = (0..count).filter(|&at| state[at] == Phase::Runs).collect();
        for (i, &a) in running.iter().enumerate() {
            pairs.extend(running[i + 1..].iter().map(|&b| (a, b)));
        }
        // The host is inside a step of its own until that is over.
        let next = state.iter().position(|&phase| phase == Phase::NotCalled);
        let busy =
            (0..count).any(|at| on_host[at] && matches!(state[at], Phase::Called | Phase::Runs));
        for at in 0..count {
            let ready = || waits[at].iter().all(|&other| state[other] == Phase::Over);
            let then = match state[at] {
                Phase::NotCalled if next == Some(at) && !busy => Phase::Called,
                Phase::Called if ready() => Phase::Runs,
                Phase::Runs => Phase::Over,
                _ => continue,
            };
            let mut after = state.clone();
            after[at] = then;
            open.push(after);
        }
    }
    pairs
}

fn bytes_of(session: &Session, step: &Step) -> Vec<(u64, AccessMode)> {
    let mut all = Vec::new();
    for used in session.uses(step) {
        let start = session.buffer(used.buffer).range.start;
        all.extend((used.bytes.start..used.bytes.end).map(|byte| (start + byte, used.mode)));
    }
    all
}

fn oracle(session: &Session) -> BTreeSet<(usize, usize)> {
    let touched: Vec<_> = session.steps.iter().map(|s| bytes_of(session, s)).collect();
    let conflict = |&(a, b): &(usize, usize)| {
        touched[a].iter().any(|&(byte, mode)| {
            touched[b]
                .iter()
                .any(|&(other, theirs)| byte == other && mode.conflicts(theirs))
        })
    };
    together(session).into_iter().filter(conflict).collect()
}

/// Which steps some other step may keep from finding what they are to read, apart
/// from what is a conflict: the source itself, which may come too late, or one
/// that writes in between in some order of the steps.
fn lost(session: &Session) -> BTreeSet<(usize, usize)> {
    let unordered = together(session);
    let apart = |a: usize, b: usize| !unordered.contains(&(a.min(b), a.max(b)));
    // Steps that never run together run in the order of their calls.
    let before = |a: usize, b: usize| a < b && apart(a, b);
    let conflicts = oracle(session);
    let conflict = |a: usize, b: usize| conflicts.contains(&(a.min(b), a.max(b)));
    let touched: Vec<_> = session.steps.iter().map(|s| bytes_of(session, s)).collect();
    let writes = |at: usize, byte: u64| touched[at].iter().any(|&(b, m)| b == byte && m.writes());
    let mut found = BTreeSet::new();
    for (reader, step) in session.steps.iter().enumerate() {
        let finds = |source: usize, by: usize| {
            let lost = |&(byte, mode): &(u64, AccessMode)| {
                mode.reads() && writes(source, byte) && writes(by, byte)
            };
            touched[reader].iter().any(lost)
        };
        for source in step.reads_from.iter().map(|source| source.index()) {
            if !before(source, reader) {
                if !conflict(source, reader) && finds(source, source) {
                    found.insert((source, reader));
                }
                continue;
            }
            for by in 0..session.steps.len() {
                let between = by != reader
                    && !before(by, source)
                    && !before(reader, by)
                    && !conflict(source, by)
                    && !conflict(by, reader);
                let meant = step.reads_from.contains(&StepId::at(by));
                if between && !meant && finds(source, by) {
                    found.insert((by, reader));
                }
            }
        }
    }
    found
}

fn mode() -> impl Strategy<Value = AccessMode> {
    use AccessMode::*;
    prop_oneof![3 => Just(Read), 3 => Just(Write), 1 => Just(ReadWrite), 3 => Just(Atomic)]
}

fn used() -> impl Strategy<Value = Use> {
    (0..BUFFERS, 0..LEN, 0..=LEN, mode()).prop_map(|(buffer, x, y, mode)| {
        Use::new(BufferId(buffer), ByteRange::new(x.min(y), x.max(y)), mode)
    })
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || (0..STREAMS).prop_map(StreamId);
    let event = || (0..EVENTS).prop_map(EventId);
    let uses = || proptest::collection::vec(used(), 1..3);
    let place = || {
        (0..BUFFERS, 0..LEN / 2).prop_map(|(buffer, at)| Place {
            buffer: BufferId(buffer),
            at,
        })
    };
    prop_oneof![
        4 => (stream(), 0..GRAPHS).prop_map(|(s, g)| Step::launch("launch", s, GraphId(g))),
        3 => (stream(), uses()).prop_map(|(s, uses)| Step::eager("eager", s, uses)),
        2 => (stream(), place(), place(), 0..=LEN / 2)
            .prop_map(|(s, from, to, bytes)| Step::copy("copy", s, from, to, bytes)),
        2 => uses().prop_map(|uses| Step::host("host", uses)),
        3 => (stream(), event()).prop_map(|(s, e)| Step::record(s, e)),
        3 => (stream(), event()).prop_map(|(s, e)| Step::wait(s, e)),
        1 => event().prop_map(Step::sync_event),
        1 => stream().prop_map(Step::sync_stream),
        1 => Just(Step::new("synchronise", StepKind::SyncDevice)),
    ]
}

prop_compose! {
    /// Up to 8 steps on three streams, over buffers that mostly collide.
    fn session()(
        starts in proptest::collection::vec(0..LEN * 2, BUFFERS as usize),
        graphs in proptest::collection::vec(proptest::collection::vec(used(), 1..3), GRAPHS as usize),
        steps in proptest::collection::vec(step(), 1..=8),
        sources in proptest::collection::vec(proptest::collection::vec(any::<prop::sample::Index>(), 0..3), 8),
    ) -> Session {
        let mut session = Session::new("random");
        for stream in 0..STREAMS {
            session.add_stream(stream.to_string());
        }
        for event in 0..EVENTS {
            session.add_event(event.to_string());
        }
        for start in starts {
            session.add_buffer("b", ByteRange::new(start, start + LEN));
        }
        for uses in graphs {
            session.add_graph("g", uses);
        }
        session.steps = steps;
        for (at, source) in sources.iter().enumerate().take(session.steps.len()).skip(1) {
            for source in source {
                session.steps[at].reads_from.push(StepId::at(source.index(at)));
                // A source that feeds nothing is no session at all.
                if session.check().is_err() {
                    session.steps[at].reads_from.pop();
                }
            }
        }
        session
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_conflicts_as_a_device_played_out(session in session()) {
        let options = Options { limit: usize::MAX, ..Options::default() };
        let report = verify_session_with(&session, &options).unwrap();
        let mut expected: Vec<_> = oracle(&session).into_iter().collect();
        expected.extend(lost(&session));
        expected.sort_unstable();
        let mut found: Vec<(usize, usize)> = report
            .hazards
            .iter()
            .map(|h| {
                let node = |site: &streamweir_verify::Site| site.node.unwrap().index();
                (node(&h.first), node(h.second.as_ref().unwrap()))
            })
            .collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(report.verdict == Verdict::Safe, report.hazards.is_empty());
        for hazard in &report.hazards {
            prop_assert!(matches!(hazard.rule, Rule::InFlight | Rule::External));
        }
    }

    /// Fixes come to an end, unless two outputs in one place are wanted at once.
    #[test]
    fn fixes_lead_to_a_safe_session(mut session in session()) {
        for round in 0.. {
            let report = verify_session_with(&session, &Options::default()).unwrap();
            let mut fixes = report.hazards.iter().filter_map(|h| mend(&session, &h.fix));
            match fixes.next() {
                Some(mended) => session = mended,
                None => {
                    prop_assert!(report.hazards.iter().all(|h| {
                        matches!(h.fix, streamweir_verify::Fix::Separate { .. })
                    }), "{}", report);
                    break;
                }
            }
            session.check().unwrap();
            prop_assert!(round < 200, "{}", report);
        }
    }
}
