//! A buffer of another element type.

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
    let main = cap.origin_as::<Main>()?;
    let pages = main.scratch::<u32>("pages", 4)?;
    main.launch(scale, (4, 1), (keys, &pages, 0.5, 4))
}

fn main() {}
