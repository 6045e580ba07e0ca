//! A kernel of cubecl's, a captured graph with work on two streams, a kernel of
//! cubecl's again, over the same buffers.
//!
//! `cargo run --release --example interop`, in `integration/cubecl`

use std::error::Error;
use std::process::ExitCode;

use cubecl_core as cubecl;
use cubecl_core::prelude::*;
use cubecl_cuda::{CudaDevice, CudaRuntime};
use streamweir::{CaptureOptions, Device, Verify};
use streamweir::doctor::CudaReport;
use streamweir::driver::ModuleImage;
use streamweir::kernel;
use streamweir::kernel::{In, InOut};
use streamweir::kernels::compile::{Program, compile};
use streamweir_cubecl::{cubecl_to_graph, graph_to_cubecl, persistent};

const LEN: usize = 1 << 16;
const STEPS: usize = 8;

/// The engine's kernel: `output = factor * input`.
#[cube(launch)]
fn times(input: &Array<f32>, output: &mut Array<f32>, factor: f32) {
    if ABSOLUTE_POS < input.len() {
        output[ABSOLUTE_POS] = factor * input[ABSOLUTE_POS];
    }
}

kernel! {
    /// `data[i] += factor * input[i]`
    ///
    /// # Safety
    /// A thread touches its own element of each buffer, and none from `len` on.
    unsafe fn axpy(input: In<f32>, data: InOut<f32>, factor: f32, len: u32) {
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

fn main() -> ExitCode {
    // cubecl panics where there is no driver, so this asks first.
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

#[rustfmt::skip] // A launch reads best on one line.
fn run() -> Result<(), Box<dyn Error>> {
    let device = Device::cuda(0)?;
    let program = Program {
        name: "axpy.cu".into(),
        source: SOURCE.into(),
        headers: Vec::new(),
        toolkit_headers: false,
    };
    let cubin = compile(&program, device.info().capability)?;
    let module = device.load(&ModuleImage::Cuda(cubin))?;
    // SAFETY: the source above is what the declaration says of it.
    let axpy = unsafe { module.kernel::<axpy>() }?;
    let len = LEN as u32;

    // begin: docs/engines.md, cubecl
    let client = CudaRuntime::client(&CudaDevice::default());
    let hidden = client.create_from_slice(f32::as_bytes(&vec![3.0; LEN]));
    let total = client.create_from_slice(f32::as_bytes(&vec![0.0; LEN]));
    let scaled = client.empty(size_of::<f32>() * LEN);

    // The engine's buffers, where they lie.
    // SAFETY: the same CUDA device, and the steps below are joined.
    let (input, output) = unsafe {
        (
            persistent::<f32>(&device, &client, "scaled", &scaled)?,
            persistent::<f32>(&device, &client, "total", &total)?,
        )
    };
    let options = CaptureOptions::new("between").verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, streamweir::Error>(options, |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let (left, right) = (
            main.scratch::<f32>("left", LEN)?,
            side.scratch::<f32>("right", LEN)?,
        );
        main.fill(&left, 0)?;
        side.fill(&right, 0)?;
        main.launch(&axpy, axpy { input: &input, data: &left, factor: 1.0, len })?;
        side.launch(&axpy, axpy { input: &input, data: &right, factor: 2.0, len })?;
        let seen = cap.join(&main, side)?;
        main.launch(&axpy, axpy { input: &left, data: &output, factor: 1.0, len })?;
        main.launch(&axpy, axpy { input: seen.see(&right), data: &output, factor: 1.0, len })
    })?;

    let stream = device.stream("replay")?;
    for step in 1..=STEPS {
        scale(&client, &hidden, &scaled, step as f32); // cubecl
        cubecl_to_graph(&client)?;
        graph.replay(&stream)?; // streamweir
        graph_to_cubecl(&stream)?;
    }
    // end: docs/engines.md, cubecl

    print!("{}", graph.report());
    // A kernel of cubecl's again, over what the graph has made.
    let halved = client.empty(size_of::<f32>() * LEN);
    scale(&client, &total, &halved, 0.5);
    let bytes = client
        .read_one(halved)
        .map_err(|error| format!("{error:?}"))?;
    // Each step adds (1 + 2) * step * 3, halved at the end.
    let expected = 0.5 * 9.0 * (STEPS * (STEPS + 1) / 2) as f32;
    assert_eq!(f32::from_bytes(&bytes), vec![expected; LEN]);
    println!("{STEPS} steps of cubecl, graph, cubecl: {expected} everywhere");
    Ok(())
}

/// `output = factor * input`, by cubecl.
fn scale(
    client: &streamweir_cubecl::Client,
    input: &cubecl_core::server::Handle,
    output: &cubecl_core::server::Handle,
    factor: f32,
) {
    // SAFETY: both buffers have LEN elements.
    let (input, output) = unsafe {
        (
            ArrayArg::from_raw_parts(input.clone(), LEN),
            ArrayArg::from_raw_parts(output.clone(), LEN),
        )
    };
    let count = CubeCount::Static(LEN as u32 / 256, 1, 1);
    times::launch::<CudaRuntime>(client, count, CubeDim::new_1d(256), input, output, factor);
}
