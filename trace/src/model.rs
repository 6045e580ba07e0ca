//! The trace itself: tables that refer to each other by id.

use serde::{Deserialize, Serialize};

use crate::access::{Access, PossibleAccess, StrayWord, UnknownAccess};
use crate::buffer::Buffer;
use crate::id::{BufferId, NodeId, ScopeId, StreamId};
use crate::node::{Node, SourceLine};
use crate::promise::Promise;
use crate::range::ByteRange;
use crate::stream::Stream;

/// The record of one capture.
///
/// Nodes stand in host record order where it is known. Which node happens
/// before which is said by [`edges`](Self::edges) alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name of the capture.
    pub name: String,
    /// The captured streams; the origin is first.
    #[serde(default)]
    pub streams: Vec<Stream>,
    /// Scope paths, such as `layer 17/indexer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The buffers.
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    /// The accesses.
    #[serde(default)]
    pub accesses: Vec<Access>,
    /// Accesses that nothing declares and a parameter makes possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible: Vec<PossibleAccess>,
    /// Declared accesses to memory that is no buffer of this trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownAccess>,
    /// Words of parameters that point to device memory outside of all buffers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stray: Vec<StrayWord>,
    /// The memory that the scratch pools hold, whether buffers lie in it or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<Reserved>,
    /// What becomes of memory that the graph allocates and none of its nodes
    /// frees.
    #[serde(default, skip_serializing_if = "Unfreed::is_held")]
    pub unfreed: Unfreed,
    /// What a proof rests on because somebody said so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<Promise>,
    /// What was recorded against the capture protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocol: Vec<ProtocolBreak>,
    /// What a verdict about this trace takes for granted, in plain words
    /// ("page ids below 4096").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

/// One edge of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The node that comes first.
    pub from: NodeId,
    /// The node that follows.
    pub to: NodeId,
    /// What the edge promises.
    #[serde(default, skip_serializing_if = "EdgeKind::is_full")]
    pub kind: EdgeKind,
}

impl Edge {
    /// An edge from the end of one node to the start of another.
    pub const fn full(from: NodeId, to: NodeId) -> Self {
        Self {
            from,
            to,
            kind: EdgeKind::Full,
        }
    }
}

/// What an edge promises.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// The first node ends before the second starts.
    #[default]
    Full,
    /// The second node may start once every block of the first has triggered;
    /// it sees the first node's writes only after its own wait.
    Programmatic,
}

impl EdgeKind {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

/// Memory that a scratch pool holds for the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// The stream whose pool holds it; `None` when streams share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// Its device addresses.
    pub range: ByteRange,
}

/// What becomes of memory that the graph allocates and none of its nodes frees,
/// before the graph is launched again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Unfreed {
    /// It is still held, and the driver refuses the second launch.
    #[default]
    Held,
    /// Whoever launches the graph frees it: the graph is instantiated with
    /// auto-free, or the memory is freed between two launches.
    FreedByLauncher,
}

impl Unfreed {
    /// What a verdict takes for granted about it, in words.
    pub const fn assumption(self) -> Option<&'static str> {
        match self {
            Self::Held => None,
            Self::FreedByLauncher => Some(
                "memory that the graph allocates and does not free is freed before each further launch",
            ),
        }
    }

    fn is_held(&self) -> bool {
        matches!(self, Self::Held)
    }
}

/// Something that was recorded against the rules of stream capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolBreak {
    /// The call or the operation.
    pub call: String,
    /// What was wrong and what to do, as one sentence.
    pub what: String,
    /// The stream it happened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The last node of that stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The source line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
}

impl Trace {
    /// An empty trace of the capture `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a stream.
    pub fn add_stream(&mut self, stream: Stream) -> StreamId {
        self.streams.push(stream);
        StreamId::at(self.streams.len() - 1)
    }

    /// Adds a scope path.
    pub fn add_scope(&mut self, path: impl Into<String>) -> ScopeId {
        self.scopes.push(path.into());
        ScopeId::at(self.scopes.len() - 1)
    }

    /// Adds a node.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::at(self.nodes.len() - 1)
    }

    /// Adds an edge.
    pub fn add_edge(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    /// Adds a buffer.
    pub fn add_buffer(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId::at(self.buffers.len() - 1)
    }

    /// Adds an access.
    pub fn add_access(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// The node with this id. Panics when the id is of another trace.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The buffer with this id. Panics when the id is of another trace.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.index()]
    }

    /// The stream with this id. Panics when the id is of another trace.
    pub fn stream(&self, id: StreamId) -> &Stream {
        &self.streams[id.index()]
    }

    /// The scope path of a node, when it has one.
    pub fn scope_of(&self, node: NodeId) -> Option<&str> {
        self.node(node)
            .scope
            .map(|scope| self.scopes[scope.index()].as_str())
    }

    /// The name of a node's stream, when it has one.
    pub fn stream_of(&self, node: NodeId) -> Option<&str> {
        self.node(node)
            .stream
            .map(|stream| self.stream(stream).name.as_str())
    }
}
