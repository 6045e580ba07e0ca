//! Audits and trials of graphs that were made on the simulated device without us.

// On the simulated device no call is undefined: a bad handle or address is an
// error, which is half of what is tested here.
#![allow(clippy::undocumented_unsafe_blocks)]

mod audit;
// Driver calls in short forms, as in the tests of the crate that owns the driver.
#[allow(dead_code, reason = "not all of them are needed here")]
#[path = "../../../hal/tests/sim/common.rs"]
mod common;
mod infer;
