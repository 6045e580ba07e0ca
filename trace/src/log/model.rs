//! A log as plain data.

use crate::id::{BufferId, StreamId};

/// The value of the `format` field.
pub const ALLOC_LOG_FORMAT: &str = "alloc-log-1";

/// The most streams of a log.
pub(super) const MOST_STREAMS: u64 = 1024;

/// What buffers of a log begin at a multiple of where it does not say otherwise:
/// what the driver's own allocator promises.
pub const LOG_ALIGNMENT: u64 = 256;

/// The most bytes that the buffers of one log have in all, each counted with its
/// alignment: far beyond any memory, and far from where sums would wrap.
pub(super) const MOST_BYTES: u64 = 1 << 61;

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocLog {
    /// How many streams there are; stream 0 is the origin.
    pub streams: u32,
    /// The buffers, in the order of the file; the events say when each is taken.
    pub buffers: Vec<LogBuffer>,
    /// What happened, in the order of the host.
    pub events: Vec<LogEvent>,
}

/// A buffer of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBuffer {
    /// What the file calls it.
    pub name: String,
    /// The stream that it is taken on.
    pub stream: StreamId,
    /// How many bytes are asked for.
    pub bytes: u64,
    /// What its first byte is to be a multiple of.
    pub align: u64,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Stream `to` continues after all that `from` has recorded so far.
    Join {
        /// The stream that is waited for.
        from: StreamId,
        /// The stream that waits.
        to: StreamId,
    },
    /// A buffer is taken.
    Alloc(BufferId),
    /// A kernel is recorded.
    Kernel {
        /// Its stream.
        stream: StreamId,
        /// What it reads.
        reads: Vec<BufferId>,
        /// What it writes.
        writes: Vec<BufferId>,
    },
    /// The host drops a buffer.
    Free(BufferId),
}
