//! Steps of a batch: the bucket that holds it, its graph, its results.

use std::collections::BTreeMap;

use half::bf16;
use streamweir_sched::{
    ArenaConfig, CaptureOptions, Device, DeviceStream, EagerRun, Graph, Poison, Policy,
    ReplayGroup, Taps, Verify,
};
use streamweir_verify::Report;

use super::config::{Config, IndexKeys, Overlap};
use super::error::Error;
use super::inputs::Row;
use super::instruments::{Found, Instruments};
use super::kernels::Products;
use super::model::{Capacity, Model};
use super::pages::Pages;
use super::watch::Watch;

/// The batch sizes that are captured where nobody says otherwise.
pub const BUCKETS: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// The streams of the indexer, whose chain of small kernels main waits for: they
/// are given room before the large products of main take it.
const URGENT: [&str; 3] = ["indexer", "idx_q", "idx_weights"];

/// Where the scratch of a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pools {
    /// A pool for each stream; a capture with a hazard is refused.
    Tagged,
    /// One pool for all streams, memory free when the host drops it, as engines
    /// capture today; hazards are reported. The negative control.
    Shared,
}

impl Pools {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tagged => "tagged",
            Self::Shared => "shared",
        }
    }
}

/// How steps are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exec {
    /// As graphs, one for each bucket.
    Graph,
    /// Launch by launch.
    Eager,
}

impl Exec {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Eager => "eager",
        }
    }
}

/// One way to run the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    /// What overlaps.
    pub overlap: Overlap,
    /// Where scratch comes from.
    pub pools: Pools,
    /// Graphs or not.
    pub exec: Exec,
}

impl Arm {
    /// What others are compared with: one stream, launch by launch.
    pub const REFERENCE: Self = Self {
        overlap: Overlap::Off,
        pools: Pools::Tagged,
        exec: Exec::Eager,
    };
}

/// How the scratch of tagged pools is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Each pool by itself, as the step is recorded.
    Isolated,
    /// Pools reuse each other's memory where streams are ordered, as the step is
    /// recorded.
    #[default]
    Ordered,
    /// Likewise, placed when the recording is complete, with side work emitted
    /// just before its join.
    Planned,
}

impl Packing {
    /// The word on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Ordered => "ordered",
            Self::Planned => "planned",
        }
    }
}

/// What is made once and serves every arm.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The model.
    pub config: Config,
    /// How index keys are stored.
    pub index_keys: IndexKeys,
    /// Batch sizes to capture, in ascending order.
    pub buckets: Vec<u32>,
    /// Sizes of the caches.
    pub capacity: Capacity,
    /// How the scratch of tagged pools is packed.
    pub packing: Packing,
    /// Decides weights and prompts.
    pub seed: u64,
}

/// What becomes of a batch that no bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AboveLargest {
    /// It is refused with [`Error::Batch`].
    #[default]
    Refuse,
    /// It runs launch by launch, as long as there are inputs for its rows
    /// ([`Capacity::rows`]).
    Eager,
}

/// How an engine runs, whatever it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// What becomes of a batch that no bucket holds.
    pub above_largest: AboveLargest,
    /// What the runs are watched with.
    pub instruments: Instruments,
}

impl Setup {
    fn check(&self) -> Result<(), Error> {
        let rows = self.capacity.rows;
        let ascending = self.buckets.is_sorted_by(|a, b| a < b);
        let largest = self.buckets.last().copied();
        if ascending && self.buckets.first() != Some(&0) && largest.is_some_and(|b| b <= rows) {
            return Ok(());
        }
        Err(Error::Buckets {
            buckets: self.buckets.clone(),
            rows,
        })
    }
}

/// The model on a device.
pub struct Engine {
    pub(super) device: Device,
    setup: Setup,
    options: EngineOptions,
    pub(super) model: Model,
    /// By bucket.
    products: BTreeMap<u32, Products>,
    /// By the rows of batches that no bucket held.
    wide: BTreeMap<u32, Products>,
}

/// What came out of a step, by row of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The token that each row goes on with.
    pub tokens: Vec<i32>,
    /// The bits of each row's last hidden state.
    pub hidden: Vec<Vec<u16>>,
}

impl Engine {
    /// Loads kernels, makes weights and caches, fixes the algorithms of all
    /// products.
    ///
    /// # Errors
    /// When the device has no kernels or not enough memory.
    pub fn new(device: &Device, setup: Setup) -> Result<Self, Error> {
        Self::with_options(device, setup, EngineOptions::default())
    }

    /// As [`new`](Self::new), to run as `options` say.
    ///
    /// # Errors
    /// As there.
    pub fn with_options(
        device: &Device,
        setup: Setup,
        options: EngineOptions,
    ) -> Result<Self, Error> {
        setup.check()?;
        let device = match options.instruments.canary {
            true => device.guarded(),
            false => device.clone(),
        };
        let model = Model::new(
            &device,
            setup.config,
            setup.index_keys,
            setup.capacity,
            setup.seed,
        )?;
        let products = setup
            .buckets
            .iter()
            .map(|&bucket| {
                Ok((
                    bucket,
                    Products::new(&model.library, &setup.config, bucket)?,
                ))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            device,
            setup,
            options,
            model,
            products,
            wide: BTreeMap::new(),
        })
    }

    /// What it was made with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// How it runs.
    pub fn engine_options(&self) -> &EngineOptions {
        &self.options
    }

    /// The largest batch that it runs.
    pub fn largest_batch(&self) -> u32 {
        let largest = self.products.keys().last().copied().unwrap_or(0);
        match self.options.above_largest {
            AboveLargest::Refuse => largest,
            AboveLargest::Eager => largest.max(self.setup.capacity.rows),
        }
    }

    /// The smallest bucket that holds a batch.
    ///
    /// # Errors
    /// When none does.
    pub fn bucket(&self, batch: usize) -> Result<u32, Error> {
        self.products
            .keys()
            .copied()
            .find(|&bucket| bucket as usize >= batch)
            .ok_or_else(|| Error::Batch {
                batch,
                largest: self.products.keys().last().copied().unwrap_or(0),
            })
    }

    /// The caches as they were at first, and all pages free.
    ///
    /// # Errors
    /// When the device fails.
    pub fn reset(&self) -> Result<Pages, Error> {
        self.model.reset(&self.device, self.setup.seed)?;
        self.model.faults.upload(&[0])?;
        let Capacity {
            sequences, pages, ..
        } = self.setup.capacity;
        let pages = Pages::new(pages, sequences, self.setup.config.max_context);
        self.model.inputs.serve(&pages);
        Ok(pages)
    }

    /// Ids and positions that the kernels found outside their pools and tables
    /// since the last reset.
    ///
    /// # Errors
    /// When the device fails.
    pub fn faults(&self) -> Result<u32, Error> {
        Ok(self.model.faults.download()?[0])
    }

    /// Captures every bucket for an arm, the largest first: all share one arena,
    /// which then is as large as the largest needs. An eager arm has nothing to
    /// capture.
    ///
    /// # Errors
    /// When a capture is refused or fails.
    pub fn prepare(&mut self, arm: Arm) -> Result<Decoder<'_>, Error> {
        let group = self.device.replay_group("decode", ArenaConfig::default());
        let mut graphs = BTreeMap::new();
        let mut watch = (self.options.instruments.differential && arm != Arm::REFERENCE)
            .then(|| Watch::new(&self.device));
        if arm.exec == Exec::Graph {
            for &bucket in self.products.keys().rev() {
                let taps = watch.as_mut().map(|watch| watch.taps(bucket));
                graphs.insert(bucket, self.capture_tapped(arm, bucket, &group, taps)?);
            }
        }
        Ok(Decoder {
            arm,
            stream: self.device.stream("decode")?,
            graphs,
            watch,
            engine: self,
        })
    }
}

impl Engine {
    /// The graph of a bucket.
    pub(super) fn capture(
        &self,
        arm: Arm,
        bucket: u32,
        group: &ReplayGroup,
    ) -> Result<Graph, Error> {
        self.capture_tapped(arm, bucket, group, None)
    }

    fn capture_tapped(
        &self,
        arm: Arm,
        bucket: u32,
        group: &ReplayGroup,
        taps: Option<&Taps>,
    ) -> Result<Graph, Error> {
        let options = self.capture_options(arm, format!("decode {bucket}"), taps);
        let options = options.group(group);
        let products = &self.products[&bucket];
        let (graph, ()) = self.device.capture(options, |capture| {
            self.model.record(capture, products, bucket, arm.overlap)
        })?;
        Ok(graph)
    }

    /// Enqueues a step launch by launch.
    pub(super) fn eager(&self, arm: Arm, bucket: u32) -> Result<(), Error> {
        self.run_eager(arm, bucket, None).map(drop)
    }

    /// Runs a step launch by launch.
    pub(super) fn run_eager(
        &self,
        arm: Arm,
        rows: u32,
        taps: Option<&Taps>,
    ) -> Result<EagerRun, Error> {
        let options = self.capture_options(arm, format!("decode {rows}, eager"), taps);
        let products = self.products.get(&rows).or_else(|| self.wide.get(&rows));
        let products = products.ok_or_else(|| self.no_room(rows as usize))?;
        let (run, ()) = self.device.eager(options, |run| {
            self.model.record(run, products, rows, arm.overlap)
        })?;
        Ok(run)
    }

    fn capture_options(&self, arm: Arm, name: String, taps: Option<&Taps>) -> CaptureOptions {
        let poison = match (self.options.instruments.poison, self.setup.packing) {
            // What a plan lets others use again is known too late for a fill.
            (Poison::Reused, Packing::Planned) => Poison::Every,
            (poison, _) => poison,
        };
        let options = self.options(arm, name).poison(poison);
        match taps {
            None => options,
            Some(taps) => options.taps(taps),
        }
    }

    /// The rows that a batch runs with: those of its bucket, or its own where none
    /// holds it, whose products are then fixed.
    fn rows(&mut self, batch: usize) -> Result<u32, Error> {
        match self.bucket(batch) {
            Ok(bucket) => return Ok(bucket),
            Err(error) if self.options.above_largest == AboveLargest::Refuse => return Err(error),
            Err(_) => {}
        }
        let rows = u32::try_from(batch).ok();
        let rows = rows.filter(|&rows| rows <= self.setup.capacity.rows);
        let rows = rows.ok_or_else(|| self.no_room(batch))?;
        if !self.wide.contains_key(&rows) {
            let products = Products::new(&self.model.library, &self.setup.config, rows)?;
            self.wide.insert(rows, products);
        }
        Ok(rows)
    }

    fn no_room(&self, batch: usize) -> Error {
        Error::Rows {
            batch,
            rows: self.setup.capacity.rows,
        }
    }

    /// Enqueues the inputs of a step.
    pub(super) fn stage(&mut self, batch: &[Row<'_>]) -> Result<(), Error> {
        self.model.inputs.stage(&self.device, batch)
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    fn options(&self, arm: Arm, name: String) -> CaptureOptions {
        let mut options = CaptureOptions::new(name);
        for tag in URGENT {
            options = options.stream_priority(tag, -1);
        }
        match arm.pools {
            Pools::Tagged => {
                let options = match self.setup.packing {
                    Packing::Isolated => options.policy(Policy::ISOLATED),
                    Packing::Ordered => options.policy(Policy::ORDERED),
                    Packing::Planned => options.policy(Policy::ORDERED).planned(),
                };
                options.verify(Verify::Refuse)
            }
            Pools::Shared => {
                // SAFETY: nothing but a comparison relies on the results, and the
                // kernels stay in bounds whatever they read: an id or a slot that a
                // pool does not have is masked or replaced.
                let policy = unsafe { Policy::host_order() };
                options.policy(policy).verify(Verify::Report)
            }
        }
    }
}

/// An engine that is ready to run the steps of one arm.
pub struct Decoder<'a> {
    arm: Arm,
    stream: DeviceStream,
    pub(super) graphs: BTreeMap<u32, Graph>,
    pub(super) watch: Option<Watch>,
    pub(super) engine: &'a mut Engine,
}

impl Decoder<'_> {
    /// The arm.
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// The graphs, by bucket; none in an eager arm.
    pub fn graphs(&self) -> &BTreeMap<u32, Graph> {
        &self.graphs
    }

    /// What the verifier says of each graph.
    pub fn reports(&self) -> impl Iterator<Item = (u32, &Report)> {
        self.graphs
            .iter()
            .map(|(&bucket, graph)| (bucket, graph.report()))
    }

    /// Bytes that the pools take of the arena that all graphs share: what the
    /// largest of them takes.
    pub fn reserved(&self) -> u64 {
        self.graphs
            .values()
            .map(|graph| graph.pools().reserved)
            .max()
            .unwrap_or(0)
    }

    /// The least bytes that the scratch of the largest graph can do with, as the
    /// verifier counts it (R9).
    pub fn floor(&self) -> u64 {
        self.reports()
            // The last row is of all pools together, or of the only one.
            .filter_map(|(_, report)| report.growth.last())
            .map(|growth| growth.floor)
            .max()
            .unwrap_or(0)
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Enqueues a step of a batch; [`chosen`](Self::chosen) waits for it.
    ///
    /// With [`Instruments::differential`] it waits, and compares the step, until
    /// one has differed.
    ///
    /// # Errors
    /// When no bucket holds the batch, a row is wrong ([`Error::Row`]), or the
    /// device fails. Other sequences are not touched.
    pub fn step(&mut self, batch: &[Row<'_>]) -> Result<(), Error> {
        if self.watch.as_ref().is_some_and(Watch::looks) {
            return self.differential(batch).map(drop);
        }
        let rows = self.stage(batch)?;
        self.run(rows).map(drop)
    }

    /// Enqueues the inputs of a batch. The rows that it runs with.
    pub(super) fn stage(&mut self, batch: &[Row<'_>]) -> Result<u32, Error> {
        let rows = self.engine.rows(batch.len())?;
        self.engine.stage(batch)?;
        Ok(rows)
    }

    /// Enqueues a step of so many rows. What it did when it was not a graph.
    pub(super) fn run(&mut self, rows: u32) -> Result<Option<EagerRun>, Error> {
        if let Some(graph) = self.graphs.get(&rows) {
            graph.replay(&self.stream)?;
            return Ok(None);
        }
        let taps = self.watch.as_mut().map(|watch| watch.taps(rows));
        self.engine.run_eager(self.arm, rows, taps).map(Some)
    }

    /// What the instruments have found.
    ///
    /// # Errors
    /// When the device fails, on which the guards are looked at.
    pub fn found(&self) -> Result<Found, Error> {
        let Engine {
            device, options, ..
        } = &*self.engine;
        let guards = options.instruments.canary.then(|| device.check_guards());
        Ok(Found {
            guards: guards.transpose()?,
            compared: self.watch.as_ref().map(Watch::compared),
        })
    }

    /// Waits for the last step and returns what it chose for its `rows` rows.
    ///
    /// # Errors
    /// When the device fails.
    pub fn chosen(&self, rows: usize) -> Result<Chosen, Error> {
        let model = &self.engine.model;
        let mut tokens = model.chosen.download()?;
        tokens.truncate(rows);
        let width = model.config.hidden as usize;
        let hidden = model.hidden.download()?;
        Ok(Chosen {
            tokens,
            hidden: hidden
                .chunks_exact(width)
                .take(rows)
                .map(|row| row.iter().copied().map(bf16::to_bits).collect())
                .collect(),
        })
    }
}
