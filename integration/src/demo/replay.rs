//! Replays, and their comparison with the eager serial reference.

use half::bf16;
use streamweir_sched::driver::sim::SimDriver;
use streamweir_sched::{Device, DeviceStream, Event, Graph};

use super::Config;
use super::arm::Arm;
use super::error::Error;
use super::model::Model;

/// The results of one pass through the layers.
#[derive(PartialEq, Eq)]
pub(super) struct Results {
    /// The bits of the last hidden state: what is not a number equals itself.
    output: Vec<u16>,
    /// The slots that each layer selected.
    selected: Vec<Vec<i32>>,
}

/// How the replays of one graph compare.
pub(super) struct Outcome {
    pub(super) wrong: u32,
    pub(super) topk_differs: u32,
    pub(super) us_per_replay: Option<f64>,
}

/// What the layers compute on one stream, straight on the device.
pub(super) fn reference(device: &Device, model: &Model) -> Result<Results, Error> {
    let record = |run: &_| model.record(run, Arm::Serial.plan());
    device.eager("reference", record)?;
    Results::download(model)
}

/// Replays `graph` and counts what differs from `reference`.
pub(super) fn compare(
    device: &Device,
    model: &Model,
    graph: &Graph,
    reference: &Results,
    config: &Config,
    mut done: impl FnMut(u32),
) -> Result<Outcome, Error> {
    let stream = device.stream("replay")?;
    let sim = device.driver().as_any().downcast_ref::<SimDriver>();
    let stopwatch = match sim {
        Some(_) => None,
        None => Some(Stopwatch::new(device)?),
    };
    graph.upload(&stream)?;
    let mut outcome = Outcome {
        wrong: 0,
        topk_differs: 0,
        us_per_replay: None,
    };
    let mut times = Vec::new();
    for replay in 0..config.replays {
        if let Some(sim) = sim {
            sim.reseed(config.seed.wrapping_add(replay.into()));
        }
        match &stopwatch {
            Some(stopwatch) => times.push(stopwatch.time(graph, &stream)?),
            None => graph.replay(&stream)?,
        }
        let results = Results::download(model)?;
        outcome.wrong += u32::from(results.output != reference.output);
        outcome.topk_differs += u32::from(results.selected != reference.selected);
        done(replay + 1);
    }
    outcome.us_per_replay = median(times);
    Ok(outcome)
}

impl Results {
    fn download(model: &Model) -> Result<Self, Error> {
        Ok(Self {
            output: model
                .output
                .download()?
                .into_iter()
                .map(bf16::to_bits)
                .collect(),
            selected: model
                .layers
                .iter()
                .map(|layer| layer.selected.download())
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Two events around a replay.
struct Stopwatch {
    start: Event,
    end: Event,
}

impl Stopwatch {
    fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            start: device.event("replay begins")?,
            end: device.event("replay ends")?,
        })
    }

    /// Replays and gives the time in microseconds.
    fn time(&self, graph: &Graph, stream: &DeviceStream) -> Result<f64, Error> {
        stream.record(&self.start)?;
        graph.replay(stream)?;
        stream.record(&self.end)?;
        self.end.synchronize()?;
        Ok(f64::from(self.start.elapsed_ms(&self.end)?) * 1e3)
    }
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
