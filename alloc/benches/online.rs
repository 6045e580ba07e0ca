//! The online path of the pools, as a capture takes it.
#![allow(missing_docs)] // criterion_group makes a public function

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use streamweir_alloc::{Arena, ArenaConfig, Backing, BackingError, BlockId, Policy, Pools};
use streamweir_trace::{ByteRange, StreamId};

/// Addresses without memory.
struct Addresses(AtomicU64);

impl Backing for Addresses {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let start = self.0.fetch_add(bytes, Ordering::Relaxed);
        Ok(ByteRange::new(start, start + bytes))
    }

    fn release(&self, _segment: ByteRange) {}
}

/// One capture is this many rounds, so that its table of blocks has the size
/// of a real one.
const ROUNDS: u64 = 4096;

fn capture(arena: &Arc<Arena>, policy: Policy) -> (Pools, [StreamId; 4]) {
    let pools = Pools::new(arena.open(), policy);
    let streams = ["main", "indexer", "shared", "kv"]
        .map(|name| pools.add_stream(name, name).expect("tags differ"));
    for &side in &streams[1..] {
        pools.fork(streams[0], side).expect("both exist");
    }
    (pools, streams)
}

/// `rounds` rounds over captures of at most [`ROUNDS`], the captures' own
/// construction and end left out.
fn timed(
    rounds: u64,
    arena: &Arc<Arena>,
    policy: Policy,
    mut round: impl FnMut(&Pools, &[StreamId; 4], u64),
) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = rounds;
    while left > 0 {
        let now = left.min(ROUNDS);
        left -= now;
        let (pools, streams) = capture(arena, policy);
        let start = Instant::now();
        for i in 0..now {
            round(&pools, &streams, i);
        }
        spent += start.elapsed();
        pools.abort();
    }
    spent
}

fn size(i: u64) -> u64 {
    // Sizes of a decode step at several batch sizes, in no particular order.
    [4096, 65536, 24576, 2048, 131_072, 512, 1 << 20, 18432][(i.wrapping_mul(5) % 8) as usize]
}

fn online(c: &mut Criterion) {
    let backing = Arc::new(Addresses(AtomicU64::new(1 << 32)));
    let arena = Arena::new("bench", backing, ArenaConfig::default());

    // The target of the project: both calls together.
    c.bench_function("scratch alloc+free", |b| {
        b.iter_custom(|rounds| {
            timed(rounds, &arena, Policy::ISOLATED, |pools, streams, i| {
                let block = pools.alloc(streams[0], size(i), "scores").expect("room");
                black_box(block.range);
                pools.free(block.id).expect("held");
            })
        });
    });

    // Sixteen blocks held at a time, over four streams, each written and read.
    for (policy, name) in [(Policy::ISOLATED, "isolated"), (Policy::ORDERED, "ordered")] {
        c.bench_function(&format!("alloc+record+free, 16 held, {name}"), |b| {
            b.iter_custom(|rounds| {
                let mut held: [Option<BlockId>; 16] = [None; 16];
                timed(rounds, &arena, policy, |pools, streams, i| {
                    if i == 0 {
                        held = [None; 16];
                    }
                    let stream = streams[(i % 4) as usize];
                    let block = pools.alloc(stream, size(i), "scores").expect("room");
                    pools.record(stream, &[block.id]).expect("held");
                    if let Some(old) = held[(i % 16) as usize].replace(block.id) {
                        pools.free(old).expect("held");
                    }
                })
            });
        });
    }

    c.bench_function("record, 6 accesses", |b| {
        b.iter_custom(|rounds| {
            let mut blocks = Vec::new();
            timed(rounds, &arena, Policy::ISOLATED, |pools, streams, i| {
                if i == 0 {
                    blocks = (0..6)
                        .map(|i| pools.alloc(streams[0], size(i), "x").expect("room").id)
                        .collect();
                }
                black_box(pools.record(streams[0], &blocks)).expect("held");
            })
        });
    });
}

criterion_group!(benches, online);
criterion_main!(benches);
