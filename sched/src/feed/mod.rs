//! Feeding a step and reading it back: copies between page-locked slots and
//! persistent buffers, on the stream of the replay, without a proof per step.
//!
//! What is guaranteed:
//!
//! - A copy takes the turns of all graphs and eager runs that touch the bytes of its
//!   buffer, as a replay does (invariant 7). Inputs that are sent while a replay is in
//!   flight reach the next one and never that one; results are read before the next
//!   replay may overwrite them. On the stream of the replay that costs no call.
//! - A slot that a copy may still use is neither written nor read by the host: the feed
//!   holds it until the event of its step has passed, and it is borrowed to the host only
//!   when nobody else holds it.
//! - Feed, slots and buffers may be dropped while copies are in flight: all of it is
//!   released behind them.
//!
//! | part | what it is |
//! | --- | --- |
//! | `flight` | the ring of steps: what is in flight, and until when |
//! | `route` | whose turns a copy to or from a buffer takes |
//! | [`Feed`], [`Step`], [`StepId`] | a ring of steps with one event each |
//! | [`Staging`] | slots that are written by the host and sent |
//! | [`Readback`] | slots that are received and read by the host |
//! | `slots` | a ring of page-locked slots, sent or received |

mod flight;
mod readback;
mod route;
mod slots;
mod staging;
mod step;

pub use readback::Readback;
pub use staging::Staging;
pub use step::{Feed, Step, StepId};
