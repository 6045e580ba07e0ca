//! Whether code is what a declaration says of it, only its owner knows.

use streamweir::kernel::{In, Out};
use streamweir::{LoadedKernel, Module, Result, kernel};

kernel! {
    unsafe fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
}

fn bind(module: &Module) -> Result<LoadedKernel<scale>> {
    module.kernel::<scale>()
}

fn main() {}
