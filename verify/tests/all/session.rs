//! Sessions: each way to hand bytes over wrongly, and its nearest safe twin.

use streamweir_trace::session::{Place, Session, SessionError, Step, Use};
use streamweir_trace::{AccessMode, BufferId, ByteRange, EventId, GraphId, StepId, StreamId};
use streamweir_verify::session::{add_graph, lower, mend};
use streamweir_verify::{
    Fix, Hazard, Options, Report, Rule, Verdict, VerifyError, verify_session, verify_session_with,
};

use crate::build::{Capture, MAIN, Read, ReadWrite, Write};

const LEN: u64 = 64;

/// A session on three streams, with buffers of [`LEN`] bytes.
pub(crate) struct Rig {
    pub(crate) session: Session,
    next: u64,
}

const ONE: StreamId = StreamId(0);
const TWO: StreamId = StreamId(1);
const THREE: StreamId = StreamId(2);

impl Rig {
    pub(crate) fn new() -> Self {
        let mut session = Session::new("test");
        for name in ["one", "two", "three"] {
            session.add_stream(name);
        }
        Self {
            session,
            next: 0x1000,
        }
    }

    fn buffer(&mut self, name: &str) -> BufferId {
        let range = ByteRange::from_len(self.next, LEN).unwrap();
        self.next += LEN;
        self.session.add_buffer(name, range)
    }

    fn host_buffer(&mut self, name: &str) -> BufferId {
        let id = self.buffer(name);
        self.session.buffers[id.index()].host = true;
        id
    }

    fn graph(&mut self, name: &str, uses: &[(AccessMode, BufferId)]) -> GraphId {
        let uses = uses
            .iter()
            .map(|&(mode, buffer)| Use::all(buffer, LEN, mode));
        self.session.add_graph(name, uses.collect())
    }

    fn launch(&mut self, stream: StreamId, graph: GraphId) -> StepId {
        let name = self.session.graphs[graph.index()].name.clone();
        self.session.push(Step::launch(name, stream, graph))
    }

    fn eager(&mut self, stream: StreamId, name: &str, uses: &[(AccessMode, BufferId)]) -> StepId {
        let uses = uses
            .iter()
            .map(|&(mode, buffer)| Use::all(buffer, LEN, mode));
        self.session.push(Step::eager(name, stream, uses.collect()))
    }

    fn copy(&mut self, stream: StreamId, name: &str, from: BufferId, to: BufferId) -> StepId {
        let (from, to) = (Place::start(from), Place::start(to));
        self.session.push(Step::copy(name, stream, from, to, LEN))
    }

    fn host(&mut self, name: &str, mode: AccessMode, buffer: BufferId) -> StepId {
        self.session
            .push(Step::host(name, vec![Use::all(buffer, LEN, mode)]))
    }

    /// Records an event on `from` and makes `into` wait for it.
    fn order(&mut self, from: StreamId, into: StreamId) {
        let event = self.record(from);
        self.session.push(Step::wait(into, event));
    }

    fn record(&mut self, stream: StreamId) -> EventId {
        let event = self.session.add_event("event");
        self.session.push(Step::record(stream, event));
        event
    }

    fn reads_from(&mut self, step: StepId, source: StepId) {
        self.session.steps[step.index()].reads_from.push(source);
    }
}

#[track_caller]
fn safe(session: &Session) -> Report {
    let report = verify_session(session).unwrap();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert_eq!(report.hazards_total, 0);
    report
}

/// The one hazard of a session, whose fixes lead to a safe one.
#[track_caller]
fn only(session: &Session) -> Hazard {
    let report = verify_session(session).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard);
    assert_eq!(report.hazards_total, 1, "{report}");
    mended(session);
    report.hazards[0].clone()
}

/// The session after the first fix of each verdict in turn.
#[track_caller]
pub(crate) fn mended(session: &Session) -> Session {
    let mut session = session.clone();
    for _ in 0..64 {
        let report = verify_session(&session).unwrap();
        let Some(hazard) = report.hazards.first() else {
            return session;
        };
        session = mend(&session, &hazard.fix).unwrap_or_else(|| panic!("no fix:\n{hazard}"));
        session.check().unwrap();
    }
    panic!("fixes do not end: {}", verify_session(&session).unwrap());
}

fn steps(hazard: &Hazard) -> (u32, u32) {
    let node = |site: &streamweir_verify::Site| site.node.unwrap().0;
    (node(&hazard.first), node(hazard.second.as_ref().unwrap()))
}

/// one: A: W x ; two: B: R x.
#[test]
fn r5_two_graphs() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let x = rig.buffer("x");
        let a = rig.graph("A", &[(Write, x)]);
        let b = rig.graph("B", &[(Read, x)]);
        rig.launch(ONE, a);
        if ordered {
            rig.order(ONE, TWO);
        }
        rig.launch(TWO, b);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(steps(&hazard), (0, 1));
        assert_eq!(hazard.bytes, ByteRange::new(0x1000, 0x1040));
        assert_eq!(hazard.buffers[0].name, "x");
        assert_eq!(hazard.first.stream.as_deref(), Some("one"));
        assert!(hazard.what.contains("two graphs"), "{hazard}");
        assert!(
            hazard.help.contains(
                "record an event on stream \"one\" behind n0 `A`, and let stream \"two\" wait"
            ),
            "{}",
            hazard.help
        );
    }
}

/// A wait on a third stream is no wait on the one that matters, and an event
/// recorded too early is none for what comes behind it.
#[test]
fn r5_a_wait_in_the_wrong_place() {
    for (into, early) in [(THREE, false), (TWO, true)] {
        let mut rig = Rig::new();
        let x = rig.buffer("x");
        let a = rig.graph("A", &[(Write, x)]);
        let b = rig.graph("B", &[(Read, x)]);
        if early {
            rig.order(ONE, into);
        }
        rig.launch(ONE, a);
        if !early {
            rig.order(ONE, into);
        }
        rig.launch(TWO, b);
        assert_eq!(only(&rig.session).rule, Rule::InFlight);
    }
}

/// Two instantiations of one capture share their arena; launches of one of them
/// never overlap.
#[test]
fn r5_one_replay_group() {
    for one_exec in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let a = rig.graph("batch 1", &[(ReadWrite, arena)]);
        let b = rig.graph("batch 2", &[(ReadWrite, arena)]);
        rig.launch(ONE, a);
        rig.launch(TWO, if one_exec { a } else { b });
        if one_exec {
            safe(&rig.session);
        } else {
            assert_eq!(only(&rig.session).rule, Rule::InFlight);
        }
    }
}

/// An arena is no reason to keep two graphs apart: bytes are.
#[test]
fn r5_disjoint_bytes_of_one_arena() {
    for meet in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let middle = if meet { 33 } else { 32 };
        let low = Use::new(arena, ByteRange::new(0, middle), ReadWrite);
        let high = Use::new(arena, ByteRange::new(32, 64), ReadWrite);
        let a = rig.session.add_graph("A", vec![low]);
        let b = rig.session.add_graph("B", vec![high]);
        rig.launch(ONE, a);
        rig.launch(TWO, b);
        if meet {
            assert_eq!(only(&rig.session).bytes, ByteRange::new(0x1020, 0x1021));
        } else {
            safe(&rig.session);
        }
    }
}

/// Eager scratch that an allocator took from inside a graph's arena, under
/// another name.
#[test]
fn r5_eager_scratch_inside_an_arena() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let start = rig.session.buffer(arena).range.start;
        let inside = ByteRange::new(start + 16, start + 24);
        let scratch = rig.session.add_buffer("eager scratch", inside);
        let a = rig.graph("A", &[(ReadWrite, arena)]);
        rig.launch(ONE, a);
        if waits {
            rig.session.push(Step::sync_stream(ONE));
        }
        let uses = vec![Use::all(scratch, 8, Write)];
        rig.session.push(Step::eager("sample", TWO, uses));
        // Turns are fine, in both directions and as often as one likes.
        rig.order(TWO, ONE);
        rig.launch(ONE, a);
        if waits {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(hazard.bytes, inside);
        let names: Vec<&str> = hazard.buffers.iter().map(|b| &*b.name).collect();
        assert_eq!(names, ["arena", "eager scratch"]);
    }
}

#[test]
fn r5_eager_work_on_two_streams() {
    let mut rig = Rig::new();
    let x = rig.buffer("x");
    rig.eager(ONE, "write", &[(Write, x)]);
    rig.eager(TWO, "read", &[(Read, x)]);
    let hazard = only(&rig.session);
    assert_eq!(hazard.rule, Rule::InFlight);
    assert!(hazard.what.contains("eager work"), "{hazard}");
}

/// one: A: W out, A: W out, K: R out, which is to find the first A's.
#[test]
fn r5_a_replay_overwrites_a_live_output() {
    for (in_time, said) in [(false, true), (true, true), (false, false)] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let a = rig.graph("A", &[(Write, out)]);
        let first = rig.launch(ONE, a);
        let reader = |rig: &mut Rig| {
            let reader = rig.eager(ONE, "sample", &[(Read, out)]);
            if said {
                rig.reads_from(reader, first);
            }
        };
        if in_time {
            reader(&mut rig);
        }
        rig.launch(ONE, a);
        if !in_time {
            reader(&mut rig);
        }
        if in_time || !said {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(steps(&hazard), (1, 2));
        assert_eq!(hazard.first.access, Some(Write));
        assert_eq!(hazard.second.as_ref().unwrap().access, Some(Read));
        assert_eq!(hazard.bytes, ByteRange::new(0x1000, 0x1040));
        let fix = Fix::ReadEarlier {
            reader: streamweir_trace::NodeId(2),
            before: streamweir_trace::NodeId(1),
        };
        assert_eq!(hazard.fix, fix);
        assert_eq!(mended(&rig.session).steps[1].name, "sample");
    }
}

/// A reader of two outputs in one place cannot have both, wherever it stands.
#[test]
fn r5_two_outputs_in_one_place() {
    let mut rig = Rig::new();
    let out = rig.buffer("out");
    let a = rig.graph("A", &[(Write, out)]);
    let first = rig.launch(ONE, a);
    rig.eager(ONE, "spoil", &[(Write, out)]);
    let second = rig.launch(ONE, a);
    let reader = rig.eager(ONE, "both", &[(Read, out)]);
    rig.reads_from(reader, first);
    rig.reads_from(reader, second);
    let report = verify_session(&rig.session).unwrap();
    assert_eq!(report.hazards_total, 1, "{report}");
    assert_eq!(report.hazards[0].fix, Fix::Separate { buffer: out });
    assert!(mend(&rig.session, &report.hazards[0].fix).is_none());
}

/// loader: W keys ; one: G: R keys.
#[test]
fn r12_a_load_that_is_not_waited_for() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let keys = rig.buffer("keys");
        let loader = rig.session.add_external_stream("loader");
        let g = rig.graph("G", &[(Read, keys)]);
        rig.eager(loader, "load layer 3", &[(Write, keys)]);
        // On the wrong stream it is no wait.
        rig.order(loader, if ordered { ONE } else { TWO });
        rig.launch(ONE, g);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        assert_eq!(
            hazard.what,
            "`G` reads \"keys\" without waiting for `load layer 3`, which fills it"
        );
    }
}

/// The next batch is staged into the input while the graph may still read it.
#[test]
fn r12_an_input_overwritten_too_early() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let staged = rig.host_buffer("staged");
        let tokens = rig.buffer("tokens");
        let g = rig.graph("G", &[(Read, tokens)]);
        rig.copy(TWO, "stage 1", staged, tokens);
        rig.order(TWO, ONE);
        rig.launch(ONE, g);
        if ordered {
            rig.order(ONE, TWO);
        }
        rig.copy(TWO, "stage 2", staged, tokens);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        assert_eq!(
            hazard.what,
            "`stage 2` fills \"tokens\" again while `G` may still read it"
        );
    }
}

/// The output is copied away on a stream of its own: copied too early, and
/// overwritten by the next replay while it is copied.
#[test]
fn r12_an_output_that_is_copied_away() {
    for (before, after) in [(true, true), (false, true), (true, false)] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let host = rig.host_buffer("host");
        let g = rig.graph("G", &[(Write, out)]);
        rig.launch(ONE, g);
        if before {
            rig.order(ONE, TWO);
        }
        rig.copy(TWO, "fetch", out, host);
        if after {
            rig.order(TWO, ONE);
        }
        rig.launch(ONE, g);
        if before && after {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        let what = if before {
            "`G` overwrites \"out\" while `fetch` may still read it"
        } else {
            "`fetch` takes \"out\" away without waiting for `G`, which writes it"
        };
        assert_eq!(hazard.what, what);
    }
}

/// The host reads what a copy brings it, with and without waiting.
#[test]
fn r12_the_host_waits() {
    enum By {
        Nothing,
        Event,
        EventOfAnother,
        Stream,
        Device,
    }
    for (by, ok) in [
        (By::Nothing, false),
        (By::Event, true),
        (By::EventOfAnother, false),
        (By::Stream, true),
        (By::Device, true),
    ] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let host = rig.host_buffer("host");
        let g = rig.graph("G", &[(Write, out)]);
        rig.launch(ONE, g);
        let early = rig.record(ONE);
        rig.copy(ONE, "fetch", out, host);
        let event = rig.record(ONE);
        let sync = match by {
            By::Nothing => None,
            By::Event => Some(Step::sync_event(event)),
            By::EventOfAnother => Some(Step::sync_event(early)),
            By::Stream => Some(Step::sync_stream(ONE)),
            By::Device => Some(Step::new(
                "synchronise",
                streamweir_trace::session::StepKind::SyncDevice,
            )),
        };
        rig.session.steps.extend(sync);
        rig.host("read", Read, host);
        // And what comes behind on another stream is behind the host.
        rig.eager(TWO, "reuse", &[(Write, out)]);
        if ok {
            safe(&rig.session);
            continue;
        }
        let report = verify_session(&rig.session).unwrap();
        let external = report.hazards.iter().filter(|h| h.rule == Rule::External);
        let external: Vec<&Hazard> = external.collect();
        assert_eq!(external.len(), 2, "{report}");
        let host = external[0];
        assert_eq!(host.second.as_ref().unwrap().name, "read");
        assert!(host.help.contains("let the host wait for it"), "{host}");
        mended(&rig.session);
    }
}

/// A ring of pinned staging buffers: the host waits for the copy that read the
/// one it takes, two batches later, or does not.
#[test]
fn r12_a_ring_of_staging_buffers() {
    for (waits, slots) in [(true, 2), (false, 2), (true, 3), (false, 3)] {
        let mut rig = Rig::new();
        let ring: Vec<_> = (0..slots).map(|_| rig.host_buffer("slot")).collect();
        let tokens = rig.buffer("tokens");
        let g = rig.graph("G", &[(Read, tokens)]);
        let mut copied: Vec<Option<EventId>> = vec![None; slots];
        for batch in 0..6 {
            let slot = batch % slots;
            if waits && let Some(event) = copied[slot] {
                rig.session.push(Step::sync_event(event));
            }
            let filled = rig.host("fill", Write, ring[slot]);
            let copy = rig.copy(ONE, "stage", ring[slot], tokens);
            rig.reads_from(copy, filled);
            copied[slot] = Some(rig.record(ONE));
            rig.launch(ONE, g);
        }
        if waits {
            safe(&rig.session);
            continue;
        }
        let report = verify_session(&rig.session).unwrap();
        assert_eq!(report.hazards_total as usize, pairs_of_one_slot(6, slots));
        assert!(report.hazards.iter().all(|h| h.rule == Rule::External));
        let first = &report.hazards[0];
        assert_eq!(
            (&*first.first.name, &*first.second.as_ref().unwrap().name),
            ("stage", "fill")
        );
        mended(&rig.session);
    }
}

/// Each copy and each later fill of its slot.
fn pairs_of_one_slot(batches: usize, slots: usize) -> usize {
    (0..batches)
        .map(|copy| {
            (copy + 1..batches)
                .filter(|fill| fill % slots == copy % slots)
                .count()
        })
        .sum()
}

/// The fill is ordered between an earlier fill and the copy that is to read it:
/// nothing races, and the batch is lost.
#[test]
fn r12_a_batch_filled_over() {
    let mut rig = Rig::new();
    let staged = rig.host_buffer("staged");
    let tokens = rig.buffer("tokens");
    let first = rig.host("fill 1", Write, staged);
    rig.host("fill 2", Write, staged);
    let copy = rig.copy(ONE, "stage 1", staged, tokens);
    rig.reads_from(copy, first);
    let hazard = only(&rig.session);
    assert_eq!(hazard.rule, Rule::External);
    assert_eq!(
        hazard.what,
        "n1 `fill 2` overwrites \"staged\" before n2 `stage 1` has read there what n0 `fill 1` wrote"
    );
}

/// An order between a reader and what spoils its input would make the loss
/// certain: the fix is another one.
#[test]
fn a_fix_does_not_make_a_loss_certain() {
    let mut rig = Rig::new();
    let out = rig.buffer("out");
    let host = rig.host_buffer("host");
    let g = rig.graph("G", &[(Write, out)]);
    let first = rig.launch(ONE, g);
    rig.order(ONE, TWO);
    rig.launch(ONE, g);
    let fetch = rig.copy(TWO, "fetch", out, host);
    rig.reads_from(fetch, first);
    let hazard = only(&rig.session);
    assert!(matches!(hazard.fix, Fix::ReadEarlier { .. }), "{hazard}");
}

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

/// A reader that also takes what came in between cannot be moved in front of it,
/// nor one whose own output would meet other work.
#[test]
fn a_reader_is_moved_only_where_nothing_notices() {
    for (also_reads, writes_over, moves) in [
        (false, false, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let y = rig.buffer("y");
        let a = rig.graph("A", &[(Write, out)]);
        let first = rig.launch(ONE, a);
        rig.launch(ONE, a);
        rig.eager(ONE, "mid", &[(Write, y)]);
        let mut uses = vec![(Read, out)];
        if also_reads {
            uses.push((Read, y));
        }
        if writes_over {
            uses.push((Write, y));
        }
        let reader = rig.eager(ONE, "reader", &uses);
        rig.reads_from(reader, first);
        let report = verify_session(&rig.session).unwrap();
        assert_eq!(report.hazards_total, 1, "{report}");
        let fix = &report.hazards[0].fix;
        assert_eq!(matches!(fix, Fix::ReadEarlier { .. }), moves, "{fix:?}");
    }
}
