//! Tests of plans and floors through the public API.

mod large;
mod online;
mod plan;
mod programs;
