//! A command in the making: what it is given and what it touches.
//!
//! Arguments are bound by code that is not ours, so a draft stands outside the
//! recording until it is complete. A refused one leaves nothing behind.

use streamweir_alloc::BlockId;
use streamweir_trace::{AccessMode, ByteRange};

use super::{BufferKey, Pointer};
use crate::device::Recorded;
use crate::kernel::Bound;

#[derive(Clone, Default)]
pub(in crate::capture) struct Draft {
    /// The parameters of a kernel.
    pub(in crate::capture) params: Vec<u8>,
    pub(in crate::capture) pointers: Vec<Pointer>,
    /// What the check of a kernel sees of them.
    pub(in crate::capture) bound: Vec<Bound>,
    pub(in crate::capture) accesses: Vec<DraftAccess>,
    /// The scratch blocks among the touched buffers.
    pub(in crate::capture) blocks: Vec<BlockId>,
    /// Whether an argument is narrowed: the author of the launch vouches for that.
    pub(in crate::capture) narrowed: bool,
    /// The host memory that a copy or a function of the host touches.
    pub(in crate::capture) pinned: Vec<Recorded>,
}

#[derive(Clone, Copy)]
pub(in crate::capture) struct DraftAccess {
    pub(in crate::capture) buffer: BufferKey,
    pub(in crate::capture) bytes: ByteRange,
    pub(in crate::capture) mode: AccessMode,
}

impl Draft {
    /// Makes room for another command, in the memory that is there.
    pub(in crate::capture) fn clear(&mut self) {
        self.params.clear();
        self.pointers.clear();
        self.bound.clear();
        self.accesses.clear();
        self.blocks.clear();
        self.narrowed = false;
        self.pinned.clear();
    }

    #[inline]
    pub(in crate::capture) fn add_access(
        &mut self,
        buffer: BufferKey,
        bytes: ByteRange,
        mode: AccessMode,
    ) {
        self.accesses.push(DraftAccess {
            buffer,
            bytes,
            mode,
        });
    }

    /// The same for a scratch block, which the pools are told of.
    #[inline]
    pub(in crate::capture) fn add_block(
        &mut self,
        block: BlockId,
        bytes: ByteRange,
        mode: AccessMode,
    ) -> BufferKey {
        let buffer = BufferKey::of_block(block);
        self.blocks.push(block);
        self.add_access(buffer, bytes, mode);
        buffer
    }
}
