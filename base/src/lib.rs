//! What the allocator and the device layer both need, and neither owns.
//!
//! `streamweir-alloc` computes with addresses and knows no driver;
//! `streamweir-hal` calls drivers and knows no pools. What they have in common
//! is here, so that neither depends on the other:
//!
//! - [`sync`]: locks with a place in one order of locks, and their loom twins.
//! - [`RetireQueue`]: things whose drop has to wait for an event.
//! - [`Backing`]: where address ranges come from.
//! - [`inside`](mod@inside): which capture the calling thread is in.
//!
//! # Guarantees
//! - No caller's code runs while a lock of this crate is held.
//! - With debug assertions a thread that takes locks in an order in which two
//!   threads could wait for each other is told so, at once and by name.
#![forbid(unsafe_code)]

mod backing;
pub mod inside;
mod retire;
pub mod sync;

pub use backing::{ALIGNMENT, Backing, BackingError};
pub use retire::RetireQueue;
