//! Blocks: what a pool hands out, and what it remembers of it.

use std::borrow::Cow;
use std::fmt;

use streamweir_trace::{ByteRange, NodeId, StreamId};

/// A block of one capture. Ids are not used again within a capture, and the
/// pools of one capture know the ids of another from their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    pub(crate) capture: u32,
    pub(crate) index: u32,
}

impl BlockId {
    /// The place of the block in [`Pools::buffers`](crate::Pools::buffers).
    #[inline]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of capture {}", self.index, self.capture)
    }
}

/// Bytes for one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its identity.
    pub id: BlockId,
    /// Its addresses, as many as were asked for. A request for no bytes gets
    /// [`ALIGNMENT`](crate::ALIGNMENT) of them, so that its address is its own.
    pub range: ByteRange,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// A scratch buffer: its bytes are used again after its last access.
    Scratch,
    /// Held by a library on one stream to the end of the capture.
    Workspace,
}

/// A block as the trace wants to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Its identity.
    pub id: BlockId,
    /// The buffer's name.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub kind: BlockKind,
    /// The stream it was taken on.
    pub stream: StreamId,
    /// Its addresses, as in [`Block::range`].
    pub range: ByteRange,
    /// Bytes it holds in its pool: the range, rounded up to the alignment.
    pub held: u64,
    /// The number of nodes recorded before it was taken.
    pub alloc_before: NodeId,
    /// The number of nodes recorded before it was freed; `None` while it is
    /// held.
    pub freed_before: Option<NodeId>,
}

impl BlockRecord {
    /// Whether the two are the same but for the capture that they are of.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self {
            id,
            name,
            kind,
            stream,
            range,
            held,
            alloc_before,
            freed_before,
        } = self;
        id.index == other.id.index
            && *name == other.name
            && *kind == other.kind
            && *stream == other.stream
            && *range == other.range
            && *held == other.held
            && *alloc_before == other.alloc_before
            && *freed_before == other.freed_before
    }
}
