//! What backends, and what stands on them, are tested with.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`conformance`] | the rules of stream capture, as cases that every backend passes |
//! | [`fault`] | wraps a driver and fails the call it is told to fail |
//! | [`lying`] | wraps a driver and gives wrong answers about its graphs |
//!
//! [`sim::explore`](crate::sim::explore), all interleavings of a small graph on the
//! simulated device, belongs to the same feature.

pub mod conformance;
pub mod fault;
pub mod lying;
mod wrap;
