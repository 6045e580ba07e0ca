//! Models and engines on streamweir, through nothing but its public surface.
//!
//! [`dsv4`] is the decode path of DeepSeek-V4's attention with all of its streams,
//! driven by many sessions, and the whole model in plain Rust. Engines of others, which bring much to build with them,
//! are workspaces of their own in `candle/` and `cubecl/`.

mod common;
pub mod dsv4;
