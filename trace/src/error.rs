//! Why a trace cannot be used.

use thiserror::Error;

use crate::header::{FORMAT, OLDEST_VERSION, VERSION};
use crate::id::NodeId;
use crate::range::ByteRange;

/// Why a trace, or the file of one, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// An id names no entry of its table.
    #[error("{whence} names {id}, but the trace has {count} {table}")]
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
    /// An access reaches past its buffer.
    #[error("node {node} touches bytes {bytes} of buffer \"{buffer}\", which has {len:#x} bytes")]
    OutsideBuffer {
        /// The node.
        node: NodeId,
        /// The buffer's name.
        buffer: String,
        /// The bytes named by the access.
        bytes: ByteRange,
        /// The buffer's length.
        len: u64,
    },
    /// A byte range that ends before it starts: its bounds are public, so one
    /// made by hand may.
    #[error("{whence} has the byte range {start:#x}..{end:#x}, which ends before it starts")]
    InvertedRange {
        /// What holds the range.
        whence: String,
        /// Its first byte.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// Two buffers that contradict each other, or the nodes, about who frees the
    /// memory of the graph.
    #[error(
        "buffer \"{buffer}\" says that node {free} frees what node {alloc} allocates, but {instead}. An allocation has one free node, of the same address"
    )]
    FreeContradicted {
        /// The buffer's name.
        buffer: String,
        /// The allocation node that it names.
        alloc: NodeId,
        /// The free node that it names.
        free: NodeId,
        /// What the trace says instead.
        instead: String,
    },
    /// A buffer of the graph's own memory whose allocation node is none, or
    /// allocates other bytes.
    #[error(
        "buffer \"{buffer}\" says that node {alloc} allocates it, but {instead}. Name the node that does, or give the buffer another kind"
    )]
    NotAllocated {
        /// The buffer's name.
        buffer: String,
        /// The node that it names.
        alloc: NodeId,
        /// What the trace says instead.
        instead: String,
    },
    /// An edge from a node to itself.
    #[error("node {0} has an edge to itself")]
    SelfEdge(NodeId),
    /// The text is not JSON, or not of this form.
    #[error("not a trace file: {0}")]
    Json(#[from] serde_json::Error),
    /// The file says it is something else.
    #[error("not a trace file: \"format\" is {0:?}, expected {expected:?}", expected = FORMAT)]
    Format(String),
    /// The file is of another version.
    #[error(
        "trace file of version {found}; this build reads versions {OLDEST_VERSION} to {VERSION}. Write the file again with a matching release"
    )]
    Version {
        /// The version the file names.
        found: u32,
    },
}
