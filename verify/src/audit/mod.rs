//! Graphs that streamweir did not record: what can be said of them, and how
//! sure it is.
//!
//! # Three sources, three strengths
//! | source | what it says of a node | what a verdict can be |
//! | --- | --- | --- |
//! | declared accesses | which bytes, and how | hazard, safe |
//! | operator log | which tensors its operator reads and writes | hazard, safe with assumptions |
//! | pointers only | which memory it has an address of | possible, safe with assumptions |
//!
//! They are never mixed: what rests on a word of a parameter alone is
//! [`possible`](crate::Verdict::Possible) however likely it looks, and a
//! verdict of safe lists what it takes for granted.

mod known;
mod params;
mod words;

pub use known::{Known, KnownMemory, Life, Meaning, Memory};
pub use params::{ParamShape, const_params};
pub use words::{Words, scan};
