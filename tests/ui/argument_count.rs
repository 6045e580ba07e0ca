//! An argument too few.

use streamweir::kernel::{In, Out};
use streamweir::{Capture, LoadedKernel, Persistent, Result, kernel, lanes};

lanes! {
    Main;
    Indexer;
}

kernel! {
    fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32);
}

fn record(cap: &Capture, scale: &LoadedKernel<scale>, keys: &Persistent<f32>) -> Result<()> {
    cap.origin().launch(scale, (4, 1), (keys, keys, 0.5))
}

fn main() {}
