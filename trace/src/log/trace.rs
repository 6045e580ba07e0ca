//! A log as a trace, once its buffers have addresses.

use super::model::{AllocLog, LogEvent};
use crate::access::{Access, AccessMode};
use crate::buffer::{AllocPoint, Buffer, BufferKind};
use crate::id::{BufferId, NodeId, StreamId};
use crate::model::{Edge, Trace};
use crate::node::{Node, NodeKind};
use crate::range::ByteRange;
use crate::stream::Stream;

impl AllocLog {
    /// The trace of this log with its buffers at these addresses: one node for
    /// each kernel, the edges that its streams and joins make, and for each
    /// buffer that a kernel uses the accesses of all its bytes. Streams that are
    /// not joined at the end are taken in by an empty node: a log may end
    /// anywhere.
    ///
    /// # Panics
    /// When there is not one range for each buffer.
    pub fn to_trace(&self, name: &str, ranges: &[ByteRange]) -> Trace {
        assert_eq!(
            ranges.len(),
            self.buffers.len(),
            "one range for each buffer"
        );
        let mut trace = Trace::new(name);
        let origin = trace.add_stream(Stream::origin("stream 0"));
        for stream in 1..self.streams {
            let mut stream = Stream::forked(format!("stream {stream}"), origin);
            stream.end.joined = true;
            trace.add_stream(stream);
        }
        for (buffer, &range) in self.buffers.iter().zip(ranges) {
            let alloc = AllocPoint::default();
            trace.add_buffer(Buffer::scratch(&*buffer.name, range, buffer.stream, alloc));
        }
        // What the next node of each stream depends on.
        let mut frontiers: Vec<Vec<NodeId>> = vec![Vec::new(); self.streams as usize];
        for event in &self.events {
            let nodes = NodeId::at(trace.nodes.len());
            match event {
                LogEvent::Join { from, to } => join(&mut frontiers, *from, *to),
                LogEvent::Alloc(buffer) => {
                    let frontier = frontiers[self.buffers[buffer.index()].stream.index()].clone();
                    if let BufferKind::Scratch { alloc, .. } = kind(&mut trace, *buffer) {
                        *alloc = AllocPoint {
                            frontier,
                            before: nodes,
                        };
                    }
                }
                LogEvent::Free(buffer) => {
                    if let BufferKind::Scratch { freed_before, .. } = kind(&mut trace, *buffer) {
                        *freed_before = Some(nodes);
                    }
                }
                LogEvent::Kernel {
                    stream,
                    reads,
                    writes,
                } => {
                    let kernel = Node::new(NodeKind::kernel(), format!("kernel {}", nodes.0));
                    let node = trace.add_node(kernel.on(*stream));
                    follow(&mut trace, &mut frontiers, *stream, node);
                    let accesses = accesses(reads, writes);
                    for (buffer, mode) in accesses {
                        let bytes = ByteRange::new(0, ranges[buffer.index()].len());
                        trace.add_access(Access::new(node, buffer, bytes, mode));
                    }
                }
            }
        }
        for from in (1..self.streams).map(StreamId) {
            join(&mut frontiers, from, origin);
        }
        if frontiers[origin.index()].len() > 1 {
            let end = Node::new(NodeKind::Empty, "end of the log").on(origin);
            let end = trace.add_node(end);
            follow(&mut trace, &mut frontiers, origin, end);
        }
        for (stream, frontier) in trace.streams.iter_mut().zip(frontiers) {
            stream.end.frontier = frontier;
        }
        trace
    }
}

fn kind(trace: &mut Trace, buffer: BufferId) -> &mut BufferKind {
    &mut trace.buffers[buffer.index()].kind
}

fn join(frontiers: &mut [Vec<NodeId>], from: StreamId, to: StreamId) {
    let reached = frontiers[from.index()].clone();
    let mine = &mut frontiers[to.index()];
    mine.extend(reached);
    mine.sort_unstable();
    mine.dedup();
}

fn follow(trace: &mut Trace, frontiers: &mut [Vec<NodeId>], stream: StreamId, node: NodeId) {
    let before = std::mem::replace(&mut frontiers[stream.index()], vec![node]);
    for from in before {
        trace.add_edge(Edge::full(from, node));
    }
}

/// Each buffer once, with the mode that its mentions add up to.
fn accesses(reads: &[BufferId], writes: &[BufferId]) -> Vec<(BufferId, AccessMode)> {
    let read = reads.iter().map(|&buffer| (buffer, AccessMode::Read));
    let write = writes.iter().map(|&buffer| (buffer, AccessMode::Write));
    let mut all: Vec<_> = read.chain(write).collect();
    all.sort_unstable();
    all.dedup();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = AccessMode::ReadWrite;
        }
        same
    });
    all
}
