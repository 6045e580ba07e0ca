//! A small model decodes greedily in candle, its layers on two streams.
//!
//! candle embeds and chooses; the layers between run in six ways, which must
//! give the same tokens and the same bits before the head: as an op of candle's
//! on one stream (the reference) and on two, launched kernel by kernel, as a
//! verified graph on one stream and on two, and as a part of a graph that
//! candle's stream captures. There is a graph for each batch size.
//!
//! `cargo run --release --example decode [small|flash] [ENTRIES]`, in
//! `integration/candle`; ENTRIES is how many a sequence has before the first step.

mod by_hand;

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;

use by_hand::Launches;
use candle_core::{Device, Tensor};
use half::bf16;
use streamweir::cudarc::driver::{CudaGraph, sys};
use streamweir::doctor::CudaReport;
use streamweir::{Event, Graph};
use streamweir_candle::{Batch, DecodeOp, Engine, Model, Sizes};

const BUCKETS: [u32; 4] = [1, 2, 4, 8];
const STEPS: u32 = 32;
/// Times that a median is of.
const TIMED: usize = 51;
/// Runs in a row that are timed together, so that a time is of the work and not
/// of the way from the host to an idle device.
const ROW: usize = 8;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    // candle panics where there is no driver, so this asks first.
    let found = CudaReport::survey();
    if found.devices.is_empty() {
        println!("{found}");
        let required = std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1");
        return ExitCode::from(u8::from(required));
    }
    let (sizes, prompt) = match wanted(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(mistake) => {
            eprintln!("{mistake}");
            return ExitCode::from(64);
        }
    };
    match run(sizes, prompt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The sizes, and the entries of each sequence before the first step.
fn wanted(mut words: impl Iterator<Item = String>) -> Result<(Sizes, u32), String> {
    let (sizes, usual) = match words.next().as_deref() {
        None | Some("small") => (Sizes::SMALL, 40),
        Some("flash") => (Sizes::FLASH, 16_000),
        Some(other) => return Err(format!("no size {other}: small or flash")),
    };
    let prompt = match words.next() {
        None => usual,
        Some(word) => word
            .parse()
            .map_err(|_| format!("{word} is no number of entries"))?,
    };
    let most = sizes.entries - STEPS;
    if prompt == 0 || prompt > most {
        return Err(format!("1 to {most} entries, not {prompt}"));
    }
    Ok((sizes, prompt))
}

fn run(sizes: Sizes, prompt: u32) -> Outcome<()> {
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

    println!(
        "{} layers on {}, {prompt} entries before the first step",
        sizes.layers,
        engine.device().info().name
    );
    println!("| batch | run | as the reference | us per layer |");
    println!("| --- | --- | --- | --- |");
    let plan = Plan {
        engine: &engine,
        model: &model,
        layers: sizes.layers,
        prompt,
    };
    for (batch, graph) in &buckets {
        plan.bucket(batch, graph)?;
    }
    Ok(())
}

/// What all batches have in common.
struct Plan<'a> {
    engine: &'a Engine,
    model: &'a Model,
    layers: usize,
    prompt: u32,
}

/// The tokens that were chosen, and the bits that they were chosen from.
#[derive(PartialEq)]
struct Step {
    tokens: Vec<u32>,
    hidden: Vec<u16>,
}

impl Plan<'_> {
    /// Decodes one batch in every way, compares and measures.
    fn bucket(&self, batch: &Batch, graph: &Graph) -> Outcome<()> {
        if graph.certificate().is_none() {
            return Err("the graph has no certificate".into());
        }
        let op = |overlap| DecodeOp {
            engine: self.engine,
            model: self.model,
            batch,
            overlap,
        };
        let (serial, overlapped) = (op(false), op(true));
        let eager = |op: &DecodeOp| -> Outcome<()> {
            Ok(batch
                .output_tensor()
                .inplace_op2(batch.input_tensor(), op)?)
        };
        let reference = self.decode(batch, || eager(&serial))?;
        is_a_conversation(&reference)?;

        let stream = batch
            .input_tensor()
            .device()
            .as_cuda_device()?
            .cuda_stream();
        let theirs = captured_by_candle(batch, &overlapped)?;
        let by_hand = Launches::of(captured_by_candle(batch, &serial)?, &stream)?;
        let one_stream = serial.capture("decode, one stream")?;
        let replay = |graph: &Graph| Ok(graph.replay(self.engine.stream())?);
        let ways: [(&str, &dyn Fn() -> Outcome<()>); 6] = [
            ("op, one stream", &|| eager(&serial)),
            ("op, two streams", &|| eager(&overlapped)),
            ("launched by hand, one stream", &|| by_hand.run()),
            ("graph, one stream", &|| replay(&one_stream)),
            ("graph, two streams", &|| replay(graph)),
            ("part of candle's graph, two streams", &|| {
                Ok(theirs.launch()?)
            }),
        ];
        let tokens = batch.output_tensor().dim(0)?;
        for (name, way) in ways {
            // What an earlier way has left there must not pass for an answer.
            batch.output_tensor().zero_set()?;
            if self.decode(batch, way)? != reference {
                return Err(format!("{name}, batch of {tokens}: other tokens or bits").into());
            }
            let time = self.microseconds(way)? / self.layers as f64;
            println!("| {tokens} | {name} | yes | {time:.1} |");
        }
        Ok(())
    }

    fn decode(&self, batch: &Batch, layers: impl Fn() -> Outcome<()>) -> Outcome<Vec<Step>> {
        let count = batch.output_tensor().dim(0)?;
        let first: Vec<u32> = (0..count as u32).collect();
        let mut tokens = Tensor::from_slice(&first, count, batch.input_tensor().device())?;
        let mut steps = Vec::new();
        for step in 0..STEPS {
            batch.set_len(self.model, self.prompt + step)?;
            self.model.embed(batch, &tokens)?;
            layers()?;
            tokens = self.model.choose(batch)?;
            let hidden: Vec<bf16> = batch.output_tensor().flatten_all()?.to_vec1()?;
            steps.push(Step {
                tokens: tokens.to_vec1()?,
                hidden: hidden.into_iter().map(bf16::to_bits).collect(),
            });
        }
        Ok(steps)
    }

    /// The median time on the device of one run.
    fn microseconds(&self, way: &dyn Fn() -> Outcome<()>) -> Outcome<f64> {
        let (device, stream) = (self.engine.device(), self.engine.stream());
        let [begin, end]: [Event; 2] = [device.event("begin")?, device.event("end")?];
        let mut times = Vec::with_capacity(TIMED);
        for _ in 0..TIMED {
            stream.record(&begin)?;
            for _ in 0..ROW {
                way()?;
            }
            stream.record(&end)?;
            stream.synchronize()?;
            times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3 / ROW as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[TIMED / 2])
    }
}

/// Refuses a reference that would agree with anything: numbers that are none, and
/// a model that says one word for ever.
fn is_a_conversation(steps: &[Step]) -> Outcome<()> {
    let finite = |bits: &u16| bf16::from_bits(*bits).is_finite();
    if !steps.iter().all(|step| step.hidden.iter().all(finite)) {
        return Err("the reference has numbers that are not finite".into());
    }
    let words: BTreeSet<u32> = steps.iter().flat_map(|step| step.tokens.clone()).collect();
    if words.len() < 2 {
        return Err(format!("the reference says nothing but {words:?}").into());
    }
    Ok(())
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
