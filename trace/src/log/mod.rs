//! Allocation logs: what a program takes and lets go, and which kernels use it,
//! in the order of its host. The input of the placement tools, next to lists of
//! lifetimes on one axis ([`from_csv`](AllocLog::from_csv)), which become a log of
//! one stream.
//!
//! # What is guaranteed
//! A log that was read is sound by itself: streams exist, each buffer is taken
//! once, used while it is held and freed at most once, and the sizes of all
//! together fit an address. Whether each use is ordered after the place where the
//! buffer was taken is not looked at here: that takes happens-before, and this
//! crate has none.

mod csv;
mod error;
mod json;
mod model;
mod trace;

pub use error::LogError;
pub use model::{ALLOC_LOG_FORMAT, AllocLog, LOG_ALIGNMENT, LogBuffer, LogEvent};
