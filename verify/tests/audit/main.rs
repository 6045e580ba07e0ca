//! Graphs that streamweir did not record: capture dumps, operator logs, words.

mod build;
mod captures;
mod cases;
#[path = "../all/minimal.rs"]
mod minimal;
mod mutations;
mod operators;
