//! Scratch pools for graph capture: memory that streams which overlap at replay
//! never share by accident.
//!
//! Under capture a host-side drop says nothing about when the device is done
//! with a buffer: at replay there is no host between launches. This crate hands
//! out bytes by the one thing that does hold at replay, the happens-before of
//! the captured graph.
//!
//! - [`Arena`]: the address range that a replay group takes its pools from.
//! - [`Pools`]: the scratch pools of one capture, one per captured stream (one
//!   tag each), with the chain clocks that decide about reuse.
//! - [`Policy`]: whether pools of different tags may share bytes.
//! - [`Registry`]: persistent buffers, and what is remembered of those gone.
//! - [`replay`](mod@replay): a log of allocations, played through the pools without a device.
//!
//! The crate is pure: it computes with addresses, touches no memory behind them
//! and knows no driver. An address range comes from a [`Backing`]. It shares
//! nothing with the verifier, which judges its decisions.
//!
//! ```
//! use std::sync::Arc;
//! use streamweir_alloc::{Arena, ArenaConfig, Backing, BackingError, Policy, Pools};
//! use streamweir_trace::ByteRange;
//!
//! struct Fixed;
//! impl Backing for Fixed {
//!     fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
//!         Ok(ByteRange::new(0x1000, 0x1000 + bytes))
//!     }
//!     fn release(&self, _segment: ByteRange) {}
//! }
//!
//! # fn main() -> Result<(), streamweir_alloc::AllocError> {
//! let arena = Arena::new("decode", Arc::new(Fixed), ArenaConfig::default());
//! let pools = Pools::new(arena.open(), Policy::ISOLATED);
//! let main = pools.add_stream("main", "main")?;
//! let side = pools.add_stream("indexer", "indexer")?;
//! pools.fork(main, side)?;
//!
//! let keys = pools.alloc(main, 4096, "keys")?;
//! pools.record(main, &[keys.id])?;
//! pools.fork(main, side)?;
//! pools.record(side, &[keys.id])?; // the side stream still reads it at replay
//! pools.free(keys.id)?;
//!
//! let logits = pools.alloc(main, 4096, "logits")?;
//! assert!(!logits.range.overlaps(&keys.range), "main has not joined the reader");
//!
//! pools.join(main, side)?;
//! let after = pools.alloc(main, 4096, "after")?;
//! assert_eq!(after.range, keys.range);
//! let lease = pools.finish()?; // what the graph keeps
//! # drop(lease);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod alignment;
mod arena;
mod block;
pub mod clocks;
mod error;
mod leaks;
mod policy;
mod pool;
mod registry;
pub mod replay;
mod report;
mod size;

pub use arena::{Arena, ArenaConfig, Holder, Lease, View};
pub use block::{Block, BlockId, BlockKind, BlockRecord};
pub use clocks::{Clock, Position};
pub use error::AllocError;
pub use leaks::{Leak, Leaks};
pub use policy::Policy;
pub use pool::Pools;
pub use registry::{Lookup, PersistentEntry, Registry, RegistryError, Tombstone};
pub use report::{BufferUse, PoolReport, StreamUse};
/// What an [`Arena`] is made on, how it fails, and what it aligns to.
pub use streamweir_base::{ALIGNMENT, Backing, BackingError};
