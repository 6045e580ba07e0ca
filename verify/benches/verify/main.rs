//! What a verdict costs, on graphs of the size of a decode step and above.
//!
//!     cargo bench -p streamweir-verify --bench verify
//!
//! The input is generated from a seed, see [`generate`].
//!
//! # What is measured
//! `verify_with` without a certificate, on one core; the certificate, its checker
//! and the reading of the trace's file apart from it. Up to 20,000 nodes also the
//! full closure as bit sets, built and nothing more, which is what chain clocks
//! are there to avoid.
//!
//! Criterion measures the time that passes. The table has the processor time of
//! the thread, as the least of many runs, and the most heap in use above what
//! was in use before, see [`measure`]; docs/benchmarks.md has it as printed.

mod generate;
mod measure;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use streamweir_trace::{Trace, from_json, to_json};
use streamweir_verify::{Options, Verdict, VerifyError, certificate, verify_with};

use generate::{Shape, Size, generate};
use measure::{heap, least};

const SIZES: [Size; 3] = [
    Size {
        nodes: 11_000,
        streams: 4,
        accesses: 30_000,
        runs: 200,
    },
    Size {
        nodes: 100_000,
        streams: 8,
        accesses: 400_000,
        runs: 30,
    },
    Size {
        nodes: 1_000_000,
        streams: 8,
        accesses: 4_000_000,
        runs: 7,
    },
];

const SEED: u64 = 0x5eed;

const BARE: Options = Options {
    limit: 1000,
    certificate: false,
};

/// For each node the set of those that reach it.
fn closure(trace: &Trace) -> Vec<u64> {
    let words = trace.nodes.len().div_ceil(64);
    let mut reached = vec![0_u64; words * trace.nodes.len()];
    // The generator's edges all point forward, and are grouped by target.
    for edge in &trace.edges {
        let (from, to) = (edge.from.index(), edge.to.index());
        let (before, here) = reached.split_at_mut(to * words);
        let pred = &before[from * words..][..words];
        for (word, pred) in here[..words].iter_mut().zip(pred) {
            *word |= pred;
        }
        here[from / 64] |= 1 << (from % 64);
    }
    reached
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn verdicts() {
    println!(
        "| nodes | streams | accesses | shape | hazards | verify | heap | certificate | checker | closure |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for size in SIZES {
        for shape in [Shape::Recorded, Shape::Foreign, Shape::Broken] {
            verdict(size, shape);
        }
    }
}

fn verdict(size: Size, shape: Shape) {
    let trace = generate(size, shape, SEED);
    let verify = |options: &Options| {
        verify_with(black_box(&trace), options).expect("the generator makes traces of good form")
    };
    if shape == Shape::Broken
        && let Err(VerifyError::TooWide { nodes, chains }) = verify_with(&trace, &BARE)
    {
        // Joins left out at random leave many chains, and with as many nodes the
        // clocks of all would not fit the memory that the verifier allows itself.
        println!(
            "| {nodes} | {} | {} | {shape:?} | refused: more than {chains} chains | - | - | - | - | - |",
            size.streams,
            trace.accesses.len()
        );
        return;
    }
    let (report, grown) = heap(|| verify(&BARE));
    let expected = match shape {
        Shape::Broken => Verdict::Hazard,
        _ => Verdict::Safe,
    };
    assert_eq!(report.verdict, expected, "{report}");
    let bare = least(size.runs, || drop(black_box(verify(&BARE))));
    let (mut certified, mut checked) = ("-".to_owned(), "-".to_owned());
    if report.verdict == Verdict::Safe {
        let options = Options {
            certificate: true,
            ..BARE
        };
        let proof = verify(&options).certificate;
        let proof = proof.expect("a safe verdict has a certificate");
        let time = least(size.runs, || drop(black_box(verify(&options))));
        certified = format!("+ {}", ms(time.saturating_sub(bare)));
        checked = ms(least(size.runs.div_ceil(4), || {
            certificate::check(black_box(&trace), &proof).expect("the proof holds");
        }));
    }
    let closed = if size.nodes <= 20_000 && shape == Shape::Recorded {
        ms(least(size.runs.div_ceil(20), || {
            drop(black_box(closure(black_box(&trace))));
        }))
    } else {
        "-".to_owned()
    };
    println!(
        "| {} | {} | {} | {shape:?} | {} | {} | {} | {certified} | {checked} | {closed} |",
        trace.nodes.len(),
        size.streams,
        trace.accesses.len(),
        report.hazards_total,
        ms(bare),
        mib(grown),
    );
}

/// What it costs to read the file of a trace, the check of its form included.
fn loads() {
    println!("| nodes | accesses | file | load | verify | heap | trace |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for size in SIZES {
        let trace = generate(size, Shape::Recorded, SEED);
        let text = to_json(&trace);
        let load = || from_json(black_box(text.as_bytes())).expect("a trace was written");
        let (read, grown) = heap(load);
        assert!(read == trace, "what was written is read");
        drop(read);
        let (_, kept) = heap(|| trace.clone());
        let time = least(size.runs.div_ceil(2), || drop(black_box(load())));
        let verified = least(size.runs, || {
            drop(black_box(verify_with(black_box(&trace), &BARE)));
        });
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            trace.nodes.len(),
            trace.accesses.len(),
            mib(text.len()),
            ms(time),
            ms(verified),
            mib(grown),
            mib(kept),
        );
    }
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("verify");
    for size in &SIZES[..2] {
        let trace = generate(*size, Shape::Recorded, SEED);
        group.bench_function(BenchmarkId::from_parameter(size.nodes), |bench| {
            bench.iter(|| verify_with(black_box(&trace), &BARE));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("load");
    for size in &SIZES[..2] {
        let text = to_json(&generate(*size, Shape::Recorded, SEED));
        group.bench_function(BenchmarkId::from_parameter(size.nodes), |bench| {
            bench.iter(|| from_json(black_box(text.as_bytes())));
        });
    }
    group.finish();
    criterion.final_summary();
    // `cargo test --benches` only asks whether it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        loads();
        println!();
        verdicts();
    }
}
