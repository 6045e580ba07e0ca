//! The verifier: proves from the record of a capture that it cannot race, or
//! names what does.
//!
//! # What is guaranteed
//! [`verify`] reads a [`Trace`](streamweir_trace::Trace) and answers with a [`Report`]:
//! - [`Verdict::Safe`] only if, for what the trace declares, no rule of
//!   [`Rule`] is broken in any order in which the graph may run. What was not
//!   looked at and what was taken for granted stands beside the verdict, never
//!   passed in silence.
//! - Otherwise each broken rule is a [`Hazard`] that names both nodes, their
//!   scopes, streams and launch lines, the buffers, the bytes, and the smallest
//!   change that mends it: a [`Fix`], which can be applied to the trace.
//! - A safe report carries a [`Certificate`], which [`certificate::check`]
//!   validates against the trace with code of its own.
//!
//! [`verify_driver`] does the same for a graph read back from the driver: the
//! order is the driver's, and whatever the driver has differently from what was
//! recorded is a hazard of its own.
//!
//! # Why a crate of its own
//! The allocator decides what may share bytes; this crate checks the outcome.
//! It depends on the trace alone and builds its own happens-before relation, so
//! that a mistake there is not repeated here.
//!
//! ```
//! use streamweir_trace::{Access, AccessMode, Buffer, ByteRange, Edge, Node, NodeKind, Stream, Trace};
//! use streamweir_verify::{Rule, Verdict, verify};
//!
//! let mut trace = Trace::new("decode");
//! let main = trace.add_stream(Stream::origin("main"));
//! let mut side = Stream::forked("indexer", main);
//! side.end.joined = true;
//! let side = trace.add_stream(side);
//! let keys = trace.add_buffer(Buffer::persistent("keys", ByteRange::new(0x1000, 0x2000)));
//! let store = trace.add_node(Node::new(NodeKind::kernel(), "store").on(main));
//! let logits = trace.add_node(Node::new(NodeKind::kernel(), "logits").on(side));
//! let all = ByteRange::new(0, 0x1000);
//! trace.add_access(Access::new(store, keys, all, AccessMode::Write));
//! trace.add_access(Access::new(logits, keys, all, AccessMode::Read));
//!
//! let report = verify(&trace)?;
//! assert_eq!(report.verdict, Verdict::Hazard);
//! assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);
//!
//! let mended = report.hazards[0].fix.apply(&trace);
//! assert_eq!(mended.edges, [Edge::full(store, logits)]);
//! assert_eq!(verify(&mended)?.verdict, Verdict::Safe);
//! # Ok::<(), streamweir_verify::VerifyError>(())
//! ```

#![forbid(unsafe_code)]

pub mod audit;
pub mod certificate;
pub mod session;

mod accesses;
mod context;
mod error;
mod facts;
mod findings;
mod fix;
mod graph;
mod graph_memory;
mod options;
mod reach;
mod reconcile;
mod report;
mod rule;
mod rules;
mod site;
mod sweep;
mod verdict;

pub use accesses::Shown;
pub use certificate::Certificate;
pub use error::VerifyError;
pub use fix::Fix;
pub use options::Options;
pub use reconcile::{
    Difference, Mismatch, driver_trace, reconcile, verify_driver, verify_driver_with,
};
pub use report::{Axis, Hazard, Member, Report, Stats, Subject, Verdict, chrome, dot, html};
pub use rule::Rule;
pub use rules::r09_growth::Growth;
pub use session::{verify_session, verify_session_with};
pub use site::{BufferNote, Site};
pub use verdict::{verify, verify_with};
