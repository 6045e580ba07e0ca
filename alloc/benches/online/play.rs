//! Playing a log, and timing each take and free.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use streamweir_alloc::{Arena, ArenaConfig, Backing, BackingError, BlockId, Policy, Pools};
use streamweir_trace::{ByteRange, LogEvent};

use crate::log::Named;

/// Addresses without memory, in one piece that can be made longer.
struct Addresses(AtomicU64);

impl Backing for Addresses {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let start = self.0.fetch_add(bytes, Ordering::Relaxed);
        Ok(ByteRange::new(start, start + bytes))
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        if self.0.load(Ordering::Relaxed) != piece.end {
            return Ok(None);
        }
        self.reserve(bytes).map(Some)
    }

    fn release(&self, _piece: ByteRange) {}
}

fn arena() -> Arc<Arena> {
    let config = ArenaConfig {
        segment_bytes: 1 << 20,
        span_bytes: 256 << 10,
    };
    Arena::new(
        "bench",
        Arc::new(Addresses(AtomicU64::new(1 << 32))),
        config,
    )
}

/// A line of the table.
pub(crate) struct Row {
    pub(crate) reserved: u64,
    /// The median and the 99.9th percentile.
    pub(crate) take: (u64, u64),
    pub(crate) free: (u64, u64),
    pub(crate) growth: f64,
    pub(crate) two_threads: f64,
}

/// The least time of two readings of the clock after each other.
pub(crate) fn clock_ns() -> u64 {
    let readings = (0..10_000).map(|_| Instant::now().elapsed().as_nanos() as u64);
    readings.min().unwrap_or(0)
}

pub(crate) fn measure(log: &Named, policy: Policy, runs: usize, clock: u64) -> Row {
    let mut least = Times::default();
    let mut reserved = 0;
    for _ in 0..runs {
        let mut times = Times::default();
        let pools = Pools::new(arena().open(), policy);
        play(log, &pools, &mut times);
        reserved = pools.report().reserved;
        least.keep_least(times);
    }
    let take = least
        .take
        .iter()
        .map(|&ns| ns.saturating_sub(clock))
        .collect::<Vec<_>>();
    let free = least
        .free
        .iter()
        .map(|&ns| ns.saturating_sub(clock))
        .collect::<Vec<_>>();
    let tenth = take.len() / 10;
    let both = |from: usize| {
        let pairs = take[from..from + tenth]
            .iter()
            .chain(&free[from..from + tenth]);
        percentile(pairs.copied().collect(), 0.5) as f64
    };
    Row {
        reserved,
        growth: both(take.len().min(free.len()) - tenth) / both(0),
        two_threads: two_threads(log, policy, runs),
        take: (percentile(take.clone(), 0.5), percentile(take, 0.999)),
        free: (percentile(free.clone(), 0.5), percentile(free, 0.999)),
    }
}

fn percentile(mut times: Vec<u64>, part: f64) -> u64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

/// One time for each call, in ns, in the order of the calls.
#[derive(Default)]
struct Times {
    take: Vec<u64>,
    free: Vec<u64>,
}

impl Times {
    fn keep_least(&mut self, new: Self) {
        for (old, new) in [(&mut self.take, new.take), (&mut self.free, new.free)] {
            if old.is_empty() {
                *old = new;
            } else {
                old.iter_mut()
                    .zip(new)
                    .for_each(|(old, new)| *old = new.min(*old));
            }
        }
    }
}

/// Plays the log with a clock around each take and free.
fn play(log: &Named, pools: &Pools, times: &mut Times) {
    for stream in log.streams() {
        let name = format!("s{}", stream.0);
        pools.add_stream(&*name, &*name).expect("tags differ");
    }
    let mut blocks: Vec<Option<BlockId>> = vec![None; log.log.buffers.len()];
    let mut touched = Vec::new();
    for event in log.events() {
        match event {
            LogEvent::Join { from, to } => pools.join(*to, *from).expect("both exist"),
            LogEvent::Alloc(buffer) => {
                let asked = &log.log.buffers[buffer.index()];
                let start = Instant::now();
                let block = pools.alloc(asked.stream, asked.bytes, "").expect("room");
                times.take.push(start.elapsed().as_nanos() as u64);
                blocks[buffer.index()] = Some(black_box(block).id);
            }
            LogEvent::Kernel {
                stream,
                reads,
                writes,
            } => {
                touched.clear();
                let all = reads.iter().chain(writes);
                touched.extend(all.filter_map(|buffer| blocks[buffer.index()]));
                pools.record(*stream, &touched).expect("held");
            }
            LogEvent::Free(buffer) => {
                let block = blocks[buffer.index()].expect("taken");
                let start = Instant::now();
                pools.free(block).expect("held");
                times.free.push(start.elapsed().as_nanos() as u64);
            }
        }
    }
}

/// How much more two threads get done in a time, each with captures of its own in
/// one arena, than one thread: the best of several runs of each.
fn two_threads(log: &Named, policy: Policy, runs: usize) -> f64 {
    const CAPTURES: usize = 4;
    let rate = |threads: usize| {
        let run = || {
            let arena = arena();
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        for _ in 0..CAPTURES {
                            let pools = Pools::new(arena.open(), policy);
                            play(log, &pools, &mut Times::default());
                        }
                    });
                }
            });
            start.elapsed()
        };
        let least = (0..runs).map(|_| run()).min().unwrap_or(Duration::MAX);
        (threads * CAPTURES) as f64 / least.as_secs_f64()
    };
    rate(2) / rate(1)
}
