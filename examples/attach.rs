//! An engine that captures its decode step itself, with cudarc, and lets
//! streamweir take part: a side stream, scratch and a proof inside a graph that
//! stays the engine's. First with a mistake, then without.
//!
//! `cargo run --example attach`

mod common;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use common::axpy;
use streamweir::cudarc::driver::{CudaContext, sys};
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    CaptureOptions, Detached, Device, DeviceStream, LoadedKernel, Persistent, Verify,
};

const LEN: usize = 4096;
const MODE: sys::CUstreamCaptureMode =
    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const FLAGS: sys::CUgraphInstantiate_flags = sys::CUgraphInstantiate_flags(0);

/// Our part of the step.
struct Step {
    device: Device,
    stream: DeviceStream,
    axpy: LoadedKernel<axpy>,
    keys: Persistent<f32>,
    output: Persistent<f32>,
}

impl Step {
    /// Records it into the capture in progress on the engine's stream.
    #[rustfmt::skip] // A launch reads best on one line.
    fn record(&self, join_first: bool) -> streamweir::Result<Detached> {
        let len = LEN as u32;
        // begin: docs/engines.md, our part
        let options = CaptureOptions::new("decode").verify(Verify::Prove);
        let attached = self.device.attach(&self.stream, options)?;
        let main = attached.origin();
        let side = attached.fork(&main, "indexer")?;
        let scores = side.scratch::<f32>("scores", LEN)?;
        let (indexer, attention) = (side.scope("indexer"), main.scope("attention"));
        indexer.fill(&scores, 0)?;
        indexer.launch(&self.axpy, axpy { input: &self.keys, data: &scores, factor: 0.5, len })?;
        if join_first {
            let seen = attached.join(&main, side)?;
            attention.launch(&self.axpy, axpy { input: seen.see(&scores), data: &self.output, factor: 10.0, len })?;
        } else {
            // The mistake: attention reads scores that the other stream may not
            // have written yet. CUDA is content, for the stream does get joined.
            attention.launch(&self.axpy, axpy { input: &scores, data: &self.output, factor: 10.0, len })?;
            attached.join(&main, side)?;
        }
        attached.detach()
        // end: docs/engines.md, our part
    }
}

fn main() -> ExitCode {
    common::on_a_gpu(run)
}

fn run() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    // cudarc would record its tracking events inside the capture, and waiting
    // for such an event outside is an error.
    // SAFETY: the engine uses its slices on one stream, which orders them.
    unsafe { context.disable_event_tracking() };
    let keys = Arc::new(engine.clone_htod(&vec![4.0f32; LEN])?);
    let output = Arc::new(engine.alloc_zeros::<f32>(LEN)?);
    let mut counters = engine.clone_htod(&[7u32; 32])?;

    // Before any capture: adopt what the engine has, compile, load.
    let device = Device::from_cudarc(&context)?;
    let step = Step {
        device: device.clone(),
        stream: DeviceStream::from_cudarc(&device, "engine", &engine)?,
        axpy: common::load(&device)?,
        keys: Persistent::from_cudarc(&device, "keys", &keys)?,
        output: Persistent::from_cudarc(&device, "output", &output)?,
    };

    // With the mistake, `detach` is the error that says what is wrong. The
    // capture goes on and is the engine's to end; it throws the graph away.
    engine.begin_capture(MODE)?;
    let refused = step.record(false).expect_err("the join comes too late");
    drop(engine.end_capture(FLAGS)?);
    println!("{refused}");
    let report = refused.report().ok_or("refused for another reason")?;
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);

    // begin: docs/engines.md, attach
    // With the join where the report wants it. The engine records work of its
    // own before ours, in memory that only the engine knows: it is judged, too.
    engine.begin_capture(MODE)?;
    engine.memset_zeros(&mut counters)?;
    let detached = step.record(true)?;
    let graph = engine.end_capture(FLAGS)?.ok_or("an empty capture")?;
    print!("{}", detached.report());
    assert_eq!(detached.report().verdict, Verdict::Safe);
    let mut nodes = detached.trace().nodes.iter();
    assert!(nodes.any(|node| node.name == "memset"));

    // The engine's graph keeps alive what our nodes refer to: code, scratch,
    // slices. Our own handles may go.
    drop(step);
    graph.launch()?;
    // end: docs/engines.md, attach
    assert_eq!(engine.clone_dtoh(&*output)?, vec![20.0; LEN]);
    assert_eq!(engine.clone_dtoh(&counters)?, [0; 32]);
    // The device outlives the graph, to take back what the graph kept.
    drop(graph);
    device.synchronize()?;
    Ok(())
}
