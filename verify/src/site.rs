//! Nodes and buffers as reports name them. Every one has a name: a nameless node
//! that of its kind, and buffers of one name a number each. Of long names the
//! beginning is shown.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use streamweir_trace::{
    AccessMode, BufferId, ByteRange, NodeId, SourceLine, StreamId, Trace, clipped,
};

/// A node as a report names it, or a stream when there is no node to name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Site {
    /// The node; `None` when the hazard concerns no node of the trace.
    pub node: Option<NodeId>,
    /// The kernel's name, or the operation's.
    pub name: String,
    /// The scope path.
    pub scope: Option<String>,
    /// The name of the captured stream.
    pub stream: Option<String>,
    /// The launch line.
    pub launch: Option<SourceLine>,
    /// How the node touches the bytes of the hazard.
    pub access: Option<AccessMode>,
}

impl Site {
    /// The site of `node`.
    pub(crate) fn of(trace: &Trace, node: NodeId, access: Option<AccessMode>) -> Self {
        Self {
            node: Some(node),
            name: node_title(trace, node).into_owned(),
            scope: trace.scope_of(node).map(|it| clipped(it).into_owned()),
            stream: trace.stream_of(node).map(|it| clipped(it).into_owned()),
            launch: trace.node(node).launch.as_ref().map(|it| SourceLine {
                file: clipped(&it.file).into_owned(),
                line: it.line,
            }),
            access,
        }
    }
}

/// A buffer as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BufferNote {
    /// The buffer.
    pub id: BufferId,
    /// Its name.
    pub name: String,
    /// Scratch, workspace or persistent.
    pub kind: String,
    /// The tag of the pool it came from.
    pub tag: Option<String>,
    /// Its device addresses.
    pub range: ByteRange,
}

impl BufferNote {
    pub(crate) fn of(trace: &Trace, id: BufferId) -> Self {
        let buffer = trace.buffer(id);
        let tag = |stream: StreamId| clipped(&trace.stream(stream).tag).into_owned();
        Self {
            id,
            name: buffer_name(trace, id).into_owned(),
            kind: buffer.kind.word().to_owned(),
            tag: buffer.stream().map(tag),
            range: buffer.range,
        }
    }
}

/// What a node is called: its name, or its kind where it has none.
pub(crate) fn node_title(trace: &Trace, id: NodeId) -> Cow<'_, str> {
    let node = trace.node(id);
    match node.name.as_str() {
        "" => Cow::Borrowed(node.kind.word()),
        name => clipped(name),
    }
}

/// What a buffer is called: its name, with its number where another buffer has the
/// same name, as two lives of one block have.
pub(crate) fn buffer_name(trace: &Trace, id: BufferId) -> Cow<'_, str> {
    // What only the nodes of a trace show is no buffer of its own.
    let Some(buffer) = trace.buffers.get(id.index()) else {
        return Cow::Owned(format!("memory {id}"));
    };
    let name = buffer.name.as_str();
    let mut same = trace.buffers.iter().filter(|other| other.name == name);
    match same.nth(1) {
        Some(_) => Cow::Owned(format!("{} ({id})", clipped(name))),
        None => clipped(name),
    }
}

/// The same in quotes.
pub(crate) fn buffer_label(trace: &Trace, id: BufferId) -> String {
    format!("\"{}\"", buffer_name(trace, id))
}
