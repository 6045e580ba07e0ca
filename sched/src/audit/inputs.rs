//! What an audit is told: memory, and what calls do to it.

use streamweir_trace::{AccessMode, ByteRange};

/// Memory that the caller of an audit knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBuffer {
    /// The name that reports print.
    pub name: String,
    /// Its device addresses.
    pub range: ByteRange,
}

/// Bytes that a call touches, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredAccess {
    /// Device addresses.
    pub range: ByteRange,
    /// How they are touched.
    pub mode: AccessMode,
}
