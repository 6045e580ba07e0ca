//! Why a dump cannot be used.

use thiserror::Error;

use super::model::DUMP_FORMAT;
use crate::range::ByteRange;
use crate::text::shown;

/// Why a capture dump cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The input cannot be read, is no JSON, or not of this form.
    #[error("not a capture dump: {why}", why = shown(.0))]
    Json(#[from] serde_json::Error),
    /// The file says it is something else.
    #[error("not a capture dump: \"format\" is {0:?}, expected {expected:?}", expected = DUMP_FORMAT)]
    Format(String),
    /// A node does not stand where its id says.
    #[error(
        "node {id} stands at position {at} of \"nodes\". Write nodes in record order, each once"
    )]
    NodeId {
        /// The position.
        at: usize,
        /// The id found there.
        id: u64,
    },
    /// A field that the kind of node needs is not there.
    #[error("node {at} is a {kind} without \"{field}\"")]
    Missing {
        /// The node's position.
        at: usize,
        /// What the node is.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The bytes of a parameter do not fit what is said of them.
    #[error("node {at}, parameter {param}: {size} bytes are announced and {found} are given")]
    ParamSize {
        /// The node's position.
        at: usize,
        /// The place of the parameter.
        param: usize,
        /// The size that the file names.
        size: u64,
        /// The bytes it gives.
        found: usize,
    },
    /// Something names a node that is not there.
    #[error("{whence} names node {node}, but the dump has {count} nodes", whence = shown(.whence))]
    NoSuchNode {
        /// What names it.
        whence: String,
        /// The position.
        node: u64,
        /// How many nodes there are.
        count: usize,
    },
    /// An edge from a node to itself.
    #[error("node {0} has an edge to itself")]
    SelfEdge(u32),
    /// An operator's nodes end before they begin.
    #[error("operator {at} (\"{name}\") has the nodes {from}..{to}, which end before they begin", name = shown(.name))]
    Interval {
        /// The operator's position.
        at: usize,
        /// Its name.
        name: String,
        /// The first node.
        from: u64,
        /// One past the last.
        to: u64,
    },
    /// Memory runs past the last address.
    #[error("{whence} has {len} bytes at {start:#x}, which run past 2^64", whence = shown(.whence))]
    PastEnd {
        /// What it is.
        whence: String,
        /// Its first byte.
        start: u64,
        /// Its length.
        len: u64,
    },
    /// A tensor reaches out of its storage.
    #[error(
        "operator {at} (\"{name}\"), tensor {tensor}: bytes {bytes} lie outside of its storage {storage}", name = shown(.name)
    )]
    OutsideStorage {
        /// The operator's position.
        at: usize,
        /// Its name.
        name: String,
        /// The place of the tensor.
        tensor: usize,
        /// The tensor.
        bytes: ByteRange,
        /// Its storage.
        storage: ByteRange,
    },
    /// The sizes and strides of a tensor are not those of its bytes.
    #[error(
        "operator {at} (\"{name}\"), tensor {tensor}: {what}", name = shown(.name)
    )]
    View {
        /// The operator's position.
        at: usize,
        /// Its name.
        name: String,
        /// The place of the tensor.
        tensor: usize,
        /// What does not fit.
        what: String,
    },
    /// Two pieces of memory that cannot exist together share bytes.
    #[error("{what} {range} overlaps {other}, which is still there", what = shown(.what))]
    Overlap {
        /// What is claimed.
        what: String,
        /// Its bytes.
        range: ByteRange,
        /// What has them.
        other: ByteRange,
    },
    /// A block lies outside of its segment.
    #[error("block {block} lies outside of its segment {segment}")]
    OutsideSegment {
        /// The block.
        block: ByteRange,
        /// The segment.
        segment: ByteRange,
    },
    /// A block was freed twice.
    #[error("allocator event {at} frees {range}, which was freed before and not given out again")]
    FreedTwice {
        /// The event's position.
        at: usize,
        /// The block.
        range: ByteRange,
    },
}
