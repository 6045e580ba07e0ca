//! Nodes: the work that a graph replays.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{BufferId, ScopeId, StreamId};
use crate::operand::{AllocNode, CopyNode, FillNode, FreeNode};

/// One node of a captured graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What the node does.
    pub kind: NodeKind,
    /// The kernel's name, or the operation's.
    pub name: String,
    /// The captured stream it was recorded on, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The scope it was recorded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeId>,
    /// The source line that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<SourceLine>,
    /// What is known of programmatic dependent launch in this node.
    #[serde(default, skip_serializing_if = "PdlWait::is_none")]
    pub pdl: PdlWait,
    /// Whether the accesses of the node were declared. A node that is not
    /// analysed is listed by every verdict, never passed in silence.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub analysed: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Node {
    /// A node of `kind` called `name`, on no known stream.
    pub fn new(kind: NodeKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            stream: None,
            scope: None,
            launch: None,
            pdl: PdlWait::None,
            analysed: true,
        }
    }

    /// The same node, recorded on `stream`.
    #[must_use]
    pub fn on(mut self, stream: StreamId) -> Self {
        self.stream = Some(stream);
        self
    }
}

/// What a node does at replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeKind {
    /// A kernel launch.
    Kernel(KernelNode),
    /// A copy.
    Memcpy(CopyNode),
    /// A fill.
    Memset(FillNode),
    /// Nothing but a place for edges to meet.
    Empty,
    /// A call of a host function.
    Host,
    /// Another graph, replayed as one node.
    ChildGraph,
    /// A wait for an event recorded outside the graph. Orders nothing inside.
    EventWait,
    /// A record of an event waited for outside the graph. Orders nothing inside.
    EventRecord,
    /// An allocation made by the graph itself.
    MemAlloc(AllocNode),
    /// A free made by the graph itself.
    MemFree(FreeNode),
    /// A batch of memory operations.
    BatchMemOp,
    /// A conditional body.
    Conditional,
    /// A signal of an external semaphore.
    SemaphoreSignal,
    /// A wait for an external semaphore.
    SemaphoreWait,
    /// A kind that this version does not know, by the driver's number.
    Unknown(u32),
}

impl NodeKind {
    /// A kernel of which nothing but the accesses is known.
    pub fn kernel() -> Self {
        Self::Kernel(KernelNode::default())
    }

    /// A copy of which nothing but the accesses is known.
    pub fn memcpy() -> Self {
        Self::Memcpy(CopyNode::default())
    }

    /// A fill of which nothing but the accesses is known.
    pub fn memset() -> Self {
        Self::Memset(FillNode::default())
    }

    /// The kind in one word, as reports print it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Memcpy(_) => "memcpy",
            Self::Memset(_) => "memset",
            Self::Empty => "empty",
            Self::Host => "host function",
            Self::ChildGraph => "child graph",
            Self::EventWait => "event wait",
            Self::EventRecord => "event record",
            Self::MemAlloc(_) => "memory allocation",
            Self::MemFree(_) => "memory free",
            Self::BatchMemOp => "batch memory operation",
            Self::Conditional => "conditional",
            Self::SemaphoreSignal => "semaphore signal",
            Self::SemaphoreWait => "semaphore wait",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The launch of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelNode {
    /// The kernel's symbol in its module, mangled where the compiler mangles.
    pub function: String,
    /// Thread blocks along x, y, z; all zero when not known.
    #[serde(default)]
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z; all zero when not known.
    #[serde(default)]
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    #[serde(default)]
    pub shared_bytes: u32,
    /// Blocks of a cluster along x, y, z, which the device runs together; all zero when
    /// the launch asks for none, or when that is not known.
    #[serde(default, skip_serializing_if = "is_no_cluster")]
    pub cluster: [u32; 3],
    /// Whether blocks of the launch wait for each other.
    #[serde(default, skip_serializing_if = "BlockSync::is_independent")]
    pub sync: BlockSync,
    /// The parameters, in the order of the signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
}

/// Whether the thread blocks of a launch wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockSync {
    /// They do not, or only inside a cluster, whose blocks the device runs
    /// together.
    #[default]
    Independent,
    /// They spin on each other's progress, and nothing but the size of the
    /// device makes them run together.
    Spin,
    /// They wait for each other, and the launch is a cooperative one, so that
    /// the device runs all of them together or none.
    Cooperative,
}

fn is_no_cluster(cluster: &[u32; 3]) -> bool {
    *cluster == [0; 3]
}

impl BlockSync {
    fn is_independent(&self) -> bool {
        matches!(self, Self::Independent)
    }
}

/// One parameter of a kernel launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The name in the signature; empty when read back from a driver.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Offset in the parameter buffer, in bytes.
    pub offset: u32,
    /// The raw bytes as passed, in hexadecimal.
    #[serde(with = "crate::hex::bytes")]
    pub bytes: Vec<u8>,
    /// What the parameter points to, when it is declared as a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<PointerParam>,
    /// The declared addresses inside a parameter that has several values: a struct, or
    /// an array of buffers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldPointer>,
}

impl Param {
    /// A parameter with these bytes, of which nothing is declared.
    pub fn new(name: impl Into<String>, offset: u32, bytes: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            offset,
            bytes,
            pointer: None,
            fields: Vec::new(),
        }
    }

    /// The declared addresses in it: where each stands, in bytes from its start, and
    /// what it points to.
    pub fn pointers(&self) -> impl Iterator<Item = (u32, PointerParam)> + '_ {
        let whole = self.pointer.map(|to| (0, to));
        let fields = self.fields.iter().map(|field| {
            let FieldPointer { at, buffer, offset } = *field;
            (at, PointerParam { buffer, offset })
        });
        whole.into_iter().chain(fields)
    }

    /// The 8 bytes that stand `at` bytes from its start, as an address.
    pub fn word(&self, at: u32) -> Option<u64> {
        let at = at as usize;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// A declared address inside a parameter that has several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldPointer {
    /// Where it stands, in bytes from the start of the parameter.
    pub at: u32,
    /// The buffer pointed into; `None` when the declared pointer is in no
    /// known memory.
    pub buffer: Option<BufferId>,
    /// The distance from the first byte of the buffer.
    pub offset: u64,
}

impl Param {
    /// The address that a parameter of eight bytes holds.
    pub fn address(&self) -> Option<u64> {
        self.bytes
            .as_slice()
            .try_into()
            .ok()
            .map(u64::from_le_bytes)
    }
}

/// The target of a declared pointer parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointerParam {
    /// The buffer pointed into; `None` when the declared pointer is in no
    /// known memory.
    pub buffer: Option<BufferId>,
    /// The distance from the first byte of the buffer.
    pub offset: u64,
}

/// How a node takes part in programmatic dependent launch (PDL), in which a
/// kernel may start before the kernel it follows has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PdlWait {
    /// Nothing is declared: a programmatic edge into the node orders nothing.
    #[default]
    None,
    /// The kernel waits for its predecessors on every path before it touches
    /// memory that the graph writes; an access before that has a phase that says
    /// so.
    OnAllPaths,
}

impl PdlWait {
    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A place in source code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceLine {
    /// The file as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
