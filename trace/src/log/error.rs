//! Why a log cannot be used.

use thiserror::Error;

use super::model::{ALLOC_LOG_FORMAT, MOST_STREAMS};
use crate::text::shown;

/// Why an allocation log or a list of lifetimes cannot be used. Events are
/// counted from 0, as they stand in the file; lines from 1, the head included.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The text is not JSON, or not of this form.
    #[error("not an allocation log: {why}", why = shown(.0))]
    Json(#[from] serde_json::Error),
    /// The file says it is something else.
    #[error("not an allocation log: \"format\" is {0:?}, expected {expected:?}", expected = ALLOC_LOG_FORMAT)]
    Format(String),
    /// The number of streams cannot be.
    #[error("{streams} streams with origin {origin}; a log has 1 to {most} streams and stream 0 is the origin", most = MOST_STREAMS)]
    Streams {
        /// How many streams the file names.
        streams: u64,
        /// The origin it names.
        origin: u64,
    },
    /// An event that is none of the four.
    #[error(
        "event {event} is none of: join; alloc with stream and bytes; kernel with stream, reads and writes; free"
    )]
    Event {
        /// The event.
        event: usize,
    },
    /// An event names a stream that is not there.
    #[error("event {event} names stream {stream}, but the log has {count} streams")]
    NoSuchStream {
        /// The event.
        event: usize,
        /// The stream.
        stream: u64,
        /// How many streams there are.
        count: u32,
    },
    /// A stream waits for itself.
    #[error("event {event} joins stream {stream} to itself")]
    SelfJoin {
        /// The event.
        event: usize,
        /// The stream.
        stream: u64,
    },
    /// A buffer is taken twice.
    #[error(
        "event {event} allocates buffer {buffer}, which event {earlier} has allocated; ids are not used again"
    )]
    AllocTwice {
        /// The event.
        event: usize,
        /// The buffer.
        buffer: u64,
        /// The event that took it.
        earlier: usize,
    },
    /// A kernel is recorded twice.
    #[error(
        "event {event} is kernel {kernel}, which has been recorded before; ids are not used again"
    )]
    KernelTwice {
        /// The event.
        event: usize,
        /// The kernel.
        kernel: u64,
    },
    /// A buffer is used or freed and has not been taken.
    #[error("event {event} {what} buffer {buffer} before it is allocated")]
    NotAllocated {
        /// The event.
        event: usize,
        /// What it does to the buffer.
        what: &'static str,
        /// The buffer.
        buffer: u64,
    },
    /// A buffer is used or freed and has been freed.
    #[error("event {event} {what} buffer {buffer}, which event {freed} has freed")]
    Freed {
        /// The event.
        event: usize,
        /// What it does to the buffer.
        what: &'static str,
        /// The buffer.
        buffer: u64,
        /// The event that freed it.
        freed: usize,
    },
    /// The sizes do not fit an address.
    #[error(
        "the buffers up to event {event} need more than 2^61 bytes; check how sizes are computed"
    )]
    TooLarge {
        /// The event.
        event: usize,
    },
    /// There are more entries than ids.
    #[error("event {event}: a log has at most 2^32 - 1 events")]
    TableFull {
        /// The event.
        event: usize,
    },
    /// A line of a list of lifetimes is wrong.
    #[error("line {line}: {what}", what = shown(.what))]
    Line {
        /// The line.
        line: usize,
        /// What is wrong with it, and what is expected.
        what: String,
    },
}
