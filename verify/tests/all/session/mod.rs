//! Sessions: each way to hand bytes over wrongly, and its nearest safe twin.

mod external;
mod fixes;
mod in_flight;
mod steps;

use streamweir_trace::session::{Place, Session, Step, Use};
use streamweir_trace::{AccessMode, BufferId, ByteRange, EventId, GraphId, StepId, StreamId};
use streamweir_verify::session::mend;
use streamweir_verify::{Hazard, Report, Verdict, verify_session};

const LEN: u64 = 64;

/// A session on three streams, with buffers of [`LEN`] bytes.
pub(crate) struct Rig {
    pub(crate) session: Session,
    next: u64,
}

pub(crate) const ONE: StreamId = StreamId(0);
pub(crate) const TWO: StreamId = StreamId(1);
pub(crate) const THREE: StreamId = StreamId(2);

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

    pub(crate) fn buffer(&mut self, name: &str) -> BufferId {
        let range = ByteRange::from_len(self.next, LEN).unwrap();
        self.next += LEN;
        self.session.add_buffer(name, range)
    }

    pub(crate) fn host_buffer(&mut self, name: &str) -> BufferId {
        let id = self.buffer(name);
        self.session.buffers[id.index()].host = true;
        id
    }

    pub(crate) fn graph(&mut self, name: &str, uses: &[(AccessMode, BufferId)]) -> GraphId {
        let uses = uses
            .iter()
            .map(|&(mode, buffer)| Use::all(buffer, LEN, mode));
        self.session.add_graph(name, uses.collect())
    }

    pub(crate) fn launch(&mut self, stream: StreamId, graph: GraphId) -> StepId {
        let name = self.session.graphs[graph.index()].name.clone();
        self.session.push(Step::launch(name, stream, graph))
    }

    pub(crate) fn eager(
        &mut self,
        stream: StreamId,
        name: &str,
        uses: &[(AccessMode, BufferId)],
    ) -> StepId {
        let uses = uses
            .iter()
            .map(|&(mode, buffer)| Use::all(buffer, LEN, mode));
        self.session.push(Step::eager(name, stream, uses.collect()))
    }

    pub(crate) fn copy(
        &mut self,
        stream: StreamId,
        name: &str,
        from: BufferId,
        to: BufferId,
    ) -> StepId {
        let (from, to) = (Place::start(from), Place::start(to));
        self.session.push(Step::copy(name, stream, from, to, LEN))
    }

    pub(crate) fn host(&mut self, name: &str, mode: AccessMode, buffer: BufferId) -> StepId {
        self.session
            .push(Step::host(name, vec![Use::all(buffer, LEN, mode)]))
    }

    /// Records an event on `from` and makes `into` wait for it.
    pub(crate) fn order(&mut self, from: StreamId, into: StreamId) {
        let event = self.record(from);
        self.session.push(Step::wait(into, event));
    }

    pub(crate) fn record(&mut self, stream: StreamId) -> EventId {
        let event = self.session.add_event("event");
        self.session.push(Step::record(stream, event));
        event
    }

    pub(crate) fn reads_from(&mut self, step: StepId, source: StepId) {
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
