//! Buffers: memory with an identity.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, StreamId};
use crate::range::ByteRange;

/// A piece of device memory, or of page-locked host memory that copies touch, with a
/// name and a life of its own.
///
/// Two buffers may share bytes, one after the other; that is what the rules
/// about identity (R2) are for. An access names a buffer, never an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// The name that reports print.
    pub name: String,
    /// What kind of memory it is.
    pub kind: BufferKind,
    /// The addresses it occupies, of the device or of the host. The two do not overlap.
    pub range: ByteRange,
    /// Whether its first read in a replay may see what an earlier replay or the
    /// host left there: barriers, split-K counters. Persistent memory is so
    /// whatever is said here; a workspace never is, for what its library finds
    /// there may be what another graph has left, and a read of memory that the
    /// graph allocates needs a write first all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carried: bool,
}

/// What kind of memory a buffer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BufferKind {
    /// Transient: lives between its alloc point and its last access inside one
    /// graph.
    Scratch {
        /// The stream whose pool it came from.
        stream: StreamId,
        /// Where it was taken.
        alloc: AllocPoint,
        /// Freed by the host before the node with this number was recorded
        /// (the number of nodes when nothing followed); `None` when it was
        /// still held at the end of the capture.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        freed_before: Option<NodeId>,
    },
    /// Scratch that a library holds across calls on one captured stream. What
    /// must survive a replay does not belong here.
    Workspace {
        /// The one stream that may use it.
        stream: StreamId,
    },
    /// Made by an allocation node of the graph itself.
    Graph {
        /// The allocation node. Only nodes that happen after it may use the
        /// memory.
        alloc: NodeId,
        /// The free node. Only nodes that happen before it may use the memory.
        /// `None` when the graph leaves the memory to whoever launches it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        free: Option<NodeId>,
    },
    /// Outlives the graph: weights, caches, inputs, outputs.
    Persistent,
    /// Memory that only the driver knows: no memory of the program's that the
    /// trace could name. It outlives the graph if somebody keeps it.
    Foreign {
        /// Who keeps it alive for the replays.
        #[serde(default)]
        keeper: Keeper,
    },
}

/// Who keeps memory alive that only the driver knows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// Nobody that is known.
    #[default]
    Nobody,
    /// The call that uses it, by its own word.
    Call,
    /// The engine into whose capture the work was recorded.
    Engine,
}

impl Keeper {
    /// The keeper as reports print it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Call => "a call",
            Self::Engine => "the engine",
        }
    }
}

/// The place on the allocating stream's chain where a scratch buffer was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocPoint {
    /// The nodes that the next node of the stream would have depended on. The
    /// buffer may be used only by nodes that happen after all of them.
    pub frontier: Vec<NodeId>,
    /// The number of nodes recorded before.
    pub before: NodeId,
}

impl Buffer {
    /// Memory that outlives the graph, at `range`.
    pub fn persistent(name: impl Into<String>, range: ByteRange) -> Self {
        Self {
            name: name.into(),
            kind: BufferKind::Persistent,
            range,
            carried: true,
        }
    }

    /// A scratch buffer taken on `stream` at `alloc`, never freed.
    pub fn scratch(
        name: impl Into<String>,
        range: ByteRange,
        stream: StreamId,
        alloc: AllocPoint,
    ) -> Self {
        Self {
            name: name.into(),
            kind: BufferKind::Scratch {
                stream,
                alloc,
                freed_before: None,
            },
            range,
            carried: false,
        }
    }

    /// Whether the next replay, or somebody outside, relies on what the buffer
    /// holds. Of memory that outlives the graph that is so whatever
    /// [`carried`](Self::carried) says, and of a workspace it never is.
    pub const fn keeps_its_bytes(&self) -> bool {
        match self.kind {
            BufferKind::Persistent | BufferKind::Foreign { .. } => true,
            BufferKind::Workspace { .. } => false,
            BufferKind::Scratch { .. } | BufferKind::Graph { .. } => self.carried,
        }
    }

    /// Whether a read of the buffer needs a write before it in the same replay. Of
    /// memory that the graph allocates that is so whatever [`carried`](Self::carried)
    /// says: the driver promises nothing about what an allocation finds there.
    pub const fn needs_a_write_first(&self) -> bool {
        match self.kind {
            BufferKind::Workspace { .. } | BufferKind::Graph { .. } => true,
            BufferKind::Scratch { .. } => !self.carried,
            BufferKind::Persistent | BufferKind::Foreign { .. } => false,
        }
    }

    /// The stream whose pool or workspace the buffer belongs to.
    pub fn stream(&self) -> Option<StreamId> {
        match self.kind {
            BufferKind::Scratch { stream, .. } | BufferKind::Workspace { stream } => Some(stream),
            BufferKind::Graph { .. } | BufferKind::Persistent | BufferKind::Foreign { .. } => None,
        }
    }
}

impl BufferKind {
    /// The kind in one word, as reports print it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Scratch { .. } => "scratch",
            Self::Workspace { .. } => "workspace",
            Self::Graph { .. } => "graph memory",
            Self::Persistent => "persistent",
            Self::Foreign { .. } => "memory that only the driver knows",
        }
    }
}
