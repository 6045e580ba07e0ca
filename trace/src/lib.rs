//! The record of a capture, as plain data.
//!
//! A [`Trace`] says what one CUDA graph capture did: which streams took part,
//! which nodes were recorded, which edges order them, which buffers existed and
//! which bytes each node touched. Recording a capture, reading a graph back
//! from the driver and loading a file all give a trace; the planner, the
//! verifier, the simulator and every report read one.
//!
//! The crate holds data and nothing that others must trust: no CUDA, no device
//! handle, no reachability, no placement. Whatever decides something from a
//! trace lives in the crate that answers for the decision. Two small tools that
//! several of them need are here as well: [`RangeSet`] and [`Flow`].
//!
//! The tables of a trace, of the steps of a session and of a log are complete as
//! they stand: the verifier takes each apart field by field, so that nothing new
//! in them goes unnoticed. A change of theirs is a change of the format's version
//! and of this crate's. Everything else may grow.
//!
//! ```
//! use streamweir_trace::{Access, AccessMode, Buffer, ByteRange, Edge, Node, NodeKind, Stream, Trace};
//!
//! let mut trace = Trace::new("decode");
//! let main = trace.add_stream(Stream::origin("main"));
//! let scores = trace.add_buffer(Buffer::persistent("scores", ByteRange::new(0x1000, 0x2000)));
//! let fill = trace.add_node(Node::new(NodeKind::memset(), "fill").on(main));
//! let scale = trace.add_node(Node::new(NodeKind::kernel(), "scale").on(main));
//! trace.add_edge(Edge::full(fill, scale));
//! trace.add_access(Access::new(fill, scores, ByteRange::new(0, 0x1000), AccessMode::Write));
//! trace.add_access(Access::new(scale, scores, ByteRange::new(0, 0x1000), AccessMode::ReadWrite));
//! trace.check()?;
//! let file = streamweir_trace::to_json(&trace);
//! assert_eq!(streamweir_trace::from_json(file.as_bytes())?, trace);
//! # Ok::<(), streamweir_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod access;
mod buffer;
mod check;
pub mod dump;
mod error;
mod flow;
mod granted;
mod header;
mod hex;
mod id;
mod input;
mod json;
mod log;
mod model;
mod node;
mod operand;
mod promise;
mod range;
mod range_set;
pub mod session;
mod stream;
mod text;

pub use access::{
    Access, AccessMode, Phase, PossibleAccess, StrayMemory, StrayWord, UnknownAccess,
};
pub use buffer::{AllocPoint, Buffer, BufferKind, Keeper};
pub use dump::{DUMP_FORMAT, Dump, DumpError};
pub use error::TraceError;
pub use flow::Flow;
pub use header::{FORMAT, OLDEST_VERSION, VERSION, format_of};
pub use id::{BufferId, EventId, GraphId, NodeId, ScopeId, StepId, StreamId};
pub use input::{FILE_LIMIT, ReadError, STREAM_LIMIT, read_file};
pub use json::{from_json, to_json, to_json_pretty};
pub use log::{ALLOC_LOG_FORMAT, AllocLog, LOG_ALIGNMENT, LogBuffer, LogError, LogEvent};
pub use model::{Edge, EdgeKind, ProtocolBreak, Reserved, Trace, Unfreed};
pub use node::{
    BlockSync, FieldPointer, KernelNode, Node, NodeKind, Param, PdlWait, PointerParam, SourceLine,
};
pub use operand::{AllocNode, CopyNode, FillNode, FreeNode};
pub use promise::{Promise, Promised};
pub use range::ByteRange;
pub use range_set::RangeSet;
pub use stream::{Stream, StreamEnd};
pub use text::{Count, Shown, clipped, shown, shows};
