//! A small model decodes greedily in candle, its layers on two streams.
//!
//! candle embeds and chooses; the layers between run in four ways, which must
//! choose the same tokens: as an op on one stream (the reference) and on two,
//! as a verified graph for each batch size, and as a part of a graph that
//! candle's stream captures.
//!
//! `cargo run --release --example decode [small|flash]`, in `integration/candle`

use std::error::Error;
use std::process::ExitCode;

use candle_core::{Device, Tensor};
use streamweir::cudarc::driver::{CudaGraph, sys};
use streamweir::doctor::CudaReport;
use streamweir::{Event, Graph};
use streamweir_candle::{Batch, DecodeOp, Engine, Model, Sizes};

const BUCKETS: [u32; 3] = [1, 2, 4];
const STEPS: u32 = 32;
/// Entries of each sequence before the first step.
const PROMPT: u32 = 40;
/// Runs that a time is the median of.
const TIMED: usize = 51;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    // candle panics where there is no driver, so this asks first.
    let found = CudaReport::survey();
    if found.devices.is_empty() {
        println!("{found}");
        let required = std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1");
        return ExitCode::from(u8::from(required));
    }
    let sizes = match std::env::args().nth(1).as_deref() {
        None | Some("small") => Sizes::SMALL,
        Some("flash") => Sizes::FLASH,
        Some(other) => {
            eprintln!("no size {other}: small or flash");
            return ExitCode::from(64);
        }
    };
    match run(sizes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(sizes: Sizes) -> Outcome<()> {
    // begin: docs/engines.md, candle
    // A stream of its own: `new_cuda` is on the per-thread default stream.
    let candle = Device::new_cuda_with_stream(0)?;
    // SAFETY: all work on the tensors is on that one stream.
    unsafe { candle.as_cuda_device()?.disable_event_tracking() };
    let engine = Engine::adopt(&candle)?;
    let model = Model::new(&engine, &candle, sizes, 7)?;
    let mut buckets = Vec::new();
    for tokens in BUCKETS {
        let batch = Batch::new(&engine, &candle, &model, tokens)?;
        let op = DecodeOp {
            engine: &engine,
            model: &model,
            batch: &batch,
            overlap: true,
        };
        let graph = op.capture(format!("decode, batch of {tokens}"))?;
        buckets.push((batch, graph));
    }
    // end: docs/engines.md, candle

    println!("{} layers on {}", sizes.layers, engine.device().info().name);
    println!("| batch | run | tokens as the reference | us per layer |");
    println!("| --- | --- | --- | --- |");
    for (batch, graph) in &buckets {
        bucket(&engine, &model, batch, graph, sizes.layers)?;
    }
    Ok(())
}

/// Decodes one batch in every way, and compares.
fn bucket(
    engine: &Engine,
    model: &Model,
    batch: &Batch,
    graph: &Graph,
    layers: usize,
) -> Outcome<()> {
    assert!(graph.certificate().is_some());
    let op = |overlap| DecodeOp {
        engine,
        model,
        batch,
        overlap,
    };
    let (serial, overlapped) = (op(false), op(true));
    let eager = |op: &DecodeOp| -> Outcome<()> {
        Ok(batch
            .output_tensor()
            .inplace_op2(batch.input_tensor(), op)?)
    };
    let reference = decode(model, batch, || eager(&serial))?;
    let theirs = captured_by_candle(batch, &overlapped)?;
    let one_stream = serial.capture("decode, one stream")?;
    let replay = |graph: &Graph| Ok(graph.replay(engine.stream())?);
    let ways: [(&str, &dyn Fn() -> Outcome<()>); 5] = [
        ("op, one stream", &|| eager(&serial)),
        ("op, two streams", &|| eager(&overlapped)),
        ("graph, one stream", &|| replay(&one_stream)),
        ("graph, two streams", &|| replay(graph)),
        ("part of candle's graph", &|| Ok(theirs.launch()?)),
    ];
    let tokens = batch.output_tensor().dim(0)?;
    for (name, way) in ways {
        let chosen = decode(model, batch, way)?;
        let time = microseconds(engine, way)? / layers as f64;
        println!(
            "| {tokens} | {name} | {} | {time:.1} |",
            chosen == reference
        );
        if chosen != reference {
            return Err(format!("{name}, batch of {tokens}: other tokens").into());
        }
    }
    Ok(())
}

/// The tokens of each step.
fn decode(
    model: &Model,
    batch: &Batch,
    mut layers: impl FnMut() -> Outcome<()>,
) -> Outcome<Vec<Vec<u32>>> {
    let count = batch.output_tensor().dim(0)?;
    let first: Vec<u32> = (0..count as u32).collect();
    let mut tokens = Tensor::from_slice(&first, count, batch.input_tensor().device())?;
    let mut chosen = Vec::new();
    for step in 0..STEPS {
        batch.set_len(model, PROMPT + step)?;
        model.embed(batch, &tokens)?;
        layers()?;
        tokens = model.choose(batch)?;
        chosen.push(tokens.to_vec1()?);
    }
    Ok(chosen)
}

/// candle's stream captures, and the op takes part.
fn captured_by_candle(batch: &Batch, op: &DecodeOp) -> Outcome<CudaGraph> {
    let stream = batch
        .input_tensor()
        .device()
        .as_cuda_device()?
        .cuda_stream();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let done = batch.output_tensor().inplace_op2(batch.input_tensor(), op);
    // Ended in any case: a stream that is left capturing takes no other work.
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
    done?;
    Ok(graph?.ok_or("an empty capture")?)
}

/// The median time on the device of one run.
fn microseconds(engine: &Engine, way: &dyn Fn() -> Outcome<()>) -> Outcome<f64> {
    let stream = engine.stream();
    let [begin, end]: [Event; 2] = [
        engine.device().event("begin")?,
        engine.device().event("end")?,
    ];
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        stream.record(&begin)?;
        way()?;
        stream.record(&end)?;
        stream.synchronize()?;
        times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMED / 2])
}
