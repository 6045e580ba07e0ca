//! The token of a join serves the stream that joined, and no other.

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
    lanes! {
        Experts;
    }
    let main = cap.origin_as::<Main>()?;
    let (indexer, _) = cap.fork_as::<Indexer, _>(&main, "indexer")?;
    let (experts, _) = cap.fork_as::<Experts, _>(&main, "experts")?;
    let scores = indexer.scratch::<f32>("scores", 4)?;
    indexer.launch(scale, scale { input: keys, output: &scores, factor: 0.5, len: 4 })?;
    let seen = cap.join(&main, indexer)?;
    experts.launch(scale, scale { input: seen.see(&scores), output: keys, factor: 2.0, len: 4 })?;
    cap.join(&main, experts)?;
    Ok(())
}

fn main() {}
