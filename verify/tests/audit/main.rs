//! Graphs that streamweir did not record: capture dumps, operator logs, words.

mod captures;
