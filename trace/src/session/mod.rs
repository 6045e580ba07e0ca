//! The record of a session: launches of graphs and the work around them.
//!
//! A [`Trace`](crate::Trace) is about one graph. A [`Session`] is about what a
//! program does with its graphs: it launches them on streams, stages their
//! inputs, copies their outputs away, runs kernels in between, and orders all
//! that with events and synchronisation. A graph enters as the bytes that it
//! reads and writes, with addresses, whatever memory they are: persistent
//! memory, scratch of an arena, memory of the graph itself.
//!
//! Steps stand in the order in which the host made the calls. What a step means
//! for the order of the others is said at [`StepKind`]; deciding what may
//! overlap is the verifier's business.
//!
//! ```
//! use streamweir_trace::session::{Place, Session, Step, Use};
//! use streamweir_trace::{AccessMode, ByteRange};
//!
//! let mut session = Session::new("two batches");
//! let main = session.add_stream("main");
//! let staged = session.add_host_buffer("staged tokens", ByteRange::new(0x1000, 0x1100));
//! let tokens = session.add_buffer("tokens", ByteRange::new(0x9000, 0x9100));
//! let decode = session.add_graph("decode", vec![Use::all(tokens, 0x100, AccessMode::Read)]);
//! session.push(Step::host("fill", vec![Use::all(staged, 0x100, AccessMode::Write)]));
//! session.push(Step::copy("stage", main, Place::start(staged), Place::start(tokens), 0x100));
//! session.push(Step::launch("decode", main, decode));
//! session.check()?;
//! let file = session.to_json();
//! assert_eq!(Session::from_json(file.as_bytes())?, session);
//! # Ok::<(), streamweir_trace::session::SessionError>(())
//! ```

mod check;
mod error;
mod json;
mod model;
mod step;

pub use error::{FORMAT, SessionError, VERSION};
pub use model::{Session, SessionBuffer, SessionGraph, SessionStream};
pub use step::{Place, Step, StepKind, Use};
