//! Why a trace cannot be used.

use thiserror::Error;

use crate::header::{FORMAT, OLDEST_VERSION, VERSION};
use crate::id::NodeId;
use crate::range::ByteRange;
use crate::text::shown;

/// Why a trace, or the file of one, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// An id names no entry of its table.
    #[error("{whence} names {id}, but the trace has {count} {table}", whence = shown(.whence))]
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
    #[error("node {node} touches bytes {bytes} of buffer \"{buffer}\", which has {len:#x} bytes", buffer = shown(.buffer))]
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
    #[error("{whence} has the byte range {start:#x}..{end:#x}, which ends before it starts", whence = shown(.whence))]
    InvertedRange {
        /// What holds the range.
        whence: String,
        /// Its first byte.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// Memory that ends beyond the last address.
    #[error("{whence} has {bytes:#x} bytes at {at:#x}, which end beyond the address space", whence = shown(.whence))]
    PastTheEnd {
        /// What has them.
        whence: String,
        /// The first byte.
        at: u64,
        /// How many, from the first to the last; as many as a row has when all
        /// rows together are more than can be counted.
        bytes: u64,
    },
    /// A declared pointer that lies outside of the buffer it is said to point
    /// into.
    #[error(
        "{whence} points {offset:#x} bytes into buffer \"{buffer}\", which has {len:#x} bytes. Name the buffer that it points into, or none", whence = shown(.whence), buffer = shown(.buffer)
    )]
    PointerBeyond {
        /// The parameter, with its node.
        whence: String,
        /// The buffer's name.
        buffer: String,
        /// The distance from the buffer's first byte.
        offset: u64,
        /// The buffer's length.
        len: u64,
    },
    /// A declared pointer whose bytes are another address.
    #[error(
        "{whence} holds the address {holds:#x}, but points {offset:#x} bytes into buffer \"{buffer}\", which is {at:#x}", whence = shown(.whence), buffer = shown(.buffer)
    )]
    PointerElsewhere {
        /// The parameter, with its node.
        whence: String,
        /// The buffer's name.
        buffer: String,
        /// The distance from the buffer's first byte.
        offset: u64,
        /// The address that this is.
        at: u64,
        /// The address among the parameter's bytes.
        holds: u64,
    },
    /// A declared address at a place that its parameter does not have.
    #[error("{whence} is declared to be an address, but the parameter has {len} bytes", whence = shown(.whence))]
    FieldBeyond {
        /// The place, with its parameter and node.
        whence: String,
        /// How many bytes the parameter has.
        len: usize,
    },
    /// A fill of elements that have no such size.
    #[error("{whence} fills elements of {element} bytes; there are such of 1, 2 and 4", whence = shown(.whence))]
    Element {
        /// The node.
        whence: String,
        /// The size.
        element: u8,
    },
    /// Two buffers that contradict each other, or the nodes, about who frees the
    /// memory of the graph.
    #[error(
        "buffer \"{buffer}\" says that node {free} frees what node {alloc} allocates, but {instead}. An allocation has one free node, of the same address", buffer = shown(.buffer), instead = shown(.instead)
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
    #[error("not a trace file: {why}", why = shown(.0))]
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
