//! An engine that has a context, a stream and memory of its own, all made with
//! cudarc. streamweir works with them as they are: no copy, no second context.
//!
//! `cargo run --example adopt_cudarc`

mod common;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use streamweir::cudarc::driver::CudaContext;
use streamweir::{CaptureOptions, Device, DeviceStream, Persistent, Verify};

use common::axpy;

const LEN: usize = 4096;
const REPLAYS: usize = 10;

fn main() -> ExitCode {
    common::on_a_gpu(run)
}

#[rustfmt::skip] // A launch reads best on one line.
fn run() -> Result<(), Box<dyn Error>> {
    // What the engine has. Not the default stream: CUDA cannot capture that
    // one, and streamweir refuses to adopt it.
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    let hidden = Arc::new(engine.clone_htod(&vec![3.0f32; LEN])?);
    let total = Arc::new(engine.alloc_zeros::<f32>(LEN)?);

    // begin: docs/engines.md, adopt
    // Adoption, outside any capture. It waits for what cudarc has enqueued on
    // a slice, such as the upload above. The replays will be work that cudarc
    // knows nothing of: the engine orders them with its own use of the slices
    // by running both on one stream.
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let input = Persistent::from_cudarc(&device, "hidden", &hidden)?;
    let output = Persistent::from_cudarc(&device, "total", &total)?;
    let axpy = common::load(&device)?;
    let len = LEN as u32;

    let options = CaptureOptions::new("decode").verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, streamweir::Error>(options, |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let left = main.scratch::<f32>("left", LEN)?;
        let right = side.scratch::<f32>("right", LEN)?;
        // Scratch holds anything at first; reading it before a write is R13.
        main.fill(&left, 0)?;
        side.fill(&right, 0)?;
        main.launch(&axpy, axpy { input: &input, data: &left, factor: 2.0, len })?;
        side.launch(&axpy, axpy { input: &input, data: &right, factor: 5.0, len })?;
        let seen = cap.join(&main, side)?;
        main.launch(&axpy, axpy { input: &left, data: &output, factor: 1.0, len })?;
        main.launch(&axpy, axpy { input: seen.see(&right), data: &output, factor: 1.0, len })
    })?;
    print!("{}", graph.report());

    // The engine goes on as before: our launches, then its own download.
    for _ in 0..REPLAYS {
        graph.replay(&stream)?;
    }
    // end: docs/engines.md, adopt
    let expected = REPLAYS as f32 * (2.0 * 3.0 + 5.0 * 3.0);
    assert_eq!(engine.clone_dtoh(&*total)?, vec![expected; LEN]);

    // The graph holds the slices by itself. It gives them back when its last
    // launch has ended, and then they are the engine's alone.
    drop((input, output));
    assert!(Arc::strong_count(&hidden) > 1 && Arc::strong_count(&total) > 1);
    drop(graph);
    device.synchronize()?;
    assert!(Arc::strong_count(&hidden) == 1 && Arc::strong_count(&total) == 1);
    Ok(())
}
