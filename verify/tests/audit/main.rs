//! Graphs that streamweir did not record: capture dumps, operator logs, words.

mod build;
mod captures;
mod mutations;
mod operators;
