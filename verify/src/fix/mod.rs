//! The smallest change that mends a hazard, as data.
//!
//! A fix can be printed ([`Fix::describe`]) and applied to the trace
//! ([`Fix::apply`]). One fix mends one hazard; a report with several may need
//! several, and a changed trace is verified again. Every order that a fix adds
//! points along the order of the graph, so no fix closes a cycle.

mod apply;

use serde::{Deserialize, Serialize};
use streamweir_trace::{
    BufferId, ByteRange, Edge, EdgeKind, NodeId, PdlWait, StreamId, Trace, clipped,
};

use crate::site::{buffer_name, node_title};

/// One change of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
#[non_exhaustive]
pub enum Fix {
    /// Make `before` wait for `after`: a join point between their streams.
    Join {
        /// The node to wait for.
        after: NodeId,
        /// The node that waits.
        before: NodeId,
    },
    /// Join a stream into the origin before the capture ends.
    JoinAtEnd {
        /// The stream; `None` for work on no known stream.
        stream: Option<StreamId>,
        /// Its last node, if it has one.
        last: Option<NodeId>,
    },
    /// Give a buffer bytes that no other buffer has.
    Separate {
        /// The buffer to move.
        buffer: BufferId,
    },
    /// Take a scratch buffer earlier.
    AllocateEarlier {
        /// The buffer.
        buffer: BufferId,
        /// The node to take it before.
        before: NodeId,
    },
    /// Free a scratch buffer later.
    KeepUntil {
        /// The buffer.
        buffer: BufferId,
        /// The node to keep it for.
        node: NodeId,
    },
    /// Register memory as a persistent buffer.
    Register {
        /// Its device addresses, as far as they are known.
        range: ByteRange,
    },
    /// Free memory only when no graph that was captured with its address is left.
    KeepAlive {
        /// Its device addresses, as far as they are known.
        range: ByteRange,
    },
    /// Write bytes of a scratch buffer before they are read.
    WriteFirst {
        /// The buffer.
        buffer: BufferId,
        /// The bytes, counted from the first byte of the buffer.
        bytes: ByteRange,
        /// The node that reads them.
        before: NodeId,
    },
    /// Give a stream a workspace of its own.
    OwnWorkspace {
        /// The workspace it uses now.
        buffer: BufferId,
        /// The stream.
        stream: StreamId,
    },
    /// Free memory that the graph allocates after everything else in the graph,
    /// and nowhere before.
    FreeAtEnd {
        /// The allocation node.
        alloc: NodeId,
        /// The free node that it has now.
        instead_of: Option<NodeId>,
    },
    /// Leave a free node out.
    DropFree {
        /// The free node.
        node: NodeId,
    },
    /// Of a session: move a step that reads in front of one that overwrites what
    /// it is to read. Made by [`session::mend`](crate::session::mend).
    ReadEarlier {
        /// The step that reads.
        reader: NodeId,
        /// The step that overwrites.
        before: NodeId,
    },
    /// Do not make a call that a capture does not allow.
    Withdraw {
        /// The entry of the trace's protocol table.
        entry: u32,
    },
    /// The graph is not the recorded one: capture it again. Nothing in a trace
    /// can mend this.
    CaptureAgain,
}

impl Fix {
    /// The change as one sentence, with the names that `trace` gives.
    ///
    /// # Panics
    /// When the fix is of another trace.
    pub fn describe(&self, trace: &Trace) -> String {
        let node = |id: NodeId| format!("{id} `{}`", node_title(trace, id));
        let buffer = |id: BufferId| buffer_name(trace, id);
        match self {
            Self::Join { after, before } => {
                match (trace.stream_of(*after), trace.stream_of(*before)) {
                    (Some(from), Some(into)) if from != into => format!(
                        "add a join of stream \"{}\", after {}, into \"{}\" before {}",
                        clipped(from),
                        node(*after),
                        clipped(into),
                        node(*before)
                    ),
                    _ if starts_early(trace, *after, *before)
                        && trace.node(*before).pdl == PdlWait::None =>
                    {
                        format!(
                            "make {0} wait for {1}: it may start before {1} has ended; if its kernel waits on all paths, declare that",
                            node(*before),
                            node(*after)
                        )
                    }
                    _ => format!("make {} wait for {}", node(*before), node(*after)),
                }
            }
            Self::JoinAtEnd { stream, last } => {
                let what = match (stream, last) {
                    (Some(stream), Some(last)) => format!(
                        "stream \"{}\", after {},",
                        clipped(&trace.stream(*stream).name),
                        node(*last)
                    ),
                    (Some(stream), None) => {
                        format!("stream \"{}\"", clipped(&trace.stream(*stream).name))
                    }
                    (None, Some(last)) => node(*last),
                    (None, None) => "the rest".to_owned(),
                };
                let origin = trace.streams.first();
                let origin = origin.map_or("the origin".into(), |s| clipped(&s.name));
                format!("join {what} into \"{origin}\" before the capture ends")
            }
            Self::Separate { buffer: id } => format!(
                "give \"{}\" bytes of its own: keep the other buffer until its last use, or take the two from isolated pools",
                buffer(*id)
            ),
            Self::AllocateEarlier { buffer: id, before } => {
                format!(
                    "take \"{}\" before {} is recorded",
                    buffer(*id),
                    node(*before)
                )
            }
            Self::KeepUntil {
                buffer: id,
                node: last,
            } => {
                format!("keep \"{}\" until {} is recorded", buffer(*id), node(*last))
            }
            Self::Register { range } if range.len() > 1 => {
                format!("register {range} as a persistent buffer")
            }
            Self::Register { range } if range.is_empty() => {
                "register the memory that it points into as a persistent buffer".to_owned()
            }
            Self::Register { range } => format!(
                "register the memory at {:#x} as a persistent buffer",
                range.start
            ),
            Self::KeepAlive { range } => format!(
                "free the memory at {:#x} only when the graph is gone, or give the node memory that lives as long",
                range.start
            ),
            Self::WriteFirst {
                buffer: id,
                bytes,
                before,
            } => format!(
                "write bytes {bytes} of \"{}\" before {}, or make it persistent if it is to last from one replay to the next",
                buffer(*id),
                node(*before)
            ),
            Self::OwnWorkspace { buffer: id, stream } => format!(
                "give stream \"{}\" a workspace of its own instead of \"{}\"",
                trace.stream(*stream).name,
                buffer(*id)
            ),
            Self::FreeAtEnd { alloc, .. } => format!(
                "free what {} allocates in the graph, after all work that uses it",
                node(*alloc)
            ),
            Self::DropFree { node: free } => format!("leave {} out", node(*free)),
            Self::ReadEarlier { reader, before } => {
                format!("move {} in front of {}", node(*reader), node(*before))
            }
            Self::Withdraw { entry } => match trace.protocol.get(*entry as usize) {
                Some(entry) => format!("move `{}` out of the capture", entry.call),
                None => "move the call out of the capture".to_owned(),
            },
            Self::CaptureAgain => {
                "do not replay this graph: capture it again, and report the difference".to_owned()
            }
        }
    }
}

/// Whether an edge of programmatic dependent launch leads from one to the other.
fn starts_early(trace: &Trace, from: NodeId, to: NodeId) -> bool {
    let early = |edge: &Edge| edge.kind == EdgeKind::Programmatic;
    (trace.edges.iter()).any(|edge| edge.from == from && edge.to == to && early(edge))
}
