//! How near to the floor layouts come, and how long that takes.
//!
//! Two things are done. A table, with one line for each input and budget: height, floor, ratio,
//! milliseconds. Budgets are steps, so that heights are the same on every machine, whatever
//! else it does. And, by criterion, what time steps take.
//!
//! Inputs are lists of lifetimes that are cut out of a rectangle, so that their
//! floor can be reached, the logs of `tests/data`, and what lies in
//! `../shared/data` where that is there.
#![allow(missing_docs)] // criterion_group makes a public function

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamweir_place::{Budget, Item, Lives, Problem, Recorded, Sharing};
use streamweir_trace::AllocLog;

/// A problem by its name.
struct Input {
    name: String,
    problem: Problem,
}

/// Lifetimes cut out of a rectangle of 1 MiB, again and again across time or
/// across bytes, until there are so many: all of them fit 1 MiB.
fn cut(count: usize, seed: u64) -> Input {
    let mut rng = StdRng::seed_from_u64(seed);
    // Time from and to, bytes in KiB.
    let mut pieces = vec![(0_u64, 4096_u64, 1024_u64)];
    while pieces.len() < count {
        let at = (0..4)
            .map(|_| rng.random_range(0..pieces.len()))
            .max_by_key(|&at| (pieces[at].1 - pieces[at].0) * pieces[at].2)
            .unwrap_or_default();
        let (from, to, bytes) = pieces[at];
        if rng.random_range(0..3) == 0 && to - from > 1 {
            let middle = from + rng.random_range(1..to - from);
            pieces[at].1 = middle;
            pieces.push((middle, to, bytes));
        } else if bytes > 1 {
            let less = rng.random_range(1..bytes);
            pieces[at].2 = less;
            pieces.push((from, to, bytes - less));
        }
    }
    let intervals: Vec<(u64, u64)> = pieces.iter().map(|&(from, to, _)| (from, to)).collect();
    let items = pieces.iter().map(|&(_, _, bytes)| Item {
        bytes: bytes << 10,
        align: 1,
        pool: 0,
    });
    let problem = Problem::new(items.collect(), Lives::on_one_axis(&intervals));
    Input {
        name: format!("cut_{count}_{seed}"),
        problem: problem.expect("few and small"),
    }
}

/// Sizes over many powers of two, and lives of very different lengths.
fn trace(count: usize, seed: u64) -> Input {
    let mut rng = StdRng::seed_from_u64(seed);
    let lives = (0..count).map(|_| {
        let from = rng.random_range(0..count as u64 * 4);
        let longest = 1 << rng.random_range(2..16);
        (from, from + rng.random_range(1..=longest))
    });
    let lives: Vec<(u64, u64)> = lives.collect();
    let items = (0..count).map(|_| Item {
        bytes: (1 << rng.random_range(9..26)) + 512 * rng.random_range(0..8),
        align: 512,
        pool: 0,
    });
    let problem = Problem::new(items.collect(), Lives::on_one_axis(&lives));
    Input {
        name: format!("trace_{count}"),
        problem: problem.expect("few and small"),
    }
}

fn read(path: &Path) -> Input {
    let name = path.file_stem().unwrap_or_default();
    let bytes = fs::read(path).expect("a file that is there");
    let log = if path.extension().is_some_and(|ending| ending == "csv") {
        AllocLog::from_csv(str::from_utf8(&bytes).expect("text"))
    } else {
        AllocLog::from_json(&bytes)
    };
    let recorded = Recorded::of(&log.expect("a good file")).expect("uses that are ordered");
    Input {
        name: name.to_string_lossy().into_owned(),
        problem: recorded.problem().expect("few and small"),
    }
}

/// The files of a folder, if there is one, in the order of their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn line(input: &Input, steps: u64) {
    let problem = &input.problem;
    let floor = problem.floor();
    let start = Instant::now();
    let budget = Budget::steps(steps);
    let plan = problem.plan(Sharing::Ordered, budget, None);
    let took = start.elapsed();
    println!(
        "| {} | {} | {steps} | {} | {} | {:.4} | {:.0} |",
        input.name,
        problem.items().len(),
        plan.height,
        floor.bytes,
        plan.height as f64 / floor.bytes.max(1) as f64,
        took.as_secs_f64() * 1e3,
    );
}

/// Prints the table; arguments that are no options select inputs by a part of
/// their names.
fn table() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_wanted =
        |input: &Input| wanted.is_empty() || wanted.iter().any(|part| input.name.contains(part));
    println!("| input | buffers | steps | height | floor | ratio | took, ms |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let packing = files("../../shared/data/packing");
    let packing = packing.iter().map(|path| read(path));
    let generated = [(100, 1), (200, 2), (400, 3), (1000, 4)];
    let generated = generated.map(|(count, seed)| cut(count, seed));
    let mut logs: Vec<PathBuf> = files("../../shared/data/alloc-logs");
    if logs.is_empty() {
        logs = files("tests/data");
    }
    let logs = logs.iter().map(|path| read(path));
    for input in generated
        .into_iter()
        .chain(packing)
        .chain(logs)
        .filter(is_wanted)
    {
        for steps in [10_000_000, 1_000_000_000] {
            line(&input, steps);
        }
    }
    for (count, seed) in [(20_000, 5), (60_000, 6), (100_000, 7)] {
        if is_wanted(&trace(count, seed)) {
            line(&trace(count, seed), 300_000_000);
        }
    }
}

fn steps(c: &mut Criterion) {
    const STEPS: u64 = 1 << 20;
    let mut group = c.benchmark_group("a plan of 2^20 steps");
    group.throughput(Throughput::Elements(STEPS));
    group.sample_size(20);
    let logs = files("tests/data");
    let logs = logs.iter().map(|path| read(path));
    let generated = [(200, 2), (1000, 4)].map(|(count, seed)| cut(count, seed));
    for input in generated.into_iter().chain(logs) {
        group.bench_function(&input.name, |b| {
            let plan = || {
                let plan = input
                    .problem
                    .plan(Sharing::Ordered, Budget::steps(STEPS), None);
                black_box(plan.height)
            };
            b.iter(plan);
        });
    }
}

criterion_group!(benches, steps);

fn main() {
    // Cargo says so when it is a bench that is wanted, and not a test run.
    if std::env::args().any(|argument| argument == "--bench") {
        table();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
