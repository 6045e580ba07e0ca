//! What the examples for an engine share: what happens without a GPU, and
//! their kernel. Each example uses a part of it.
#![allow(dead_code)]

use std::error::Error;
use std::process::ExitCode;

use streamweir::doctor::CudaReport;
use streamweir::driver::ModuleImage;
use streamweir::kernel::{In, InOut};
use streamweir::kernels::compile::{Program, compile};
use streamweir::{Device, LoadedKernel, kernel};

kernel! {
    /// `data[i] += factor * input[i]`
    ///
    /// # Safety
    /// A thread touches its own element of each buffer, and none from `len` on.
    pub(crate) unsafe fn axpy(input: In<f32>, data: InOut<f32>, factor: f32, len: u32) {
        input.holds([len])?;
        data.holds([len])?;
        Ok((len.div_ceil(256), 256).into())
    }
}

const SOURCE: &str = r#"
extern "C" __global__ void axpy(const float* input, float* data, float factor, unsigned len) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) data[i] += factor * input[i];
}
"#;

/// The kernel, compiled for the device and loaded.
pub(crate) fn load(device: &Device) -> Result<LoadedKernel<axpy>, Box<dyn Error>> {
    let cubin = cubin(device.info().capability)?;
    let module = device.load(&ModuleImage::Cuda(cubin))?;
    // SAFETY: the source above is what the declaration says of it.
    Ok(unsafe { module.kernel() }?)
}

/// The kernel, compiled for a compute capability.
pub(crate) fn cubin(capability: (u32, u32)) -> Result<Vec<u8>, Box<dyn Error>> {
    let program = Program {
        name: "axpy.cu".into(),
        source: SOURCE.into(),
        headers: Vec::new(),
        toolkit_headers: false,
    };
    Ok(compile(&program, capability)?)
}

/// Runs an example. Without a GPU it says so, and that is a failure only with
/// `STREAMWEIR_REQUIRE_GPU=1`.
pub(crate) fn on_a_gpu(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> ExitCode {
    // `CudaContext::new` panics where there is no driver, so this asks first.
    let found = CudaReport::survey();
    if found.devices.is_empty() {
        println!("{found}");
        let required = std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1");
        return ExitCode::from(u8::from(required));
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
