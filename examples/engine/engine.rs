//! Buckets in one replay group, eager runs above the largest, inputs by `Staging`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use streamweir::kernels::gemm::GemmLibrary;
use streamweir::verify::Verdict;
use streamweir::{
    ArenaConfig, CaptureOptions, Device, DeviceStream, Feed, Graph, Readback, ReplayGroup, Staging,
    Verify,
};

use super::Failure;
use super::kernels::Kernels;
use super::model::{Cache, Config, OnHost, angles};
use super::step::{Inputs, Model, Products, ROW_PAGES};

/// A token of a session, to go through the model.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub id: u32,
    pub position: u32,
    pub pages: &'a [u32],
}

/// What an engine has done.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Replays of each bucket, and eager runs.
    pub replays: BTreeMap<u32, u64>,
    pub eager: u64,
    /// Rows that were asked for, and rows that a bucket had beyond them.
    pub rows: u64,
    pub padding: u64,
    /// To capture, prove and instantiate all buckets.
    pub start_up: Duration,
    /// Bytes that all buckets share, as found before the first was captured, and as
    /// they are.
    pub planned: u64,
    pub reserved: u64,
}

/// Rows of an eager run are filled up to a multiple of this.
const EAGER_ROWS: u32 = 16;

pub struct Engine {
    device: Device,
    stream: DeviceStream,
    library: GemmLibrary,
    model: Model,
    overlap: bool,
    most_rows: u32,
    group: ReplayGroup,
    buckets: BTreeMap<u32, Graph>,
    products: BTreeMap<u32, Products>,
    feed: Feed,
    ids: Staging<u32>,
    positions: Staging<u32>,
    pages: Staging<u32>,
    next: Readback<u32>,
    pub metrics: Metrics,
}

impl Engine {
    /// An engine with a graph for each bucket, and eager runs of up to `most_rows` rows.
    /// Scratch of the buckets and cache have `memory` bytes together.
    pub fn new(
        device: &Device,
        (config, weights): (Config, &OnHost),
        memory: u64,
        buckets: &[u32],
        most_rows: u32,
        overlap: bool,
    ) -> Result<Self, Failure> {
        let most = most_rows.next_multiple_of(EAGER_ROWS) as usize;
        let model = Model {
            config,
            kernels: Kernels::load(device)?,
            weights: weights.upload(device)?,
            angles: device.persistent_from("angles", &angles(&config))?,
            cache: Cache::new(device, &config, 1)?,
            inputs: Inputs::new(device, most)?,
        };
        let feed = device.feed("decode", 2)?; // two steps in flight
        let mut engine = Self {
            device: device.clone(),
            stream: device.stream("decode")?,
            library: GemmLibrary::new(device)?,
            model,
            overlap,
            most_rows,
            group: device.replay_group("buckets", ArenaConfig::default()),
            buckets: BTreeMap::new(),
            products: BTreeMap::new(),
            ids: feed.staging("next ids", most)?,
            positions: feed.staging("next positions", most)?,
            pages: feed.staging("next pages", most * ROW_PAGES as usize)?,
            next: feed.readback("tokens", most)?,
            feed,
            metrics: Metrics::default(),
        };
        for &rows in buckets {
            engine.choose_products(rows)?;
        }
        engine.size_cache(buckets, memory)?;
        let start = Instant::now();
        // The largest first: the others find all that they need in the arena.
        for &rows in buckets.iter().rev() {
            engine.capture(rows)?;
        }
        engine.metrics.start_up = start.elapsed();
        engine.metrics.reserved = engine.group.reserved();
        Ok(engine)
    }

    /// Chooses the products of so many rows, once.
    fn choose_products(&mut self, rows: u32) -> Result<(), Failure> {
        if !self.products.contains_key(&rows) {
            let products = Products::new(&self.library, &self.model.config, rows)?;
            self.products.insert(rows, products);
        }
        Ok(())
    }

    // begin: docs/guide.md, sizing
    /// Gives the cache what the buckets will leave of `memory`. They are recorded with a
    /// cache of one page: what a step takes of scratch does not depend on it.
    fn size_cache(&mut self, buckets: &[u32], memory: u64) -> Result<(), Failure> {
        let mut sizing = self.device.sizing("buckets", ArenaConfig::default())?;
        for &rows in buckets.iter().rev() {
            let products = &self.products[&rows];
            let record = |cap: &_| self.model.record(cap, products, rows, self.overlap);
            sizing.record(format!("decode {rows}"), record)?;
        }
        self.metrics.planned = sizing.reserved();
        let config = &self.model.config;
        let pages = memory.saturating_sub(sizing.reserved()) / Cache::page_bytes(config);
        self.model.cache = Cache::new(&self.device, config, pages.try_into()?)?;
        Ok(())
    }
    // end: docs/guide.md, sizing

    // begin: docs/guide.md, buckets
    /// Captures a bucket. A graph that could not be proved is not made.
    fn capture(&mut self, rows: u32) -> Result<(), Failure> {
        let products = &self.products[&rows];
        let options = CaptureOptions::new(format!("decode {rows}"))
            .group(&self.group)
            .verify(Verify::Prove);
        let record = |cap: &_| self.model.record(cap, products, rows, self.overlap);
        let (graph, ()) = self.device.capture(options, record)?;
        graph.upload(&self.stream)?;
        self.buckets.insert(rows, graph);
        Ok(())
    }
    // end: docs/guide.md, buckets

    // begin: docs/guide.md, eager
    /// Runs so many rows without a graph.
    fn run_eagerly(&mut self, rows: u32) -> Result<(), Failure> {
        self.choose_products(rows)?;
        let products = &self.products[&rows];
        let record = |cap: &_| self.model.record(cap, products, rows, self.overlap);
        let (run, ()) = self.device.eager(format!("eager {rows}"), record)?;
        match run.report().verdict {
            Verdict::Safe => Ok(()),
            _ => Err(run.report().to_string().into()),
        }
    }
    // end: docs/guide.md, eager

    pub fn largest(&self) -> u32 {
        self.buckets.keys().next_back().copied().unwrap_or(0)
    }

    pub fn cache_pages(&self) -> u32 {
        self.model.cache.pages
    }

    pub fn most_rows(&self) -> u32 {
        self.most_rows
    }

    /// The graph of the largest bucket, and the stream that it is replayed on.
    pub fn timed(&self) -> Option<(&Graph, &DeviceStream)> {
        let (_, graph) = self.buckets.iter().next_back()?;
        Some((graph, &self.stream))
    }

    /// Takes tokens through the model, and gives what comes after each. Tokens of one
    /// session are in order; their keys are stored before any row attends to them.
    pub fn step(&mut self, batch: &[Row<'_>]) -> Result<Vec<u32>, Failure> {
        let count = batch.len() as u32;
        if count == 0 || count > self.most_rows {
            return Err(format!("{count} rows, not 1 to {}", self.most_rows).into());
        }
        let bucket = self.buckets.range(count..).next().map(|(&rows, _)| rows);
        let rows = bucket.unwrap_or_else(|| count.next_multiple_of(EAGER_ROWS));
        self.metrics.rows += u64::from(count);
        self.metrics.padding += u64::from(rows - count);

        // begin: docs/guide.md, feeding
        // Waits for the step before last, whose slots these are, unless it was read.
        let mut step = self.feed.step(&self.stream)?;
        let row_pages = ROW_PAGES as usize;
        let ids = self.ids.write(&step)?;
        let positions = self.positions.write(&step)?;
        let pages = self.pages.write(&step)?;
        // Rows that nobody asked for write to page 0, which is nobody's.
        ids.fill(0);
        positions.fill(0);
        pages.fill(0);
        for (at, row) in batch.iter().enumerate() {
            ids[at] = row.id;
            positions[at] = row.position;
            pages[at * row_pages..][..row.pages.len()].copy_from_slice(row.pages);
        }
        let all = rows as usize;
        let io = &self.model.inputs;
        self.ids.send(&mut step, &io.ids, 0..all)?;
        self.positions.send(&mut step, &io.positions, 0..all)?;
        self.pages.send(&mut step, &io.pages, 0..all * row_pages)?;
        // end: docs/guide.md, feeding
        let done = match bucket {
            Some(rows) => {
                // begin: docs/guide.md, replay
                self.buckets[&rows].replay(&self.stream)?; // one driver call
                self.next.receive(&mut step, &io.next, 0..all)?;
                let done = step.end()?; // one event for all copies of the step
                // end: docs/guide.md, replay
                *self.metrics.replays.entry(rows).or_default() += 1;
                done
            }
            None => {
                // What the run reads is sent; what it writes is received by a step of
                // its own.
                step.end()?;
                self.run_eagerly(rows)?;
                self.metrics.eager += 1;
                let mut step = self.feed.step(&self.stream)?;
                self.next
                    .receive(&mut step, &self.model.inputs.next, 0..all)?;
                step.end()?
            }
        };
        let tokens = self.next.read(&mut self.feed, done)?;
        Ok(tokens[..batch.len()].to_vec())
    }
}
