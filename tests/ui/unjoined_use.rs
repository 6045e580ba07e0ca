//! A buffer of a stream that was not joined.

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
    let scores = indexer.scratch::<f32>("scores", 4)?;
    indexer.launch(scale, scale { input: keys, output: &scores, factor: 0.5, len: 4 })?;
    main.launch(scale, scale { input: &scores, output: keys, factor: 2.0, len: 4 })?;
    cap.join(&main, indexer)?;
    Ok(())
}

fn main() {}
