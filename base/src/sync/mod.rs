//! Locks and atomics in the shape of `parking_lot`, or loom's under
//! `--cfg streamweir_loom`.
//!
//! Code is written once against this module. Three rules make it checkable by
//! loom and safe to hold:
//!
//! - ownership stays [`std::sync::Arc`] and [`std::sync::Weak`]; loom need not
//!   see reference counts to see the data that locks protect;
//! - no caller's code (a backing, a keep-alive's drop, an event query) runs
//!   while a lock is held;
//! - no lock is built in a `const` or `static`, because loom's cannot be.
//!
//! Lock order: every lock has a [`Rank`], and a thread takes locks of rising
//! rank only, so that no two threads can wait for each other. A lock made by
//! `Mutex::new` is a leaf, under which nothing is locked at all. With debug
//! assertions the order is checked at every lock, in whatever test comes that
//! way; without them nothing is left of the check.

mod rank;

#[cfg(streamweir_loom)]
mod modelled;
#[cfg(not(streamweir_loom))]
mod ranked;

#[cfg(streamweir_loom)]
pub use modelled::{Condvar, Mutex, MutexGuard};
pub use rank::Rank;
#[cfg(not(streamweir_loom))]
pub use ranked::{Condvar, Mutex, MutexGuard};

/// Atomics.
#[cfg(not(streamweir_loom))]
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Atomics.
#[cfg(streamweir_loom)]
pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
