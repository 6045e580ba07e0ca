//! Why a session cannot be used.

use thiserror::Error;

use crate::id::StepId;
use crate::range::ByteRange;
use crate::text::shown;

/// The value of the `format` field.
pub const FORMAT: &str = "streamweir-session";

/// The version that this build writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// The most uses that the steps of a session may have, each launch counted with
/// all that its graph touches. A short file can ask for many.
pub(super) const MAX_USES: usize = 1 << 22;

/// Why a session, or the file of one, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An id names no entry of its table.
    #[error("{whence} names {id}, but the session has {count} {table}", whence = shown(.whence))]
    NoSuchEntry {
        /// What holds the id.
        whence: String,
        /// The id.
        id: String,
        /// The table it points into.
        table: &'static str,
        /// How many entries that table has.
        count: usize,
    },
    /// A use or a copy reaches past its buffer.
    #[error("{whence} touches bytes {bytes} of buffer \"{buffer}\", which has {len:#x} bytes", whence = shown(.whence), buffer = shown(.buffer))]
    OutsideBuffer {
        /// What touches it.
        whence: String,
        /// The buffer's name.
        buffer: String,
        /// The bytes named.
        bytes: ByteRange,
        /// The buffer's length.
        len: u64,
    },
    /// A copy runs past 2^64.
    #[error("{whence} copies {bytes:#x} bytes at {at:#x}, past the end of all addresses", whence = shown(.whence))]
    PastTheEnd {
        /// The copy.
        whence: String,
        /// The distance from the first byte of the buffer.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The steps touch more places than fit into memory.
    #[error(
        "the steps touch more than {MAX_USES} places of memory, each launch counted with all that its graph touches. Verify the session in parts, or merge adjacent ranges"
    )]
    TooLarge,
    /// A byte range ends before it starts.
    #[error("{whence} has the byte range {start:#x}..{end:#x}, which ends before it starts", whence = shown(.whence))]
    InvertedRange {
        /// What holds the range.
        whence: String,
        /// Its first byte.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// A step is to read from a step that does not come before it.
    #[error("{whence} reads from {from}, which does not come before it; name an earlier step", whence = shown(.whence))]
    ReadsFromLater {
        /// The step.
        whence: String,
        /// The step it names.
        from: StepId,
    },
    /// A step is to read from a step that writes nothing it reads.
    #[error("{whence} reads from {from} (\"{name}\"), which writes no byte that it reads", whence = shown(.whence), name = shown(.name))]
    ReadsFromNothing {
        /// The step.
        whence: String,
        /// The step it names.
        from: StepId,
        /// That step's name.
        name: String,
    },
    /// The text is not JSON, or not of this form.
    #[error("not a session file: {why}", why = shown(.0))]
    Json(#[from] serde_json::Error),
    /// The file says it is something else.
    #[error("not a session file: \"format\" is {0:?}, expected {expected:?}", expected = FORMAT)]
    Format(String),
    /// The file is of another version.
    #[error(
        "session file of version {found}; this build reads version {supported}. Write the file again with a matching release",
        supported = VERSION
    )]
    Version {
        /// The version the file names.
        found: u32,
    },
}
