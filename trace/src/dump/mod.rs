//! Capture dumps: what another program wrote down about a CUDA graph that it
//! captured itself.
//!
//! A dump holds the graph (nodes, edges, the raw bytes of every kernel
//! parameter), the caching allocator's own record (its blocks when the capture
//! had ended, and every allocation and free since it began, in host order), and
//! the operators that were run, each with the nodes that it recorded and the
//! tensors that it names. docs/trace-format.md describes every field.
//!
//! This module reads the file and checks that its tables fit together.
//! [`Dump`] is the file and nothing more: what it says about buffers and
//! accesses is for the verifier's crate to work out.
//!
//! # What a hostile file can do
//! Waste as much memory as it has bytes, a few times over, and no more: every
//! list is bounded by [`Limits`], hexadecimal digits are decoded as they are
//! read, fields that this version does not know are skipped without being kept,
//! and nesting is bounded by the JSON reader. It cannot make the reader panic.

mod bounded;
mod check;
mod error;
mod file;
mod model;
mod read;
mod tensor;

pub use error::DumpError;
pub use model::{
    AllocAction, AllocEvent, Block, CopyEnd, DUMP_FORMAT, Dump, DumpNode, Limits, Operator, Pool,
    RawParam, Segment, Tensor, View,
};
