//! A decode step of DeepSeek-V4 Flash, overlap off and on, on a GPU.
//!
//! Eight layers, so two without entries, three with an indexer and three that
//! attend to all entries; sequences of 16,384 tokens; every bucket. Times are
//! those between two events around the replays of a sample. `streamweir decode
//! --profile` measures more, and the full depth.

mod common;

use std::time::Duration;

use common::Outcome;
use criterion::{BenchmarkId, Criterion};
use streamweir::Device;
use streamweir_integration::dsv4::{
    Arm, BUCKETS, Capacity, Config, Engine, Exec, IndexKeys, Overlap, PAGE_TOKENS, Packing, Pools,
    Row, Setup,
};

const CONTEXT: u32 = 16_384;

fn main() -> Outcome {
    common::on_a_gpu(measure)
}

fn measure(device: Device) -> Outcome {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .configure_from_args();
    steps(&mut criterion, &device)?;
    criterion.final_summary();
    Ok(())
}

fn setup() -> Setup {
    let rows = BUCKETS[BUCKETS.len() - 1];
    Setup {
        config: Config {
            layers: 8,
            max_context: CONTEXT,
            ..Config::FLASH
        },
        index_keys: IndexKeys::Bf16,
        buckets: BUCKETS.to_vec(),
        capacity: Capacity {
            sequences: rows,
            pages: 1 + rows * CONTEXT.div_ceil(PAGE_TOKENS),
            rows,
        },
        packing: Packing::Planned,
        programmatic: true,
        seed: 1,
    }
}

fn steps(criterion: &mut Criterion, device: &Device) -> Outcome {
    let mut engine = Engine::new(device, setup())?;
    let mut pages = engine.reset()?;
    let mut sequences = Vec::new();
    for _ in 0..engine.setup().capacity.sequences {
        let mut sequence = pages.begin()?;
        pages.grow(&mut sequence, CONTEXT)?;
        sequences.push(sequence);
    }
    let stream = device.stream("bench")?;
    let [begin, end] = [device.event("begin")?, device.event("end")?];
    let mut group = criterion.benchmark_group("decode");
    for overlap in [Overlap::Off, Overlap::Full] {
        let arm = Arm {
            overlap,
            pools: Pools::Tagged,
            exec: Exec::Graph,
        };
        let mut decoder = engine.prepare(arm)?;
        for bucket in BUCKETS {
            let batch = &sequences[..bucket as usize];
            let rows: Vec<_> = (batch.iter())
                .map(|sequence| Row { sequence, token: 1 })
                .collect();
            // The inputs stay where they are.
            decoder.step(&rows)?;
            let graph = &decoder.graphs()[&bucket];
            let replay = |times: u64| -> Outcome<Duration> {
                stream.record(&begin)?;
                for _ in 0..times {
                    graph.replay(&stream)?;
                }
                stream.record(&end)?;
                stream.synchronize()?;
                Ok(Duration::from_secs_f64(
                    f64::from(begin.elapsed_ms(&end)?) / 1e3,
                ))
            };
            let mut failed = None;
            group.bench_function(BenchmarkId::new(overlap.word(), bucket), |bencher| {
                bencher.iter_custom(|times| {
                    replay(times).unwrap_or_else(|error| {
                        failed = Some(error);
                        // Criterion asks again for a time of zero.
                        Duration::from_secs(1)
                    })
                });
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }
    group.finish();
    Ok(())
}
