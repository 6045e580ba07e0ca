//! Models and engines on streamweir.
//!
//! [`demo`] tells the story that streamweir was written for: decode layers
//! whose sparse indexer overlaps the main stream, with memory that aliases and
//! with memory that cannot.

pub mod demo;
