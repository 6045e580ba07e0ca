//! Tests of plans and floors through the public API.

mod online;
mod plan;
mod programs;
