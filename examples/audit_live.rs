//! A graph that an engine captured itself, audited after the fact: nothing is
//! declared, two kernels may touch one buffer, and running each of them alone
//! shows that both write it.
//!
//! `cargo run --example audit_live`
//!
//! The kernels are run by this program, started again: it gets to the same call
//! there and goes no further. So what an audited program does before the call
//! should be harmless to do twice.

mod common;

use std::error::Error;
use std::process::ExitCode;

use streamweir::Device;
use streamweir::audit::{AuditOptions, audit};
use streamweir::cudarc::driver::{CudaContext, DevicePtr, LaunchConfig, PushKernelArg, sys};
use streamweir::cudarc::nvrtc::Ptx;
use streamweir::driver::GraphHandle;
use streamweir::infer::{InferOptions, infer_writes};
use streamweir::trace::ByteRange;
use streamweir::verify::{Options, Verdict};

const LEN: u32 = 4096;
const MODE: sys::CUstreamCaptureMode =
    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

fn main() -> ExitCode {
    common::on_a_gpu(run)
}

fn run() -> Result<(), Box<dyn Error>> {
    // The engine: its context, streams, memory and code, and no word of what
    // its kernels touch.
    let context = CudaContext::new(0)?;
    // SAFETY: the graph is read and never launched, and all memory outlives it.
    unsafe { context.disable_event_tracking() };
    let (main, side) = (context.new_stream()?, context.new_stream()?);
    let input = main.clone_htod(&vec![3.0f32; LEN as usize])?;
    let sums = main.clone_htod(&vec![1.0f32; LEN as usize])?;
    main.synchronize()?;
    let device = Device::from_cudarc(&context)?;
    let cubin = common::cubin(device.info().capability)?;
    let code = context.load_module(Ptx::from_binary(cubin))?;
    let axpy = code.load_function("axpy")?;
    let config = LaunchConfig::for_num_elems(LEN);
    let (factor, len) = (0.5f32, LEN);

    main.begin_capture(MODE)?;
    side.join(&main)?;
    for stream in [&main, &side] {
        let mut launch = stream.launch_builder(&axpy);
        launch.arg(&input).arg(&sums).arg(&factor).arg(&len);
        // SAFETY: the kernel's parameters, and memory of their length.
        unsafe { launch.launch(config) }?;
    }
    main.join(&side)?;
    let mut graph = std::ptr::null_mut();
    // SAFETY: a capturing stream, and a pointer to a local.
    unsafe { sys::cuStreamEndCapture(main.cu_stream(), &raw mut graph) }.result()?;

    // The audit: memory by name, the graph by its handle.
    let mut options = AuditOptions::named("engine");
    for (name, slice) in [("input", &input), ("sums", &sums)] {
        let start = slice.device_ptr(&main).0;
        options = options.knowing(name, ByteRange::new(start, start + u64::from(LEN) * 4));
    }
    // SAFETY: the graph is live, and nobody changes it.
    let mut found = unsafe { audit(&device, GraphHandle(graph as u64), options) }?;
    let report = found.verify(&Options::default())?;
    assert_eq!(report.verdict, Verdict::Possible);
    println!("{report}\n");

    // SAFETY: all that the graph uses is live, and nothing else runs.
    let inference = unsafe { infer_writes(&device, &found, &InferOptions::default()) }?;
    found.add_writes(&inference)?;
    let report = found.verify(&Options::default())?;
    println!("{report}");
    assert_eq!(report.verdict, Verdict::Hazard);
    assert!(report.hazards.iter().any(|hazard| hazard.proven));
    // SAFETY: the graph is ours, and was never instantiated.
    unsafe { sys::cuGraphDestroy(graph) }.result()?;
    Ok(())
}
