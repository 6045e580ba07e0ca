//! Graphs that streamweir did not record: what can be said of them, and how
//! sure it is.
//!
//! # Three sources, three strengths
//! | source | what it says of a node | what a verdict can be |
//! | --- | --- | --- |
//! | declared accesses (a trace) | which bytes, and how | hazard, safe |
//! | operator log (a dump) | which tensors its operator reads and writes | hazard, safe with assumptions |
//! | pointers only (a dump, a live graph) | which memory it has an address of | possible, safe with assumptions |
//!
//! They are never mixed: what rests on a word of a parameter alone is
//! [`Possible`](crate::Verdict::Possible) however likely it looks, and a
//! verdict of safe lists what it takes for granted. Copies and fills say what
//! they touch in every source, so two of them can prove a hazard in each.
//!
//! # Tensors with gaps
//! The operator log gives a tensor's first and last byte. Two views of one
//! storage, say the even and the odd columns of a matrix, overlap between
//! those and share no byte. Where the log also gives sizes and strides, hazards
//! are held to the bytes themselves. Where it does not, a hazard that rests on
//! two such views and nothing else is not proven, and the report says
//! `possible`; it is proven when they begin at the same byte, end at the same
//! byte, or one of them is the whole storage.
//!
//! # What a dump does not say
//! Parameters of a kernel, the host end of a copy, the allocator's events and its
//! memory may be missing. Nothing is taken to be empty for that: a kernel of
//! unknown parameters may touch all that its operator names and all memory that
//! no operator names, and whatever else is not known is an assumption of the
//! verdict.

mod align;
mod audited;
mod blocks;
mod budget;
mod demangle;
mod error;
mod file;
mod from_dump;
mod graph;
mod host;
mod memory;
mod operators;
mod params;
mod pointers;
mod shapes;
mod storages;
mod strided;

pub use crate::accesses::known::{Known, KnownMemory, Life, Meaning, Memory};
pub use crate::accesses::words::{Words, scan};
pub use audited::{Audited, Mode};
pub use error::AuditError;
pub use file::{Audit, audit_file, audit_json};
pub use params::{ParamShape, const_params};
