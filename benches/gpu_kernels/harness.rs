//! How a kernel is timed: many launches over different inputs in one graph.
//!
//! A single launch is shorter than the host takes to submit it, and inputs that
//! were just read come from the cache. So each measurement captures one chain
//! of launches on one stream, each over the next of several sets of inputs that
//! together exceed the cache, and times replays of it with events. The time of
//! a launch then includes the step from one node to the next, which a decode
//! step pays too: about a microsecond.

use std::cell::RefCell;

use half::bf16;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use streamweir::kernels::dsv4::{self, Code};
use streamweir::kernels::layout::LatentFp8Pages;
use streamweir::{Device, Persistent, Stream};

use crate::common::Outcome;

/// Bytes per second between the memory and the chip, as a large copy reaches
/// them on an H200: the floor by bytes.
const BYTES_PER_SECOND: f64 = 4.3e12;
/// Dense bf16 operations per second, as a large product reaches them on an
/// H200: the floor by operations.
const OPERATIONS_PER_SECOND: f64 = 790e12;
/// What the input sets of one measurement have together at least; the cache of
/// an H200 holds 50 MiB.
const BEYOND_CACHE: u64 = 192 << 20;
/// The most input sets of one measurement, and the least.
const SETS: std::ops::RangeInclusive<u64> = 4..=64;
/// Launches in a graph.
const LAUNCHES: usize = 64;
/// Replays that are timed; the first ones are not.
const REPLAYS: usize = 25;
const WARM_UP: usize = 5;

/// What one launch must do at the least.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Bytes that it reads or writes, each once.
    pub(crate) bytes: u64,
    /// Operations of the tensor cores, two for each product and sum.
    pub(crate) operations: u64,
}

impl Work {
    /// The time that no kernel can undercut on the card of the constants, in
    /// microseconds.
    fn floor(self) -> f64 {
        let bytes = self.bytes as f64 / BYTES_PER_SECOND;
        let operations = self.operations as f64 / OPERATIONS_PER_SECOND;
        bytes.max(operations) * 1e6
    }
}

/// The device, and the table as it grows.
pub(crate) struct Harness {
    pub(crate) device: Device,
    pub(crate) module: Code,
    random: RefCell<StdRng>,
    filter: Option<String>,
}

impl Harness {
    pub(crate) fn new(device: Device, filter: Option<String>) -> Outcome<Self> {
        let module = dsv4::load(&device)?;
        println!("{}; the median of {REPLAYS} replays", device.info().name);
        println!("| kernel | sizes | MB | GFLOP | floor, us | time, us | floor / time |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
        Ok(Self {
            device,
            module,
            random: RefCell::new(StdRng::seed_from_u64(4)),
            filter,
        })
    }

    /// Measures one kernel, unless the command line asks for others, and prints
    /// its row. `inputs` makes one set of inputs with its outputs; `record`
    /// launches over one.
    pub(crate) fn row<I>(
        &self,
        kernel: &str,
        sizes: &str,
        work: Work,
        mut inputs: impl FnMut(&Self) -> Outcome<I>,
        record: impl Fn(&Stream, &I) -> Outcome,
    ) -> Outcome {
        if self.filter.as_ref().is_some_and(|f| !kernel.contains(f)) {
            return Ok(());
        }
        let wanted = BEYOND_CACHE.div_ceil(work.bytes.max(1));
        let sets = (0..wanted.clamp(*SETS.start(), *SETS.end()))
            .map(|_| inputs(self))
            .collect::<Outcome<Vec<_>>>()?;
        let capture = self.device.begin(kernel)?;
        let main = capture.origin();
        for launch in 0..LAUNCHES {
            record(&main, &sets[launch % sets.len()])?;
        }
        drop(main);
        let graph = capture.end()?;
        let stream = self.device.stream("bench")?;
        let [begin, end] = [self.device.event("begin")?, self.device.event("end")?];
        let mut times = Vec::with_capacity(REPLAYS);
        for replay in 0..WARM_UP + REPLAYS {
            stream.record(&begin)?;
            graph.replay(&stream)?;
            stream.record(&end)?;
            stream.synchronize()?;
            if replay >= WARM_UP {
                times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3 / LAUNCHES as f64);
            }
        }
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        let floor = work.floor();
        println!(
            "| {kernel} | {sizes} | {:.2} | {:.2} | {floor:.2} | {time:.2} | {:.2} |",
            work.bytes as f64 / 1e6,
            work.operations as f64 / 1e9,
            floor / time,
        );
        Ok(())
    }

    /// Numbers from -1 to 1.
    pub(crate) fn halves(&self, name: &str, len: usize) -> Outcome<Persistent<bf16>> {
        let mut bytes = vec![0_u8; 2 * len];
        self.random.borrow_mut().fill_bytes(&mut bytes);
        let values: Vec<bf16> = bytes
            .chunks_exact(2)
            .map(|b| bf16::from_f32(f32::from(i16::from_le_bytes([b[0], b[1]])) / 32768.0))
            .collect();
        Ok(self.device.persistent_from(name, &values)?)
    }

    /// Numbers from -1 to 1, all different for the most part.
    pub(crate) fn floats(&self, name: &str, len: usize) -> Outcome<Persistent<f32>> {
        let mut bytes = vec![0_u8; 4 * len];
        self.random.borrow_mut().fill_bytes(&mut bytes);
        let values: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32 / 2_147_483_648.0)
            .collect();
        Ok(self.device.persistent_from(name, &values)?)
    }

    /// A pool of fp8 latents: random numbers, scales of about 2^-8.
    pub(crate) fn latents(&self, name: &str, pages: &LatentFp8Pages) -> Outcome<Persistent<u8>> {
        let layout = pages.layout();
        let mut bytes = vec![0_u8; layout.pool_bytes() as usize];
        self.random.borrow_mut().fill_bytes(&mut bytes);
        for page in bytes.chunks_exact_mut(layout.page_bytes() as usize) {
            let (values, scales) = page.split_at_mut(layout.scale_offset() as usize);
            for token in values.chunks_exact_mut(layout.value_bytes() as usize) {
                // No pattern that is not a number, and rotated values below 2.
                let (nope, rotated) = token.split_at_mut(LatentFp8Pages::NOPE as usize);
                nope.iter_mut().for_each(|code| *code &= 0xf7);
                rotated.chunks_exact_mut(2).for_each(|half| half[1] &= 0xbf);
            }
            scales
                .iter_mut()
                .for_each(|scale| *scale = 116 + (*scale & 7));
        }
        Ok(self.device.persistent_from(name, &bytes)?)
    }

    /// The page table of `sequences` sequences of `pages` pages each, the pages
    /// 1, 2, ... of one pool in random order.
    pub(crate) fn page_table(&self, sequences: u32, pages: u32) -> Outcome<Persistent<i32>> {
        Ok(self
            .device
            .persistent_from("page table", &self.shuffled(1, sequences * pages))?)
    }

    /// `len` different numbers from `first` on, in random order.
    pub(crate) fn shuffled(&self, first: i32, len: u32) -> Vec<i32> {
        let mut values: Vec<i32> = (first..first + len as i32).collect();
        values.shuffle(&mut self.random.borrow_mut());
        values
    }
}
