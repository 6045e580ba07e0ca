//! What can go wrong with a pool, by name and with what to do.

use std::sync::Arc;

use streamweir_base::BackingError;
use streamweir_trace::StreamId;
use thiserror::Error;

use crate::block::BlockId;

/// Why the pools of a capture refused a call. Nothing has changed then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The backing has no memory left.
    #[error(
        "out of memory: {bytes} bytes for \"{buffer}\" on stream \"{stream}\" (tag \"{tag}\"); arena \"{arena}\" holds {reserved} bytes. \
         Free memory, trim other arenas, or capture a smaller bucket"
    )]
    OutOfMemory {
        /// The buffer that was asked for.
        buffer: String,
        /// The stream it was asked on.
        stream: Arc<str>,
        /// That stream's tag.
        tag: Arc<str>,
        /// The bytes it needs, rounded to the alignment.
        bytes: u64,
        /// The arena.
        arena: Arc<str>,
        /// What the arena had reserved.
        reserved: u64,
        /// What the backing said.
        source: BackingError,
    },
    /// The backing failed for another reason.
    #[error(
        "arena \"{arena}\" could not grow by {bytes} bytes for \"{buffer}\" on stream \"{stream}\" (tag \"{tag}\")"
    )]
    Backing {
        /// The buffer that was asked for.
        buffer: String,
        /// The stream it was asked on.
        stream: Arc<str>,
        /// That stream's tag.
        tag: Arc<str>,
        /// The bytes it needs, rounded to the alignment.
        bytes: u64,
        /// The arena.
        arena: Arc<str>,
        /// What the backing said.
        source: BackingError,
    },
    /// The arena has no room for a planned layout and could not grow.
    #[error(
        "arena \"{arena}\", which holds {reserved} bytes, could not give the {bytes} bytes of the planned layout. \
         Free memory, trim other arenas, capture the largest bucket first, or capture a smaller one"
    )]
    Layout {
        /// The bytes that the layout needs in one piece.
        bytes: u64,
        /// The arena.
        arena: Arc<str>,
        /// What the arena had reserved.
        reserved: u64,
        /// What the backing said.
        source: BackingError,
    },
    /// The size does not fit an address.
    #[error(
        "\"{buffer}\" asks for {bytes} bytes, which no address range holds; check how its size is computed"
    )]
    TooLarge {
        /// The buffer that was asked for.
        buffer: String,
        /// The bytes asked for.
        bytes: u64,
    },
    /// The stream id is not of this capture.
    #[error(
        "stream {stream} is not of this capture, which has {count}; add it first, or use a stream of this capture"
    )]
    UnknownStream {
        /// The id.
        stream: StreamId,
        /// How many streams the capture has.
        count: usize,
    },
    /// Two streams ask for one tag.
    #[error(
        "stream \"{stream}\" cannot have the tag \"{tag}\": stream \"{holder}\" has it. A tag belongs to one captured stream; fork the same stream again or choose another tag"
    )]
    TagTaken {
        /// The stream that was to be added.
        stream: Arc<str>,
        /// The tag.
        tag: Arc<str>,
        /// The stream that has it.
        holder: Arc<str>,
    },
    /// The block is of another capture.
    #[error(
        "block {block:?} is of another capture; scratch lives inside the capture it was taken in"
    )]
    OtherCapture {
        /// The block.
        block: BlockId,
    },
    /// The block has been freed.
    #[error(
        "\"{buffer}\" of stream \"{stream}\" has been freed already; keep its handle until its last use is recorded"
    )]
    Freed {
        /// The buffer.
        buffer: String,
        /// The stream it was taken on.
        stream: Arc<str>,
    },
    /// The capture is over.
    #[error("the capture in arena \"{arena}\" has ended; take scratch inside a capture")]
    Ended {
        /// The arena.
        arena: Arc<str>,
    },
    /// Ids are 32 bits wide.
    #[error(
        "the capture has 2^32 - 1 {table}, the most that a trace holds; split it into several graphs"
    )]
    TableFull {
        /// What there is too much of.
        table: &'static str,
    },
}

impl AllocError {
    /// Whether there was no memory left, as opposed to a mistake.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } => true,
            Self::Layout { source, .. } => source.is_out_of_memory(),
            _ => false,
        }
    }
}
