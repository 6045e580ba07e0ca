//! A kernel of one's own from a template: compiled for the device at hand, with options,
//! defines and include paths, and bound by its symbol. On the simulated device its twin
//! runs.
//!
//! `cargo run --example own_kernel`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use streamweir::driver::{Backend, ModuleImage};
use streamweir::kernel::{In, Out, twin};
use streamweir::kernels::compile::{Compiler, Program};
use streamweir::{Device, LoadedKernel, kernel};

const SOURCE: &str = r#"
#include <rows.cuh>

template <int FACTOR>
__global__ void scale(const float* input, float* output, unsigned len) {
    for (unsigned i = first_row(); i < len; i += ROWS_PER_STEP) output[i] = FACTOR * input[i];
}
"#;

const HEADER: &str = "
__device__ unsigned first_row() { return blockIdx.x * blockDim.x + threadIdx.x; }
";

kernel! {
    /// `output[i] = FACTOR * input[i]`, of which the factor is the template's.
    ///
    /// # Safety
    /// A thread touches its own elements, and none from `len` on.
    unsafe fn scale(input: In<f32>, output: Out<f32>, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((4, 64).into())
    }
}

fn load(device: &Device, includes: &Path) -> Result<LoadedKernel<scale>, Box<dyn Error>> {
    if device.info().backend != Backend::Cuda {
        let twin = twin::<scale>(|block, (input, output, len)| {
            for at in (block.index()[0] as usize..len as usize).step_by(4) {
                let value = block.read::<f32>(input.at(at), 1)?[0];
                block.write(output.at(at), &[3.0 * value])?;
            }
            Ok(())
        });
        let module = device.load(&ModuleImage::Sim(vec![twin]))?;
        // SAFETY: the twin does what the declaration says.
        return Ok(unsafe { module.kernel() }?);
    }
    let program = Program {
        name: "scale.cu".into(),
        source: SOURCE.into(),
        headers: Vec::new(),
        toolkit_headers: false,
    };
    // begin: docs/guide.md, compiling
    // Any architecture that NVRTC knows. The cubin is kept in the cache on disk; its key
    // is all that it depends on, included files among it.
    let compiled = Compiler::new(device.info().capability)
        .define("ROWS_PER_STEP", "256")
        .include_path(includes)
        .option("--use_fast_math")
        .name("scale<3>") // instantiates the template
        .compile(&program)?;
    let module = device.load(&ModuleImage::Cuda(compiled.cubin))?;
    // SAFETY: this instance of the template does what the declaration says.
    let kernel = unsafe { module.kernel_named::<scale>(&compiled.names["scale<3>"]) }?;
    // end: docs/guide.md, compiling
    Ok(kernel)
}

/// The example, on any device.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let includes =
        std::env::temp_dir().join(format!("streamweir-own-kernel-{}", std::process::id()));
    std::fs::create_dir_all(&includes)?;
    std::fs::write(includes.join("rows.cuh"), HEADER)?;
    let kernel = load(device, &includes)?;
    std::fs::remove_dir_all(&includes)?;
    let values: Vec<f32> = (0..1000).map(|value| value as f32).collect();
    let input = device.persistent_from("input", &values)?;
    let output = device.persistent::<f32>("output", values.len())?;
    let len = values.len() as u32;
    let (graph, ()) = device.capture("step", |cap| {
        let (input, output) = (&input, &output);
        cap.origin().launch(&kernel, scale { input, output, len })
    })?;
    graph.replay(&device.stream("replay")?)?;
    let right = output
        .download()?
        .iter()
        .zip(&values)
        .all(|(out, value)| *out == 3.0 * value);
    println!(
        "{}: {}",
        device.info().name,
        if right { "right" } else { "wrong" }
    );
    match right {
        true => Ok(()),
        false => Err("the kernel is another".into()),
    }
}

fn open() -> Result<Device, streamweir::Error> {
    #[cfg(feature = "cuda")]
    match Device::cuda(0) {
        Err(why) if std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_none_or(|v| v != "1") => {
            println!("On the simulated device, for there is no other: {why}.");
        }
        opened => return opened,
    }
    Ok(Device::sim(1))
}

fn main() -> ExitCode {
    let done = open().map_err(Into::into).and_then(|device| run(&device));
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
