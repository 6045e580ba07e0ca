//! Addresses as numbers: nobody vouches for what the kernel does with them.

use streamweir::{Capture, LoadedKernel, Result, kernel};

kernel! {
    fn raw(p: u64, q: u64);
}

fn record(cap: &Capture, loaded: &LoadedKernel<raw>) -> Result<()> {
    cap.origin().launch(loaded, raw { p: 0x1000, q: 0x2000 })
}

fn main() {}
