//! Captures that were really made: those of PyTorch programs on a GPU, from
//! their dumps, and steps of the decode path.
//!
//! They are too big to be played out in all interleavings. What is held against
//! them is the closure: fixes lead to a safe verdict, and no join of a safe
//! capture goes missing unseen.

use std::fs;
use std::path::Path;

use streamweir::Device;
use streamweir::trace::{Dump, Trace};
use streamweir::verify::audit::{Audited, Mode};
use streamweir::verify::{Rule, Verdict, verify};
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Engine, Exec, IndexKeys, Overlap, Packing, Pools, Setup,
};

use super::fixes::mended;
use super::mutation::Tally;

/// The dumps whose label is `hazard`; that of the others is `safe`.
const HAZARDS: [(&str, Rule); 3] = [
    ("dsv4_topk_before_join", Rule::UnorderedConflict),
    ("moe_inplace_race", Rule::UnorderedConflict),
    ("workspace_shared", Rule::UnorderedConflict),
];

/// The nine dumps as traces, by name.
fn captures() -> Vec<(String, Trace)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/captures");
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let dump = Dump::from_json(&fs::read(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Audited::new(dump, Mode::Operators).unwrap().trace)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all.len(), 9);
    all
}

/// A step of five layers, two of them with an indexer, with the indexer on a stream
/// of its own.
fn step(pools: Pools, packing: Packing) -> Trace {
    let config = Config {
        layers: 5,
        ..Config::TINY
    };
    let setup = Setup {
        config,
        index_keys: IndexKeys::Bf16,
        buckets: vec![2],
        capacity: Capacity {
            sequences: 2,
            pages: 1 + 2 * config.table_stride(),
            rows: 2,
        },
        packing,
        // All edges are full ones here.
        programmatic: false,
        seed: 0,
    };
    let mut engine = Engine::new(&Device::sim(0), setup).unwrap();
    let arm = Arm {
        overlap: Overlap::IndexerOnly,
        pools,
        exec: Exec::Graph,
    };
    let decoder = engine.prepare(arm).unwrap();
    decoder.graphs()[&2].trace().clone()
}

fn hazard(name: &str) -> Option<Rule> {
    let mut hazards = HAZARDS.iter();
    hazards
        .find(|hazard| hazard.0 == name)
        .map(|hazard| hazard.1)
}

/// What the label says, and after the suggested fixes, safe.
#[test]
fn fixes_of_captures() {
    let mut mended_ones = 0;
    for (name, trace) in captures() {
        let report = verify(&trace).unwrap();
        let Some(rule) = hazard(&name) else {
            assert_eq!(report.verdict, Verdict::Safe, "{name}: {report}");
            continue;
        };
        assert_eq!(report.verdict, Verdict::Hazard, "{name}");
        assert_eq!(report.hazards[0].rule, rule, "{name}: {report}");
        let mended = mended(&trace);
        // What is mended is the order or the place, not the work.
        assert_eq!(mended.accesses.len(), trace.accesses.len(), "{name}");
        mended_ones += 1;
    }
    assert_eq!(mended_ones, HAZARDS.len());
}

/// Each join of each capture in turn, those that fixes added included.
#[test]
fn joins_of_captures() {
    let tally = Tally::default();
    for (name, trace) in captures() {
        let before = tally.counts();
        tally.take_out(&name, &mended(&trace), false);
        let (noticed, redundant) = tally.counts();
        println!(
            "{name}: {} noticed, {} redundant",
            noticed - before.0,
            redundant - before.1
        );
    }
    let (noticed, redundant) = tally.counts();
    assert!(noticed >= 20, "{noticed} noticed, {redundant} redundant");
}

#[test]
fn fixes_of_a_step() {
    let shared = step(Pools::Shared, Packing::Isolated);
    let report = verify(&shared).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard);
    assert!(report.hazards.iter().all(|h| h.rule == Rule::SharedBytes));
    assert_eq!(mended(&shared).nodes.len(), shared.nodes.len());
}

#[test]
fn joins_of_a_step() {
    for packing in [Packing::Isolated, Packing::Ordered, Packing::Planned] {
        let tally = Tally::default();
        let name = packing.word();
        tally.take_out(name, &step(Pools::Tagged, packing), false);
        let (noticed, redundant) = tally.counts();
        println!("{name}: {noticed} noticed, {redundant} redundant");
        assert!(
            noticed >= 4,
            "{name}: {noticed} noticed, {redundant} redundant"
        );
    }
}
