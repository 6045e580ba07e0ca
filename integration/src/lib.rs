//! Models and engines on streamweir.
//!
//! [`demo`] tells the story that streamweir was written for: decode layers
//! whose sparse indexer overlaps the main stream, with memory that aliases and
//! with memory that cannot. [`dsv4`] is the decode path of the model's attention
//! with all of its streams, driven by many sessions.

mod common;
pub mod demo;
pub mod dsv4;
