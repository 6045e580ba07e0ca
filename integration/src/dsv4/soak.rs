//! Very many replays of every bucket, each compared on the device.
//!
//! A race between streams may show in one replay of a hundred thousand, so what
//! counts is replays, and the host must not be what limits them. For each batch
//! the results that every bucket has to come to are taken once, launch by launch
//! on one stream. Then the graphs of all buckets are replayed in turn, each
//! followed by a graph that compares its results with those, word by word, and
//! adds what differs to a counter. The buckets have other layouts of one arena
//! and read the same inputs, so what a replay finds in its scratch is what another
//! bucket has left there: a value read too early is not the right one by chance.
//!
//! A step may be repeated: it stores the same entries in the same places again.

use std::collections::BTreeMap;

use half::bf16;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};
use streamweir::kernels::dsv4::count_differences;
use streamweir::{ArenaConfig, Device, Graph, Persistent, cast, part};

use super::arm::{Arm, Exec, Pools, Setup};
use super::config::Overlap;
use super::engine::Engine;
use super::error::Error;
use super::inputs::Row;

/// What has been replayed so far. It is enough to go on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Batches.
    pub batches: u64,
    /// Replays by bucket, and words of their results that were not as expected.
    pub buckets: BTreeMap<u32, (u64, u64)>,
    /// Ids and positions outside pools and tables that kernels met.
    pub faults: u64,
}

impl Tally {
    /// Replays of all buckets.
    pub fn replays(&self) -> u64 {
        self.buckets.values().map(|(replays, _)| replays).sum()
    }

    /// Words that differed, of all buckets.
    pub fn differ(&self) -> u64 {
        self.buckets.values().map(|(_, differ)| differ).sum()
    }

    /// Nothing differed, and nothing was outside its pool.
    pub fn is_clean(&self) -> bool {
        self.differ() == 0 && self.faults == 0
    }
}

/// A bucket with what it has to come to.
struct Station {
    bucket: u32,
    graph: Graph,
    check: Graph,
    hidden: Persistent<bf16>,
    chosen: Persistent<i32>,
    differ: Persistent<u32>,
}

impl Tally {
    /// Goes on with tagged pools and the full overlap until there are `replays`
    /// replays, `rounds` of each bucket with a batch. `done` hears of the tally
    /// after every batch: a run that is stopped goes on from the last one.
    ///
    /// # Errors
    /// When the model cannot be made, a capture is refused, or the device fails;
    /// or when `done` does.
    pub fn advance<E: From<Error>>(
        mut self,
        device: &Device,
        setup: Setup,
        (replays, rounds): (u64, u32),
        mut done: impl FnMut(&Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut engine = Engine::new(device, setup)?;
        let stations = stations(device, &engine)?;
        while self.replays() < replays {
            self.batch(device, &mut engine, &stations, rounds.max(1))?;
            done(&self)?;
        }
        Ok(self)
    }

    /// One batch: expected results, then replays.
    fn batch(
        &mut self,
        device: &Device,
        engine: &mut Engine,
        stations: &[Station],
        rounds: u32,
    ) -> Result<(), Error> {
        let seed = engine.setup().seed.wrapping_add(self.batches);
        let mut random = StdRng::seed_from_u64(seed);
        let mut pages = engine.reset()?;
        let (rows, config) = (engine.setup().capacity.rows, engine.setup().config);
        // Now and then the larger buckets are padded.
        let present = random.random_range(rows.div_ceil(2)..=rows);
        let mut sequences = Vec::with_capacity(present as usize);
        for _ in 0..present {
            let mut sequence = pages.begin()?;
            let tokens = random.random_range(1..=config.max_context);
            pages.grow(&mut sequence, tokens)?;
            sequences.push((sequence, random.random_range(0..config.vocabulary as i32)));
        }
        let batch: Vec<Row<'_>> = (sequences.iter())
            .map(|(sequence, token)| Row {
                sequence,
                token: *token,
            })
            .collect();
        engine.stage(&batch)?;
        for station in stations {
            engine.eager(Arm::REFERENCE, station.bucket)?;
            station.expect(engine)?;
        }
        let stream = device.stream("soak")?;
        let mut order: Vec<&Station> = stations.iter().collect();
        for _ in 0..rounds {
            order.shuffle(&mut random);
            for station in &order {
                station.graph.replay(&stream)?;
                station.check.replay(&stream)?;
            }
        }
        stream.synchronize()?;
        for station in stations {
            let (replays, differ) = self.buckets.entry(station.bucket).or_default();
            *replays += u64::from(rounds);
            *differ += u64::from(station.differ.download()?[0]);
            station.differ.upload(&[0])?;
        }
        // The counter of faults began anew with the batch.
        self.faults += u64::from(engine.faults()?);
        self.batches += 1;
        Ok(())
    }
}

fn stations(device: &Device, engine: &Engine) -> Result<Vec<Station>, Error> {
    let group = device.replay_group("soak", ArenaConfig::default());
    let arm = Arm {
        overlap: Overlap::Full,
        pools: Pools::Tagged,
        exec: Exec::Graph,
    };
    let mut stations = Vec::new();
    for &bucket in engine.setup().buckets.iter().rev() {
        let graph = engine.capture(arm, bucket, &group)?;
        stations.push(Station::new(device, engine, bucket, graph)?);
    }
    Ok(stations)
}

impl Station {
    fn new(device: &Device, engine: &Engine, bucket: u32, graph: Graph) -> Result<Self, Error> {
        let model = engine.model();
        let name = |what: &str| format!("{what} expected of bucket {bucket}");
        let values = (bucket * model.config.hidden) as usize;
        let rows = bucket as usize;
        let hidden = device.persistent::<bf16>(&name("hidden"), values)?;
        let chosen = device.persistent::<i32>(&name("tokens"), rows)?;
        let differ = device.persistent_from(&format!("differ, bucket {bucket}"), &[0])?;
        let (check, ()) = device.capture::<_, Error>(format!("check {bucket}"), |capture| {
            let main = capture.origin();
            let words = values as u32 / 2;
            main.launch(
                &model.kernels.differences,
                count_differences {
                    left: &cast(part(&model.hidden, 0..values)?)?,
                    right: &cast(&hidden)?,
                    found: &differ,
                    len: words,
                },
            )?;
            main.launch(
                &model.kernels.differences,
                count_differences {
                    left: &cast(part(&model.chosen, 0..rows)?)?,
                    right: &cast(&chosen)?,
                    found: &differ,
                    len: bucket,
                },
            )?;
            Ok(())
        })?;
        Ok(Self {
            bucket,
            graph,
            check,
            hidden,
            chosen,
            differ,
        })
    }

    /// Takes what the model has come to as what is expected.
    fn expect(&self, engine: &Engine) -> Result<(), Error> {
        let model = engine.model();
        let mut hidden = model.hidden.download()?;
        hidden.truncate(self.hidden.len());
        self.hidden.upload(&hidden)?;
        let mut chosen = model.chosen.download()?;
        chosen.truncate(self.chosen.len());
        self.chosen.upload(&chosen)?;
        Ok(())
    }
}
