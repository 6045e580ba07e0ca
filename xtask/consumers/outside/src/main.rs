//! The least that a dependent does: link the crate.

use streamweir as _;

fn main() {}
