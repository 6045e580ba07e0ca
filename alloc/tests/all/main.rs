//! Tests of the pools, the arena and the registry through their public API.
#![cfg(not(streamweir_loom))]

mod arena;
mod device;
mod leaks;
mod oracle;
mod pools;
mod registry;
mod report;
mod stress;
