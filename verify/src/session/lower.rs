//! From a session to a trace: one node for each step, at the same position, and
//! an edge for each order that CUDA promises.
//!
//! | order | edge into a step from |
//! | --- | --- |
//! | a call is made after what the host did before it | the last step of the host |
//! | work of a stream runs in order | the last step of its stream |
//! | a launch follows the earlier ones of its executable graph | the last launch of the graph |
//! | a wait or a synchronisation with an event | the last record of the event |
//! | a synchronisation with a stream, or with the device | the last step of the stream, of each stream |
//!
//! Steps of the host are one chain, and all edges point forward in the order of
//! the steps, so the graph has no cycle.

use streamweir_trace::session::{Session, Step, StepKind};
use streamweir_trace::{
    Access, Edge, Node, NodeId, NodeKind, Stream, StreamId, Trace, session::SessionError,
};

use super::regions::Regions;

/// The session as a trace: node `n` is step `n`, stream 0 is the host and stream
/// `s + 1` is stream `s` of the session. Its buffers are stretches of memory
/// that steps touch, not the session's buffers: at this level two owners of the
/// same bytes may take turns as often as they like.
///
/// # Errors
/// When [`Session::check`] refuses the session.
pub fn lower(session: &Session) -> Result<Trace, SessionError> {
    session.check()?;
    let mut trace = Trace::new(session.name.clone());
    let host = trace.add_stream(Stream::origin("host"));
    for stream in &session.streams {
        let mut stream = Stream::forked(&stream.name, host);
        // A stream of a session never has to be joined.
        stream.end.joined = true;
        trace.add_stream(stream);
    }
    let regions = Regions::new(session);
    regions.add_to(&mut trace);
    let mut order = Order::new(session);
    for step in &session.steps {
        let node = add_node(&mut trace, step);
        order.follow(&mut trace, node, step);
        for used in session.uses(step) {
            if let Some((region, bytes)) = regions.locate(session, &used) {
                trace.add_access(Access::new(node, region, bytes, used.mode));
            }
        }
    }
    // Nothing has to be joined: whatever is last is where the session ends.
    let mut last = vec![true; trace.nodes.len()];
    trace
        .edges
        .iter()
        .for_each(|edge| last[edge.from.index()] = false);
    let last = (0..last.len()).filter(|&at| last[at]);
    trace.streams[host.index()].end.frontier = last.map(NodeId::at).collect();
    trace.assumptions = session.assumptions.clone();
    for graph in &session.graphs {
        let lines = graph.assumptions.iter();
        let named = lines.map(|line| format!("graph \"{}\": {line}", graph.name));
        trace.assumptions.extend(named);
    }
    Ok(trace)
}

fn add_node(trace: &mut Trace, step: &Step) -> NodeId {
    let kind = match step.kind {
        StepKind::Launch { .. } | StepKind::Eager { .. } => NodeKind::kernel(),
        StepKind::Copy { .. } => NodeKind::memcpy(),
        StepKind::Record { .. } => NodeKind::EventRecord,
        StepKind::Wait { .. } => NodeKind::EventWait,
        StepKind::Host { .. }
        | StepKind::SyncEvent { .. }
        | StepKind::SyncStream { .. }
        | StepKind::SyncDevice => NodeKind::Empty,
    };
    let stream = step.stream().map_or(0, |stream| stream.0 + 1);
    let mut node = Node::new(kind, step.name.clone()).on(StreamId(stream));
    node.launch = step.launch.clone();
    trace.add_node(node)
}

/// Who came last, as far as the steps have been gone through.
struct Order {
    host: Option<NodeId>,
    /// By stream; `None` also when the host has waited for the stream since, so
    /// that its own last step says all.
    streams: Vec<Option<NodeId>>,
    graphs: Vec<Option<NodeId>>,
    records: Vec<Option<NodeId>>,
}

impl Order {
    fn new(session: &Session) -> Self {
        Self {
            host: None,
            streams: vec![None; session.streams.len()],
            graphs: vec![None; session.graphs.len()],
            records: vec![None; session.events.len()],
        }
    }

    /// Adds the edges into `node`, which is `step`, and takes note of it.
    fn follow(&mut self, trace: &mut Trace, node: NodeId, step: &Step) {
        let mut edge = |from: Option<NodeId>| {
            if let Some(from) = from {
                trace.add_edge(Edge::full(from, node));
            }
        };
        edge(self.host);
        if let Some(stream) = step.stream() {
            edge(self.streams[stream.index()].replace(node));
        } else {
            self.host = Some(node);
        }
        match step.kind {
            StepKind::Launch { graph, .. } => edge(self.graphs[graph.index()].replace(node)),
            StepKind::Record { event, .. } => self.records[event.index()] = Some(node),
            StepKind::Wait { event, .. } | StepKind::SyncEvent { event } => {
                edge(self.records[event.index()]);
            }
            StepKind::SyncStream { stream } => edge(self.streams[stream.index()].take()),
            StepKind::SyncDevice => {
                self.streams.iter_mut().for_each(|last| edge(last.take()));
            }
            StepKind::Eager { .. } | StepKind::Copy { .. } | StepKind::Host { .. } => {}
        }
    }
}
