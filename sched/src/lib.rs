//! Crate docs.
