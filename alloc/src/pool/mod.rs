//! The scratch pools of one capture.
//!
//! # What is promised
//! Under [`Policy::ISOLATED`] and [`Policy::ORDERED`] two blocks share bytes only
//! if every access of one happens before every access of the other, provided
//! that accesses are recorded and that each happens after its block's alloc point
//! ([`Pools::visible`]). Under `ISOLATED` blocks of different streams share no
//! bytes at all.
//!
//! # The rule
//! Freed bytes carry a clock, their *need*. A request on a stream `s` may have
//! them iff the need is within the frontier of `s`. Then nothing is inherited:
//! the new block's alloc point is the frontier of `s`. On its free, the need of
//! its bytes is the join of
//!
//! - its alloc point, and
//! - for each stream the last node that accessed it.
//!
//! # Why this is enough
//! Claim: *whatever has reached the need of some free bytes happens after every
//! access to these bytes so far, by whichever block.* By induction over the free
//! of blocks B on the bytes:
//!
//! - An access of B itself is on some stream at or before the last node of that
//!   stream that accessed B, which the need holds.
//! - An access of an earlier block is reached by the need that the bytes had when
//!   B took them (induction). That need was within the frontier of B's stream,
//!   which is B's alloc point, which the new need holds. Frontiers are closed
//!   ([`clocks`](crate::clocks)), so what has reached the new need has reached
//!   the old one.
//! - A block that was never accessed is covered by the second case alone: with
//!   no users its need is its alloc point, and not nothing. Otherwise bytes of A,
//!   taken by an untouched B on a stream that had joined A's reader and freed
//!   again, would go to a stream that has not.
//! - A split hands its need to both parts, a merge joins those of both: each
//!   byte's need only grows by that. A block may lie in bytes of several needs,
//!   all of them within the frontier of its stream.
//!
//! So all earlier accesses happen before the alloc point of the next block, and
//! its accesses happen after it. Streams forked later start from a frontier that
//! exists already, so they are no special case. For a block with users the alloc
//! point adds nothing, as each access happens after it; it costs no reuse, and
//! keeps the claim true when foreign code breaks that rule (the verifier reports
//! it, R4).
//!
//! # When the users are not known
//! [`free_unknown`](Pools::free_unknown) takes for users all streams that are
//! ordered after the alloc point when the host lets go, each up to its last node.
//! An access of the block happens after its alloc point and is recorded before
//! the free, so its stream is one of them: when the access was recorded, its
//! stream's frontier held the alloc point, and frontiers only grow. The claim
//! above then holds as it stands.
//!
//! The number of nodes recorded at a free goes into the trace but decides
//! nothing: a host-side drop is not an event.

mod chunks;
mod deferred;
mod gaps;
mod pools;
mod space;
mod state;
mod statement;
mod waiting;

pub use self::pools::Pools;
