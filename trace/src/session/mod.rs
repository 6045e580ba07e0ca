//! The record of a session: launches of graphs and the work around them.
//!
//! A [`Trace`](crate::Trace) is about one graph. A [`Session`] is about what a
//! program does with its graphs: it launches them on streams, stages their
//! inputs, copies their outputs away, runs kernels in between, and orders all
//! that with events and synchronisation. A graph enters as the bytes that it
//! reads and writes, with addresses, whatever memory they are: persistent
//! memory, scratch of an arena, memory of the graph itself.
//!
//! Steps stand in the order in which the host made the calls. What a step means
//! for the order of the others is said at [`StepKind`]; deciding what may
//! overlap is the verifier's business.
//!
//! ```
//! use streamweir_trace::session::{Place, Session, Step, Use};
//! use streamweir_trace::{AccessMode, ByteRange};
//!
//! let mut session = Session::new("two batches");
//! let main = session.add_stream("main");
//! let staged = session.add_host_buffer("staged tokens", ByteRange::new(0x1000, 0x1100));
//! let tokens = session.add_buffer("tokens", ByteRange::new(0x9000, 0x9100));
//! let decode = session.add_graph("decode", vec![Use::all(tokens, 0x100, AccessMode::Read)]);
//! session.push(Step::host("fill", vec![Use::all(staged, 0x100, AccessMode::Write)]));
//! session.push(Step::copy("stage", main, Place::start(staged), Place::start(tokens), 0x100));
//! session.push(Step::launch("decode", main, decode));
//! session.check()?;
//! let file = session.to_json();
//! assert_eq!(Session::from_json(file.as_bytes())?, session);
//! # Ok::<(), streamweir_trace::session::SessionError>(())
//! ```

mod check;
mod json;
mod step;

use serde::{Deserialize, Serialize};

use crate::{AccessMode, BufferId, ByteRange, EventId, GraphId, StepId, StreamId};

pub use check::SessionError;
pub use json::{FORMAT, VERSION};
pub use step::{Place, Step, StepKind};

/// The record of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The name of the session.
    pub name: String,
    /// The streams that work is enqueued on.
    #[serde(default)]
    pub streams: Vec<SessionStream>,
    /// The names of the events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The memory that steps touch.
    #[serde(default)]
    pub buffers: Vec<SessionBuffer>,
    /// The executable graphs.
    #[serde(default)]
    pub graphs: Vec<SessionGraph>,
    /// The calls, in the order in which the host made them.
    pub steps: Vec<Step>,
    /// What a verdict about this session takes for granted, in plain words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

/// A stream of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStream {
    /// The name that reports print.
    pub name: String,
    /// Whether its work belongs to others: the loader of a cache, a transfer
    /// engine, a network card. Orders work no differently; reports say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

/// Memory that steps of a session touch.
///
/// Two buffers may share bytes; what counts is the address. Host and device
/// addresses are of one space, as unified addressing makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionBuffer {
    /// The name that reports print.
    pub name: String,
    /// Whether it is memory of the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// The addresses it occupies.
    pub range: ByteRange,
}

/// An executable graph, as the bytes that a launch of it touches.
///
/// Each instantiation is a graph of its own, although several may come from one
/// capture: launches of one executable graph never overlap, those of two may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionGraph {
    /// The name that reports print.
    pub name: String,
    /// What a launch touches.
    pub uses: Vec<Use>,
    /// What the verdict about the graph itself takes for granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// What the verdict about the graph itself does not speak about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_analysed: Vec<String>,
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

impl Session {
    /// An empty session called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a stream.
    pub fn add_stream(&mut self, name: impl Into<String>) -> StreamId {
        self.streams.push(SessionStream {
            name: name.into(),
            external: false,
        });
        StreamId::at(self.streams.len() - 1)
    }

    /// Adds a stream whose work belongs to others.
    pub fn add_external_stream(&mut self, name: impl Into<String>) -> StreamId {
        let id = self.add_stream(name);
        self.streams[id.index()].external = true;
        id
    }

    /// Adds an event.
    pub fn add_event(&mut self, name: impl Into<String>) -> EventId {
        self.events.push(name.into());
        EventId::at(self.events.len() - 1)
    }

    /// Adds device memory.
    pub fn add_buffer(&mut self, name: impl Into<String>, range: ByteRange) -> BufferId {
        self.buffers.push(SessionBuffer {
            name: name.into(),
            host: false,
            range,
        });
        BufferId::at(self.buffers.len() - 1)
    }

    /// Adds host memory.
    pub fn add_host_buffer(&mut self, name: impl Into<String>, range: ByteRange) -> BufferId {
        let id = self.add_buffer(name, range);
        self.buffers[id.index()].host = true;
        id
    }

    /// Adds an executable graph.
    pub fn add_graph(&mut self, name: impl Into<String>, uses: Vec<Use>) -> GraphId {
        self.graphs.push(SessionGraph {
            name: name.into(),
            uses,
            ..SessionGraph::default()
        });
        GraphId::at(self.graphs.len() - 1)
    }

    /// Adds a step behind all others.
    pub fn push(&mut self, step: Step) -> StepId {
        self.steps.push(step);
        StepId::at(self.steps.len() - 1)
    }

    /// The buffer with this id. Panics when the id is of another session.
    pub fn buffer(&self, id: BufferId) -> &SessionBuffer {
        &self.buffers[id.index()]
    }

    /// The step with this id. Panics when the id is of another session.
    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id.index()]
    }

    /// What a step touches. Panics when the session does not pass
    /// [`check`](Self::check).
    pub fn uses(&self, step: &Step) -> Vec<Use> {
        match &step.kind {
            StepKind::Launch { graph, .. } => self.graphs[graph.index()].uses.clone(),
            StepKind::Eager { uses, .. } | StepKind::Host { uses } => uses.clone(),
            StepKind::Copy {
                from, to, bytes, ..
            } => {
                let part = |place: &Place, mode| {
                    let end = place.at + bytes;
                    Use::new(place.buffer, ByteRange::new(place.at, end), mode)
                };
                vec![part(from, AccessMode::Read), part(to, AccessMode::Write)]
            }
            _ => Vec::new(),
        }
    }
}
