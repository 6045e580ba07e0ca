//! A mini engine: paged cache, buckets in one replay group, eager runs above them, a
//! shared expert beside the other one, greedy sampling, several sessions.
//! docs/guide.md walks through it.
//!
//! `cargo run --example engine` on the simulated device,
//! `cargo run --release --example engine -- --device cuda:0` on a GPU.

// Nobody but this program sees its items.
#![allow(missing_docs, unreachable_pub)]

mod engine;
pub mod kernels;
mod model;
mod reference;
mod sessions;
mod step;

use std::process::ExitCode;

use streamweir::Device;
use streamweir::driver::Backend;

use engine::{Engine, Metrics};
use model::{Cache, Config, OnHost};

/// Whatever went wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How much the engine is given to do.
#[derive(Clone, Debug)]
pub struct Load {
    pub config: Config,
    pub buckets: Vec<u32>,
    pub most_rows: u32,
    /// Bytes for the scratch of the buckets and the cache.
    pub memory: u64,
    pub sessions: usize,
    pub tokens: usize,
}

impl Load {
    pub fn small() -> Self {
        Self {
            config: Config::SMALL,
            buckets: vec![1, 2, 4],
            most_rows: 24,
            // For three or four sessions at once, so that pages change hands.
            memory: (16 << 20) + 12 * Cache::page_bytes(&Config::SMALL),
            sessions: 6,
            tokens: 8,
        }
    }

    pub fn large() -> Self {
        Self {
            config: Config::LARGE,
            buckets: vec![1, 2, 4, 8, 16, 32],
            most_rows: 128,
            memory: (256 << 20) + 200 * Cache::page_bytes(&Config::LARGE),
            sessions: 40,
            tokens: 16,
        }
    }

    /// Prompts of different lengths, of which some are longer than the largest bucket.
    pub fn prompts(&self) -> Vec<Vec<u32>> {
        let token = |at: usize| (at * 7919 + 13) as u32 % self.config.vocab;
        let longest = self.most_rows as usize * 3 / 4;
        (0..self.sessions)
            .map(|session| {
                let len = 1 + session * 5 % longest;
                (0..len).map(|at| token(session * 1000 + at)).collect()
            })
            .collect()
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub overlap: bool,
    pub sessions: Vec<Vec<u32>>,
    /// Sessions that the plain model disagrees with.
    pub wrong: usize,
    pub metrics: Metrics,
    /// Streams that the largest bucket was captured from.
    pub streams: usize,
    /// Microseconds of a step of the largest bucket, where the device has a clock.
    pub step_us: Option<f64>,
}

/// The seed of the weights.
const SEED: u64 = 17;

/// Whether the plain model would have generated a session.
pub fn agrees(config: &Config, prompt: &[u32], session: &[u32]) -> bool {
    reference::agrees(config, &OnHost::random(config, SEED), prompt, session)
}

/// Generates for all sessions, and holds each to the plain model.
pub fn run(device: &Device, load: &Load, overlap: bool) -> Result<Outcome, Failure> {
    let weights = OnHost::random(&load.config, SEED);
    let model = (load.config, &weights);
    let (memory, most_rows) = (load.memory, load.most_rows);
    let mut engine = Engine::new(device, model, memory, &load.buckets, most_rows, overlap)?;
    let prompts = load.prompts();
    let sessions = sessions::generate(&mut engine, &prompts, load.tokens)?;
    let step_us = match device.info().backend {
        Backend::Cuda => Some(step_us(device, &engine)?),
        _ => None,
    };
    let (largest, _) = engine.timed().ok_or("no bucket")?;
    let streams = largest.trace().streams.len();
    let judge = |(prompt, session): (&Vec<u32>, &Vec<u32>)| {
        reference::agrees(&load.config, &weights, prompt, session)
    };
    let judge = &judge;
    let wrong = std::thread::scope(|scope| {
        let threads: Vec<_> = (prompts.iter().zip(&sessions))
            .map(|pair| scope.spawn(move || judge(pair)))
            .collect();
        let agreed = threads.into_iter().map(|thread| thread.join());
        agreed.filter(|agreed| !matches!(agreed, Ok(true))).count()
    });
    Ok(Outcome {
        overlap,
        sessions,
        wrong,
        metrics: engine.metrics,
        streams,
        step_us,
    })
}

/// The median of replays of the largest bucket.
fn step_us(device: &Device, engine: &Engine) -> Result<f64, Failure> {
    let (graph, stream) = engine.timed().ok_or("no bucket")?;
    let [begin, end] = [device.event("begin")?, device.event("end")?];
    let mut times = Vec::new();
    for _ in 0..200 {
        stream.record(&begin)?;
        graph.replay(stream)?;
        stream.record(&end)?;
        stream.synchronize()?;
        times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn open() -> Result<(Device, Load), Failure> {
    let mut arguments = std::env::args().skip(1);
    let device = match arguments.next().as_deref() {
        None => "sim".to_owned(),
        Some("--device") => arguments.next().ok_or("--device takes sim or cuda:N")?,
        Some(other) => return Err(format!("{other} is no option; --device sim|cuda:N is").into()),
    };
    match device.strip_prefix("cuda:") {
        #[cfg(feature = "cuda")]
        Some(ordinal) => Ok((Device::cuda(ordinal.parse()?)?, Load::large())),
        None if device == "sim" => Ok((Device::sim(1), Load::small())),
        _ => Err(format!("there is no device {device}").into()),
    }
}

fn print(load: &Load, outcome: &Outcome) {
    let Outcome { metrics, .. } = outcome;
    println!(
        "overlap {}: {} of {} sessions wrong, {} rows and {} of padding, replays {:?}, {} eager runs",
        if outcome.overlap { "on " } else { "off" },
        outcome.wrong,
        load.sessions,
        metrics.rows,
        metrics.padding,
        metrics.replays,
        metrics.eager,
    );
    println!(
        "    {} bytes of scratch for all buckets, {} as sized before; captured and proved in {:.1} ms{}",
        metrics.reserved,
        metrics.planned,
        metrics.start_up.as_secs_f64() * 1e3,
        match outcome.step_us {
            Some(us) => format!(", {us:.1} us a step of the largest bucket"),
            None => String::new(),
        },
    );
}

fn both() -> Result<bool, Failure> {
    let (device, load) = open()?;
    println!("{}", device.info().name);
    let off = run(&device, &load, false)?;
    print(&load, &off);
    let on = run(&device, &load, true)?;
    print(&load, &on);
    let same = off.sessions == on.sessions;
    let sized = [&off, &on].map(|run| run.metrics.planned == run.metrics.reserved);
    println!(
        "tokens are {} with overlap and without",
        if same { "the same" } else { "different" }
    );
    if let (Some(off), Some(on)) = (off.step_us, on.step_us) {
        println!("a step is {:.3} times as fast with overlap", off / on);
    }
    Ok(off.wrong == 0 && on.wrong == 0 && same && sized == [true; 2])
}

fn main() -> ExitCode {
    match both() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
