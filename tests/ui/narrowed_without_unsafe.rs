//! That a kernel keeps to a part of a buffer is a promise of its caller.

use streamweir::{Persistent, Result, narrow};

fn first(keys: &Persistent<f32>) -> Result<()> {
    narrow(keys, 0..1).map(drop)
}

fn main() {}
