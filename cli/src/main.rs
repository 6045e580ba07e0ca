//! The streamweir command.
fn main() {}
