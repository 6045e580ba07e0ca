//! Small captures, written the way an engine would record them.

use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Edge, Node, NodeId,
    NodeKind, SourceLine, Stream, StreamId, Trace,
};
use streamweir_verify::{Report, Rule, Verdict, verify};

pub(crate) use AccessMode::{Atomic, Read, ReadWrite, Write};

pub(crate) const MAIN: StreamId = StreamId(0);
pub(crate) const SIDE: StreamId = StreamId(1);
pub(crate) const THIRD: StreamId = StreamId(2);

/// A capture on `main`, `side` and `third`, in which each node follows the last
/// one of its stream.
pub(crate) struct Capture {
    pub(crate) trace: Trace,
    frontier: Vec<Vec<NodeId>>,
}

impl Capture {
    pub(crate) fn new() -> Self {
        let mut trace = Trace::new("test");
        trace.add_stream(Stream::origin("main"));
        trace.add_stream(Stream::forked("side", MAIN));
        trace.add_stream(Stream::forked("third", MAIN));
        for stream in &mut trace.streams {
            stream.end.joined = true;
        }
        Self {
            trace,
            frontier: vec![Vec::new(); 3],
        }
    }

    /// Records a node that follows the frontier of `stream`.
    pub(crate) fn node(&mut self, stream: StreamId, name: &str) -> NodeId {
        let mut node = Node::new(NodeKind::kernel(), name).on(stream);
        node.launch = Some(SourceLine {
            file: "engine.rs".into(),
            line: 10 + self.trace.nodes.len() as u32,
        });
        let node = self.trace.add_node(node);
        for from in std::mem::replace(&mut self.frontier[stream.index()], vec![node]) {
            self.trace.add_edge(Edge::full(from, node));
        }
        node
    }

    /// Makes what follows on `into` wait for what `from` has recorded.
    pub(crate) fn join(&mut self, into: StreamId, from: StreamId) {
        let more = self.frontier[from.index()].clone();
        self.frontier[into.index()].extend(more);
        self.frontier[into.index()].sort_unstable();
        self.frontier[into.index()].dedup();
    }

    /// `len` bytes at `start` that a pool of `stream` hands out here.
    pub(crate) fn scratch(
        &mut self,
        stream: StreamId,
        name: &str,
        start: u64,
        len: u64,
    ) -> BufferId {
        let alloc = AllocPoint {
            frontier: self.frontier[stream.index()].clone(),
            before: NodeId::at(self.trace.nodes.len()),
        };
        let range = ByteRange::from_len(start, len).unwrap();
        self.trace
            .add_buffer(Buffer::scratch(name, range, stream, alloc))
    }

    pub(crate) fn persistent(&mut self, name: &str, start: u64, len: u64) -> BufferId {
        let range = ByteRange::from_len(start, len).unwrap();
        self.trace.add_buffer(Buffer::persistent(name, range))
    }

    pub(crate) fn free(&mut self, buffer: BufferId) {
        let here = NodeId::at(self.trace.nodes.len());
        let kind = &mut self.trace.buffers[buffer.index()].kind;
        if let BufferKind::Scratch { freed_before, .. } = kind {
            *freed_before = Some(here);
        }
    }

    /// The node touches the whole buffer.
    pub(crate) fn all(&mut self, node: NodeId, mode: AccessMode, buffer: BufferId) {
        let len = self.trace.buffer(buffer).range.len();
        self.part(node, mode, buffer, 0, len);
    }

    /// The node touches bytes `start..end` of the buffer.
    pub(crate) fn part(
        &mut self,
        node: NodeId,
        mode: AccessMode,
        buffer: BufferId,
        start: u64,
        end: u64,
    ) {
        self.trace
            .add_access(Access::new(node, buffer, ByteRange::new(start, end), mode));
    }

    /// The capture with every stream's end noted.
    pub(crate) fn end(mut self) -> Trace {
        for (stream, frontier) in self.trace.streams.iter_mut().zip(self.frontier) {
            stream.end.frontier = frontier;
        }
        self.trace
    }
}

/// The rules broken, with the nodes, of a trace that must verify.
pub(crate) fn broken(trace: &Trace) -> Vec<(Rule, Option<NodeId>, Option<NodeId>)> {
    let report = verify(trace).unwrap();
    report
        .hazards
        .iter()
        .map(|hazard| {
            let second = hazard.second.as_ref().and_then(|site| site.node);
            (hazard.rule, hazard.first.node, second)
        })
        .collect()
}

/// The rules broken, each once.
pub(crate) fn rules(trace: &Trace) -> Vec<Rule> {
    let mut rules: Vec<Rule> = broken(trace).into_iter().map(|(rule, ..)| rule).collect();
    rules.dedup();
    rules
}

/// Panics with the report unless the trace is safe.
#[track_caller]
pub(crate) fn safe(trace: &Trace) -> Report {
    let report = verify(trace).unwrap();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert_eq!(report.hazards_total, 0);
    report
}
