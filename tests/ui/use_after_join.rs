//! A stream that was joined is gone.

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
    let main = cap.origin_as::<Main>()?;
    let (indexer, _) = cap.fork_as::<Indexer, _>(&main, "indexer")?;
    cap.join(&main, indexer)?;
    indexer.launch(scale, scale { input: keys, output: keys, factor: 0.5, len: 4 })
}

fn main() {}
