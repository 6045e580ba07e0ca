//! Accesses: which bytes a node touches, and how.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{BufferId, NodeId};
use crate::range::ByteRange;

/// One node touching one range of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The node.
    pub node: NodeId,
    /// The buffer.
    pub buffer: BufferId,
    /// The bytes, counted from the first byte of the buffer.
    pub bytes: ByteRange,
    /// How they are touched.
    pub mode: AccessMode,
    /// When, with regard to the node's PDL wait.
    #[serde(default, skip_serializing_if = "Phase::is_after_wait")]
    pub phase: Phase,
}

impl Access {
    /// An access after the node's PDL wait, which is where every access of a
    /// node without programmatic dependent launch stands.
    pub const fn new(node: NodeId, buffer: BufferId, bytes: ByteRange, mode: AccessMode) -> Self {
        Self {
            node,
            buffer,
            bytes,
            mode,
            phase: Phase::AfterWait,
        }
    }
}

/// How bytes are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessMode {
    /// Read only.
    Read,
    /// Written, and not read before that.
    Write,
    /// Read and written.
    ReadWrite,
    /// Read and written by atomic operations alone.
    Atomic,
}

impl AccessMode {
    /// Whether two unordered accesses of the same bytes in these modes are a
    /// race: all but read against read and atomic against atomic.
    #[inline]
    pub const fn conflicts(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (Self::Read, Self::Read) | (Self::Atomic, Self::Atomic)
        )
    }

    /// Whether the bytes may change.
    #[inline]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether what was in the bytes before matters.
    #[inline]
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }

    /// The mode as reports print it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "read-write",
            Self::Atomic => "atomic",
        }
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// When an access happens inside a node that uses programmatic dependent launch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the node's wait returns: unordered with its programmatic
    /// predecessors.
    BeforeWait,
    /// After the node's wait has returned.
    #[default]
    AfterWait,
}

impl Phase {
    fn is_after_wait(&self) -> bool {
        matches!(self, Self::AfterWait)
    }
}

/// A declared access to memory that no buffer of the trace accounts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnknownAccess {
    /// The node.
    pub node: NodeId,
    /// The device addresses.
    pub range: ByteRange,
    /// How they are touched.
    pub mode: AccessMode,
}

/// A word of a kernel's parameters that is an address inside a known buffer
/// and that no declaration accounts for: the node may touch the buffer, in any
/// mode, or not at all. So may a kernel of which the parameters are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PossibleAccess {
    /// The node.
    pub node: NodeId,
    /// The buffer that the address lies in.
    pub buffer: BufferId,
    /// The bytes of the buffer that may be touched, counted from its first.
    pub bytes: ByteRange,
    /// The parameter that holds the word, by its place; `None` when the parameters
    /// of the kernel are not known, so that any address may be among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<u32>,
    /// The offset of the word in that parameter, in bytes; zero when the
    /// parameters are not known.
    #[serde(default)]
    pub offset: u32,
}

/// A word of a kernel's parameters that is an address of device memory which no
/// buffer of the trace accounts for, and that no declaration does either. The
/// node may touch that memory, or the word may be left over from other work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrayWord {
    /// The node.
    pub node: NodeId,
    /// The parameter that holds the word, by its place.
    pub param: u32,
    /// The offset of the word in that parameter, in bytes.
    pub offset: u32,
    /// The word: a device address.
    #[serde(with = "crate::hex::address")]
    pub at: u64,
    /// What is known of the memory there.
    pub memory: StrayMemory,
    /// The name of the memory, as far as it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What is known of the memory that a stray word points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrayMemory {
    /// It is allocated, and nothing of the trace keeps it so.
    Live,
    /// It had been freed when the node was recorded.
    Freed,
}
