//! The simulated device: the conformance suite, and what a simulator owes.

// On the simulated device no call is undefined: a bad handle or address is an
// error, which is half of what is tested here.
#![allow(clippy::undocumented_unsafe_blocks)]

mod common;
mod conformance;
mod explore;
mod fault;
mod hostile;
mod interleaving;
mod lying;
