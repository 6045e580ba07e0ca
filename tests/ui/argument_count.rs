//! An argument too few.

use streamweir::kernel::{In, Out};
use streamweir::{Capture, LoadedKernel, Persistent, Result, kernel, lanes};

lanes! {
    Main;
    Indexer;
}

kernel! {
    unsafe fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
}

fn record(cap: &Capture, scale: &LoadedKernel<scale>, keys: &Persistent<f32>) -> Result<()> {
    cap.origin().launch(scale, scale { input: keys, output: keys, factor: 0.5 })
}

fn main() {}
