//! Steps: the calls of a session.

use serde::{Deserialize, Serialize};

use crate::access::AccessMode;
use crate::id::{BufferId, EventId, GraphId, StepId, StreamId};
use crate::node::SourceLine;
use crate::range::ByteRange;

/// One call of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What the call does.
    pub kind: StepKind,
    /// The name that reports print.
    pub name: String,
    /// The source line of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<SourceLine>,
    /// The earlier steps whose output this step is to find where it reads. Where
    /// a step reads bytes that one of these wrote, nothing else may have written
    /// them in between. Empty: whatever was written last is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads_from: Vec<StepId>,
}

/// What a call does.
///
/// Work that a call enqueues starts after the call, after all earlier work of
/// its stream, and after nothing else unless an event says so; in particular
/// the host goes on at once. This is what CUDA promises of streams made with
/// `CU_STREAM_NON_BLOCKING`. Waits that the legacy default stream implies are
/// written as steps of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepKind {
    /// Launches an executable graph. It starts after the earlier launches of the
    /// same executable graph too, on whatever stream (`cuGraphLaunch`).
    Launch {
        /// The stream.
        stream: StreamId,
        /// The graph.
        graph: GraphId,
    },
    /// Enqueues kernels, fills or whatever else that is neither a graph nor a
    /// copy.
    Eager {
        /// The stream.
        stream: StreamId,
        /// What it touches.
        uses: Vec<Use>,
    },
    /// Enqueues a copy. Host memory is touched when the stream comes to it, as
    /// device memory is, pinned or not: for pageable memory no more is promised
    /// in both directions. A copy that the host waits for is followed by a
    /// [`SyncStream`](Self::SyncStream).
    Copy {
        /// The stream.
        stream: StreamId,
        /// Where it reads.
        from: Place,
        /// Where it writes.
        to: Place,
        /// How many bytes.
        bytes: u64,
    },
    /// The host itself touches memory, before it makes its next call.
    Host {
        /// What it touches.
        uses: Vec<Use>,
    },
    /// Records an event behind the work enqueued on a stream so far.
    Record {
        /// The stream.
        stream: StreamId,
        /// The event.
        event: EventId,
    },
    /// Makes the later work of a stream wait for the last record of an event
    /// before this call. Does nothing when there is none.
    Wait {
        /// The stream.
        stream: StreamId,
        /// The event.
        event: EventId,
    },
    /// The host waits for the last record of an event, or has found it complete.
    /// Does nothing when there is none.
    SyncEvent {
        /// The event.
        event: EventId,
    },
    /// The host waits for all work enqueued on a stream so far.
    SyncStream {
        /// The stream.
        stream: StreamId,
    },
    /// The host waits for all work enqueued so far.
    SyncDevice,
}

/// Bytes of a buffer that a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// The buffer.
    pub buffer: BufferId,
    /// The bytes, counted from the first byte of the buffer.
    pub bytes: ByteRange,
    /// How they are touched.
    pub mode: AccessMode,
}

impl Use {
    /// A use of bytes of a buffer.
    pub const fn new(buffer: BufferId, bytes: ByteRange, mode: AccessMode) -> Self {
        Self {
            buffer,
            bytes,
            mode,
        }
    }

    /// A use of the first `len` bytes of a buffer.
    pub const fn all(buffer: BufferId, len: u64, mode: AccessMode) -> Self {
        Self::new(buffer, ByteRange { start: 0, end: len }, mode)
    }
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The buffer.
    pub buffer: BufferId,
    /// The distance from its first byte, in bytes.
    #[serde(default)]
    pub at: u64,
}

impl Place {
    /// The first byte of a buffer.
    pub const fn start(buffer: BufferId) -> Self {
        Self { buffer, at: 0 }
    }
}

impl Step {
    /// A step of `kind` called `name`.
    pub fn new(name: impl Into<String>, kind: StepKind) -> Self {
        Self {
            kind,
            name: name.into(),
            launch: None,
            reads_from: Vec::new(),
        }
    }

    /// A launch of `graph` on `stream`.
    pub fn launch(name: impl Into<String>, stream: StreamId, graph: GraphId) -> Self {
        Self::new(name, StepKind::Launch { stream, graph })
    }

    /// Eager work on `stream`.
    pub fn eager(name: impl Into<String>, stream: StreamId, uses: Vec<Use>) -> Self {
        Self::new(name, StepKind::Eager { stream, uses })
    }

    /// A copy of `bytes` bytes on `stream`.
    pub fn copy(
        name: impl Into<String>,
        stream: StreamId,
        from: Place,
        to: Place,
        bytes: u64,
    ) -> Self {
        let kind = StepKind::Copy {
            stream,
            from,
            to,
            bytes,
        };
        Self::new(name, kind)
    }

    /// The host touches memory.
    pub fn host(name: impl Into<String>, uses: Vec<Use>) -> Self {
        Self::new(name, StepKind::Host { uses })
    }

    /// A record of `event` on `stream`.
    pub fn record(stream: StreamId, event: EventId) -> Self {
        Self::new("record", StepKind::Record { stream, event })
    }

    /// A wait of `stream` for `event`.
    pub fn wait(stream: StreamId, event: EventId) -> Self {
        Self::new("wait", StepKind::Wait { stream, event })
    }

    /// A wait of the host for `event`.
    pub fn sync_event(event: EventId) -> Self {
        Self::new("synchronise", StepKind::SyncEvent { event })
    }

    /// A wait of the host for `stream`.
    pub fn sync_stream(stream: StreamId) -> Self {
        Self::new("synchronise", StepKind::SyncStream { stream })
    }

    /// The same step, which is to find the output of `step` where it reads.
    #[must_use]
    pub fn reading_from(mut self, step: StepId) -> Self {
        self.reads_from.push(step);
        self
    }

    /// The stream that the step enqueues work on; `None` for what the host does
    /// itself.
    pub fn stream(&self) -> Option<StreamId> {
        match self.kind {
            StepKind::Launch { stream, .. }
            | StepKind::Eager { stream, .. }
            | StepKind::Copy { stream, .. }
            | StepKind::Record { stream, .. }
            | StepKind::Wait { stream, .. } => Some(stream),
            StepKind::Host { .. }
            | StepKind::SyncEvent { .. }
            | StepKind::SyncStream { .. }
            | StepKind::SyncDevice => None,
        }
    }
}
