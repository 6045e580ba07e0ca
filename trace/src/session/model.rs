//! A session as plain data.

use serde::{Deserialize, Serialize};

use super::step::{Place, Step, StepKind, Use};
use crate::access::AccessMode;
use crate::id::{BufferId, EventId, GraphId, StepId, StreamId};
use crate::range::ByteRange;

/// The record of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
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
