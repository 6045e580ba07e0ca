//! What a run of the model is watched with, on the simulated device: it finds what
//! is wrong, says nothing where nothing is, and is not there when it is off.

use std::collections::BTreeSet;

use streamweir::driver::DynDriver;
use streamweir::driver::sim::SimDriver;
use streamweir::{Device, Poison, Side};
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Engine, EngineOptions, Error, Exec, IndexKeys, Instruments, Load,
    Matrix, Overlap, Packing, Pools, Row, Sequence, Setup,
};

const LOAD: Load = Load {
    sessions: 3,
    rounds: 1,
    steps: 2,
    prompt: (40, 250),
    seed: 3,
};

const ALL: Instruments = Instruments {
    poison: Poison::Reused,
    canary: true,
    differential: true,
};

const FULL: Arm = Arm {
    overlap: Overlap::Full,
    pools: Pools::Tagged,
    exec: Exec::Graph,
};

const SHARED: Arm = Arm {
    pools: Pools::Shared,
    ..FULL
};

fn setup() -> Setup {
    Setup {
        config: Config::TINY,
        index_keys: IndexKeys::Bf16,
        buckets: vec![1, 3],
        capacity: Capacity {
            sequences: LOAD.sessions,
            pages: 1 + LOAD.sessions * Config::TINY.table_stride(),
            rows: 3,
        },
        packing: Packing::default(),
        programmatic: true,
        seed: 11,
    }
}

fn watched(instruments: Instruments) -> EngineOptions {
    EngineOptions {
        instruments,
        ..EngineOptions::default()
    }
}

fn rows(sequences: &[Sequence]) -> Vec<Row<'_>> {
    let sequences = sequences.iter().enumerate();
    sequences
        .map(|(token, sequence)| Row {
            sequence,
            token: token as i32,
        })
        .collect()
}

#[test]
fn tagged_pools_are_clean_under_all_of_them() {
    let arms = [
        FULL,
        Arm {
            exec: Exec::Eager,
            ..FULL
        },
    ];
    let device = Device::sim(1);
    let matrix = Matrix::run_with(&device, setup(), watched(ALL), LOAD, &arms, |_| {}).unwrap();
    for report in &matrix.arms {
        assert!(report.is_clean(), "{}\n{report:?}", report.found);
        let guards = report.found.guards.as_ref().unwrap();
        // Weights, caches and inputs, and the arena where there are graphs.
        assert!(guards.checked > 50, "{guards}");
        let compared = report.found.compared.as_ref().unwrap();
        assert!(compared.steps >= 3, "{compared:?}");
    }
}

/// A plan is made when all has been recorded, too late to poison what is used again
/// alone, so there everything is poisoned.
#[test]
fn planned_packing_is_watched_likewise() {
    let mut setup = setup();
    setup.packing = Packing::Planned;
    let device = Device::sim(1);
    let load = Load { steps: 1, ..LOAD };
    let matrix = Matrix::run_with(&device, setup, watched(ALL), load, &[FULL], |_| {}).unwrap();
    let report = &matrix.arms[0];
    assert!(report.is_clean(), "{}\n{report:?}", report.found);
    assert!(report.found.compared.as_ref().unwrap().steps > 0);
}

/// What goes wrong first is what the verifier had named before any replay,
/// whatever the interleaving; poison does not change that.
#[test]
fn the_first_buffer_that_differs_in_the_shared_pool_was_named() {
    for poison in [Poison::Off, Poison::Reused] {
        let driver = SimDriver::new(1);
        let device = Device::with_driver(driver.clone());
        let instruments = Instruments {
            poison,
            differential: true,
            ..Instruments::default()
        };
        let mut engine = Engine::with_options(&device, setup(), watched(instruments)).unwrap();
        let mut pages = engine.reset().unwrap();
        let mut sequences: Vec<_> = (0..3).map(|_| pages.begin().unwrap()).collect();
        for (sequence, tokens) in sequences.iter_mut().zip([128, 77, 256]) {
            pages.grow(sequence, tokens).unwrap();
        }
        let expected = {
            let mut reference = engine.prepare(Arm::REFERENCE).unwrap();
            reference.step(&rows(&sequences)).unwrap();
            reference.chosen(3).unwrap()
        };
        let mut decoder = engine.prepare(SHARED).unwrap();
        let (mut first, mut wrong) = (BTreeSet::new(), [0; 2]);
        for seed in 0..4 {
            driver.reseed(seed);
            let found = decoder.differential(&rows(&sequences)).unwrap();
            let chosen = decoder.chosen(3).unwrap();
            wrong[0] += usize::from(chosen.tokens != expected.tokens);
            wrong[1] += usize::from(chosen.hidden != expected.hidden);
            let Some(difference) = found.first() else {
                continue;
            };
            let graph = &decoder.graphs()[&3];
            assert!(
                difference.is_named_by(graph.trace(), graph.report()),
                "{poison:?}, {seed}: {found}"
            );
            first.insert(difference.buffer.clone());
        }
        assert!(!first.is_empty(), "no interleaving showed a hazard");
        let theirs = "the results are the arm's, not the reference's";
        assert!(wrong[0] > 0 && wrong[1] > 0, "{wrong:?}: {theirs}");
        // The decoder keeps the first step that differed.
        let found = decoder.found().unwrap();
        let compared = found.compared.as_ref().unwrap();
        let kept = compared.first.as_ref().unwrap();
        assert!(kept.named && kept.rows == 3, "{found}");
        assert!(found.to_string().contains("layer "), "{found}");
    }
}

/// A step that differs gives the arm's results and not the reference's.
#[test]
fn a_compared_step_has_the_results_of_its_arm() {
    let load = Load { steps: 3, ..LOAD };
    let instruments = Instruments {
        differential: true,
        ..Instruments::default()
    };
    let (device, arms) = (Device::sim(1), [SHARED, FULL]);
    let options = watched(instruments);
    let matrix = Matrix::run_with(&device, setup(), options, load, &arms, |_| {}).unwrap();
    let [shared, tagged] = &matrix.arms[..] else {
        panic!("two arms");
    };
    assert!(shared.wrong_sessions > 0, "{shared:?}");
    assert!(!shared.is_clean() && !shared.found.is_clean());
    let compared = shared.found.compared.as_ref().unwrap();
    let first = compared.first.as_ref().unwrap();
    assert!(first.named, "{first}");
    assert_eq!(first.step, compared.steps, "later steps are not compared");
    assert_eq!(tagged.wrong_sessions, 0);
}

#[test]
fn a_write_beside_a_cache_is_named() {
    let driver: DynDriver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let canary = Instruments {
        canary: true,
        ..Instruments::default()
    };
    let mut engine = Engine::with_options(&device, setup(), watched(canary)).unwrap();
    let mut pages = engine.reset().unwrap();
    let mut sequence = pages.begin().unwrap();
    pages.grow(&mut sequence, 17).unwrap();
    let sequences = [sequence];
    let mut decoder = engine.prepare(FULL).unwrap();
    decoder.step(&rows(&sequences)).unwrap();
    let found = decoder.found().unwrap();
    assert!(found.is_clean(), "{found}");

    let trace = decoder.graphs()[&1].trace();
    let cache = "layer 2: index keys";
    let buffer = trace.buffers.iter().find(|buffer| buffer.name == cache);
    let end = buffer.unwrap().range.end;
    // SAFETY: the bytes behind the cache are its guard, and nothing runs.
    unsafe { driver.copy_to_device(end + 7, &[0; 3]) }.unwrap();
    let found = decoder.found().unwrap();
    assert!(!found.is_clean());
    let [damage] = &found.guards.as_ref().unwrap().damaged[..] else {
        panic!("{found}");
    };
    assert_eq!((&*damage.buffer, damage.side), (cache, Side::After));
    assert!((end + 7..end + 10).contains(&damage.first), "{damage}");
    assert!(found.to_string().contains(cache), "{found}");
}

#[test]
fn off_they_are_not_there_and_cannot_be_asked() {
    let device = Device::sim(1);
    let nodes = |options: EngineOptions| {
        let mut engine = Engine::with_options(&device, setup(), options).unwrap();
        let decoder = engine.prepare(FULL).unwrap();
        decoder.graphs()[&3].trace().nodes.len()
    };
    let plain = {
        let mut engine = Engine::new(&device, setup()).unwrap();
        let pages = engine.reset().unwrap();
        assert_eq!(pages.free(), 6);
        let mut decoder = engine.prepare(FULL).unwrap();
        let error = decoder.differential(&[]).unwrap_err();
        assert!(matches!(error, Error::NotWatched), "{error}");
        let found = decoder.found().unwrap();
        assert!(found.is_clean() && found.to_string().is_empty());
        decoder.graphs()[&3].trace().nodes.len()
    };
    assert_eq!(nodes(EngineOptions::default()), plain);
    let canary = Instruments {
        canary: true,
        ..Instruments::default()
    };
    assert_eq!(nodes(watched(canary)), plain, "guards are no nodes");
    let poison = Instruments {
        poison: Poison::Reused,
        ..Instruments::default()
    };
    let reused = nodes(watched(poison));
    assert!(reused > plain, "{reused} and {plain}");
    assert!(nodes(watched(ALL)) > 2 * plain);
}
