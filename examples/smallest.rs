//! The whole path of a user: a kernel of one's own, two streams, a join, a
//! proof, a replay. Runs on the first CUDA device, else on the simulated one.
//!
//! `cargo run --example smallest`

use std::error::Error;
use std::process::ExitCode;

use streamweir::driver::{Backend, ModuleImage};
use streamweir::kernel::{In, Out, twin};
use streamweir::kernels::compile::{Program, compile};
use streamweir::{Device, kernel};

// The access modes are what the proof is made from, and the body is what a launch is
// checked by. Number and sizes of the parameters are checked against the compiled
// code; for the rest the author vouches.
kernel! {
    /// `output[i] = a[i] + b[i]`
    ///
    /// # Safety
    /// A thread touches its own element of each buffer, and none from `len` on.
    unsafe fn add(a: In<f32>, b: In<f32>, output: Out<f32>, len: u32) {
        a.holds([len])?;
        b.holds([len])?;
        output.holds([len])?;
        Ok((len.div_ceil(THREADS), THREADS).into())
    }
}

/// The kernel for a GPU; `extern "C"`, so that its symbol is the name above.
const SOURCE: &str = r#"
extern "C" __global__ void add(const float* a, const float* b, float* output, unsigned len) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) output[i] = a[i] + b[i];
}
"#;

const LEN: usize = 1000;
const THREADS: u32 = 256;

fn image(device: &Device) -> Result<ModuleImage, Box<dyn Error>> {
    if device.info().backend == Backend::Cuda {
        let program = Program {
            name: "smallest.cu".into(),
            source: SOURCE.into(),
            headers: Vec::new(),
            toolkit_headers: false,
        };
        // By NVRTC the first time, from the cache on disk after that.
        let cubin = compile(&program, device.info().capability)?;
        return Ok(ModuleImage::Cuda(cubin));
    }
    // Its CPU twin for the simulated device. One call runs one thread block.
    let twin = twin::<add>(|block, (a, b, output, len)| {
        let first = block.index()[0] * THREADS;
        let count = THREADS.min(len - first) as usize;
        let first = first as usize;
        let a: Vec<f32> = block.read(a.at(first), count)?.to_vec();
        let b: &[f32] = block.read(b.at(first), count)?;
        let sums: Vec<f32> = a.iter().zip(b).map(|(a, b)| a + b).collect();
        block.write(output.at(first), &sums)
    });
    Ok(ModuleImage::Sim(vec![twin]))
}

#[rustfmt::skip] // A launch reads best on one line.
fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    // Code is loaded and memory registered before the capture; inside, either
    // is an error.
    let module = device.load(&image(device)?)?;
    // SAFETY: source and twin above do what the declaration says.
    let add = unsafe { module.kernel::<add>() }?;
    let len = LEN as u32;
    let keys = device.persistent_from("keys", &[1.0f32; LEN])?;
    let hidden = device.persistent_from("hidden", &[10.0f32; LEN])?;
    let out = device.persistent::<f32>("out", LEN)?;

    // begin: docs/engines.md, own capture
    let (graph, ()) = device.capture::<_, streamweir::Error>("decode", |cap| {
        let main = cap.origin();
        // From here the indexer may overlap with main. It has its own scratch
        // pool, so what it takes cannot alias what main takes.
        let indexer = cap.fork(&main, "indexer")?;
        let scores = indexer.scratch::<f32>("scores", LEN)?;
        let layer = indexer.scope("layer 2/indexer"); // what a report prints
        layer.launch(&add, add { a: &keys, b: &keys, output: &scores, len })?;

        let query = main.scratch::<f32>("query", LEN)?;
        main.launch(&add, add { a: &keys, b: &hidden, output: &query, len })?;

        // Main continues after the indexer; the token shows it the scores.
        let seen = cap.join(&main, indexer)?;
        main.launch(&add, add { a: &query, b: seen.see(&scores), output: &out, len })
        // The host drops the scratch here; its bytes stay the graph's.
    })?; // ended, read back from the driver, proved, instantiated

    print!("{}: {}", device.info().name, graph.report());
    assert!(graph.certificate().is_some());
    let stream = device.stream("replay")?;
    graph.replay(&stream)?;
    // end: docs/engines.md, own capture
    assert_eq!(out.download()?, [(1.0 + 1.0) + (1.0 + 10.0); LEN]);
    Ok(())
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
    let done = open().map_err(Box::from).and_then(|device| run(&device));
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
