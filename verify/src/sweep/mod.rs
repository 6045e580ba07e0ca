//! Which accesses conflict, in two passes.
//!
//! # What is guaranteed
//! Pass 1 ([`suspects`]) goes through the accesses once, in the order of the
//! graph, over a map of the bytes. It finds
//! - every byte at which some access is not ordered after an earlier one that it
//!   conflicts with, in the same buffer (R1) or in another (R2);
//! - every byte that passes from one buffer to another while the first is not
//!   done, or that a carried buffer shares: only there can accesses that are
//!   ordered destroy each other (R2);
//! - every read of scratch that no write is known to precede (R13);
//! - every access that its buffer may not be there for (R4), because it looks at
//!   each access and its clock anyway.
//!
//! A byte that it leaves out has no such hazard. Pass 2 ([`within_buffers`] for
//! R1, [`across_buffers`] for R2) goes back over what is left and hands each pair
//! of accesses that may be a hazard to its rule, exactly. A safe graph has no pass
//! 2.
//!
//! # Why not byte by byte, in the order of addresses
//! Sorting by address needs a copy of all accesses. The order of the graph is
//! there already, and what a graph touches at one time lies in few places.
//!
//! # What it costs
//! With `w` chains, `a` accesses, `k` the number of runs of bytes that they meet
//! and `h` conflicting pairs: O((a + k) * w) for pass 1 in memory O(a + k), and
//! O(h) more for pass 2, which keeps none of the pairs. A write that is ordered after all that was there before makes one run
//! of what it covers, so `k` stays near `a` however often bytes are reused.
//!
//! # Why successive owners of the same bytes need not be compared all with all
//! Say each buffer takes the bytes over when its predecessor there is done: its
//! first node stands behind the last node of the predecessor, in the order of
//! the graph. Then that holds for all earlier owners too, so no two of them go
//! both ways, and whether accesses are ordered is decided by those that the
//! history of the bytes keeps.

mod bits;
mod history;
mod pairs;
mod suspects;
mod tangle;

pub(crate) use pairs::{Met, across_buffers, within_buffers};
pub(crate) use suspects::{Suspects, suspects};
pub(crate) use tangle::{Direction, overwrites_carried};
