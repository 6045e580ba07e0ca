//! Where commands go: the four ways in which a capture meets the driver.
//!
//! | sink | a command goes | the end |
//! | --- | --- | --- |
//! | [`Live`] | into a capture of ours, when it is recorded | our graph |
//! | [`Planned`] | into a capture of ours, when all is placed | our graph |
//! | [`Attached`] | into an engine's capture, when it is recorded | a part of the engine's graph |
//! | [`Eager`] | to the device, when it is recorded | work under way |
//!
//! Eager runs have a [`home`], where arena, streams and proofs stay for the next run;
//! [`like`] is when a run needs no proof, and [`waits`] what it comes after.
//!
//! A sink has the driver's streams and calls the driver; it records nothing
//! itself. What it finds out, which node a command became, goes into
//! [`Nodes`](super::nodes::Nodes). No sink runs code of the user, except for
//! [`Planned`], which makes the calls that were put aside, at its end, when
//! nothing is borrowed.

mod any;
mod attached;
mod contract;
mod eager;
mod emit;
mod home;
mod like;
mod live;
mod planned;
mod waits;

pub(super) use self::any::AnySink;
pub(super) use self::attached::{Attached, tie};
pub(super) use self::contract::{Frontier, Made, Sink};
pub(super) use self::eager::Eager;
pub(super) use self::home::{Home, Proved};
pub(super) use self::like::{Likeness, may_be_compared};
pub(super) use self::live::Live;
pub(super) use self::planned::Planned;
