//! The model on a device: the products of each bucket, and how a step is captured
//! or run.

use std::collections::BTreeMap;

use streamweir::kernels::dsv4::PageFaults;
use streamweir::{
    ArenaConfig, Capture, CaptureOptions, Device, EagerRun, Graph, Poison, Policy, ReplayGroup,
    Taps, Verify,
};

use super::arm::{AboveLargest, Arm, EngineOptions, Packing, Pools, Setup};
use super::config::Overlap;
use super::error::Error;
use super::inputs::Row;
use super::model::{Capacity, Model};
use super::pages::Pages;
use super::products::Products;

/// The streams of the indexer, whose chain of small kernels main waits for: they
/// are given room before the large products of main take it.
const URGENT: [&str; 3] = ["indexer", "idx_q", "idx_weights"];

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

impl Engine {
    /// Loads kernels, makes weights and caches, fixes the algorithms of all
    /// products. On a CUDA device those of main's are measured, so nothing else should
    /// run there meanwhile; two engines may choose otherwise and differ in last bits.
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
        let mut model = Model::new(
            &device,
            setup.config,
            setup.index_keys,
            setup.capacity,
            setup.seed,
        )?;
        if options.keep_selected {
            model.keep_selected(&device, setup.capacity.rows)?;
        }
        let products = setup
            .buckets
            .iter()
            .map(|&bucket| Ok((bucket, Products::measured(&device, &model, bucket)?)))
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

    /// The buckets, in ascending order.
    pub(super) fn buckets(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.products.keys().copied()
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
        self.model.page_faults.upload(&PageFaults::NONE)?;
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
        let others = self.model.faults.download()?[0];
        Ok(others.saturating_add(self.page_faults()?.count))
    }

    /// Page ids of the inputs that the pools do not have, since the last reset,
    /// and the row and column of the first in its step. A step reads page 0 for
    /// each and goes on.
    ///
    /// # Errors
    /// When the device fails.
    pub fn page_faults(&self) -> Result<PageFaults, Error> {
        let found = self.model.page_faults.download()?;
        let stride = self.setup.config.table_stride();
        Ok(PageFaults::read([found[0], found[1]], stride))
    }

    /// The graph of a bucket.
    pub(super) fn capture(
        &self,
        arm: Arm,
        bucket: u32,
        group: &ReplayGroup,
    ) -> Result<Graph, Error> {
        self.capture_tapped(arm, bucket, group, None)
    }

    /// The graph of a bucket, with what its commands read and wrote kept by `taps`.
    pub(super) fn capture_tapped(
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

    /// Bytes that the graphs of all buckets will reserve, found from recordings: none is
    /// captured, and nothing is reserved.
    ///
    /// # Errors
    /// When a step cannot be recorded.
    pub fn will_reserve(&self, arm: Arm) -> Result<u64, Error> {
        let mut sizing = self.device.sizing("decode", ArenaConfig::default())?;
        for bucket in self.buckets().rev() {
            let options = self.capture_options(arm, format!("decode {bucket}"), None);
            let products = &self.products[&bucket];
            sizing.record(options, |capture| {
                self.model.record(capture, products, bucket, arm.overlap)
            })?;
        }
        Ok(sizing.reserved())
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
        let (run, ()) = self
            .device
            .eager(options, |run| self.record_step(run, rows, arm.overlap))?;
        Ok(run)
    }

    /// Records what a step of so many rows does into a capture of one's own, or an eager
    /// run.
    ///
    /// # Errors
    /// When there are no products for so many rows, or as every call that records.
    pub fn record_step(&self, capture: &Capture, rows: u32, overlap: Overlap) -> Result<(), Error> {
        let products = self.products.get(&rows).or_else(|| self.wide.get(&rows));
        let products = products.ok_or_else(|| self.no_room(rows as usize))?;
        self.model.record(capture, products, rows, overlap)
    }

    fn capture_options(&self, arm: Arm, name: String, taps: Option<&Taps>) -> CaptureOptions {
        let planned = arm.pools == Pools::Tagged && self.setup.packing == Packing::Planned;
        let poison = match self.options.instruments.poison {
            // What a plan lets others use again is known too late for a fill.
            Poison::Reused if planned => Poison::Every,
            poison => poison,
        };
        let options = self.options(arm, name).poison(poison);
        match taps {
            None => options,
            Some(taps) => options.taps(taps),
        }
    }

    /// The rows that a batch runs with: those of its bucket, or its own where none
    /// holds it, whose products are then fixed.
    pub(super) fn rows(&mut self, batch: usize) -> Result<u32, Error> {
        match self.bucket(batch) {
            Ok(bucket) => return Ok(bucket),
            Err(error) if self.options.above_largest == AboveLargest::Refuse => return Err(error),
            Err(_) => {}
        }
        let rows = match u32::try_from(batch) {
            Ok(rows) if rows <= self.setup.capacity.rows => rows,
            _ => return Err(self.no_room(batch)),
        };
        if !self.wide.contains_key(&rows) {
            let products = Products::at_once(&self.model, rows)?;
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

    /// The products of the smallest bucket.
    pub(super) fn smallest_products(&self) -> &Products {
        let mut buckets = self.products.values();
        buckets.next().expect("a setup has buckets")
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    fn options(&self, arm: Arm, name: String) -> CaptureOptions {
        let mut options = CaptureOptions::new(name);
        for tag in URGENT {
            options = options.stream_priority(tag, -1);
        }
        // An eager run, such as the reference, starts nothing early in any case.
        options = options.programmatic(self.setup.programmatic);
        match arm.pools {
            Pools::Tagged => {
                let options = match self.setup.packing {
                    Packing::Isolated => options.policy(Policy::ISOLATED),
                    Packing::Ordered => options.policy(Policy::ORDERED),
                    Packing::Planned => options.policy(Policy::ORDERED).planned(),
                };
                options.verify(Verify::Prove)
            }
            Pools::Shared => {
                // SAFETY: nothing but a comparison relies on the results, and the
                // kernels stay in bounds whatever they read: an id or a slot that a
                // pool does not have is masked or replaced.
                let options = unsafe { options.host_order_pools() };
                options.verify(Verify::Report)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arm::Exec;
    use super::super::config::{IndexKeys, Overlap};
    use super::*;

    /// However scratch is packed, and whatever overlaps.
    #[test]
    fn what_the_buckets_will_reserve_is_known_before_they_are_captured() {
        for packing in [Packing::Isolated, Packing::Ordered, Packing::Planned] {
            let setup = Setup {
                buckets: vec![1, 2, 4],
                packing,
                ..Setup::of_three_layers(4)
            };
            let device = Device::sim(1);
            let engine = Engine::new(&device, setup).unwrap();
            for overlap in Overlap::ALL {
                let arm = Arm {
                    overlap,
                    pools: Pools::Tagged,
                    exec: Exec::Graph,
                };
                let said = engine.will_reserve(arm).unwrap();
                let group = device.replay_group("test", ArenaConfig::default());
                let graphs: Vec<_> = (engine.buckets().rev())
                    .map(|bucket| engine.capture(arm, bucket, &group).unwrap())
                    .collect();
                assert_eq!(said, group.reserved(), "{packing:?}, {overlap:?}");
                drop(graphs);
            }
        }
    }

    #[test]
    fn a_page_id_that_no_pool_has_is_counted_in_every_replay() {
        let setup = Setup {
            index_keys: IndexKeys::Fp8,
            ..Setup::of_three_layers(2)
        };
        let device = Device::sim(1);
        let mut engine = Engine::new(&device, setup).unwrap();
        let mut pages = engine.reset().unwrap();
        let mut sequences = [pages.begin().unwrap(), pages.begin().unwrap()];
        for (sequence, tokens) in sequences.iter_mut().zip([90, 400]) {
            pages.grow(sequence, tokens).unwrap();
        }
        let arm = Arm {
            overlap: Overlap::Full,
            pools: Pools::Tagged,
            exec: Exec::Graph,
        };
        let group = device.replay_group("test", ArenaConfig::default());
        let graph = engine.capture(arm, 2, &group).unwrap();
        let stream = device.stream("test").unwrap();
        let batch = sequences
            .each_ref()
            .map(|sequence| Row { sequence, token: 1 });
        engine.model.inputs.stage(&device, &batch).unwrap();
        graph.replay(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(engine.faults().unwrap(), 0);

        // The first page of the second row, which is not the one that is written.
        engine.model.inputs.set_page(1, 0, 9_999).unwrap();
        for replays in 1..=2 {
            graph.replay(&stream).unwrap();
            stream.synchronize().unwrap();
            let found = engine.page_faults().unwrap();
            assert_eq!((found.count, found.first), (replays, Some((1, 0))));
            assert_eq!(engine.faults().unwrap(), replays);
        }
    }
}
