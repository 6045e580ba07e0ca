//! One step, repeated on the simulated device: which arms are wrong, what a plan
//! saves, and what is told.

use streamweir::Device;
use streamweir::verify::{Rule, Verdict};
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Error, Exec, IndexKeys, Overlap, Packing, Pools, Repeat, RepeatProgress,
    RepeatedArm, Repetition, Setup,
};

const SHARED: Arm = arm(Overlap::IndexerOnly, Pools::Shared);
const TAGGED: Arm = arm(Overlap::IndexerOnly, Pools::Tagged);
const SERIAL: Arm = arm(Overlap::Off, Pools::Tagged);

const fn arm(overlap: Overlap, pools: Pools) -> Arm {
    Arm {
        overlap,
        pools,
        exec: Exec::Graph,
    }
}

/// Two layers with an indexer, two rows.
fn setup(packing: Packing, seed: u64) -> Setup {
    let config = Config {
        layers: 5,
        ..Config::TINY
    };
    Setup {
        config,
        index_keys: IndexKeys::Bf16,
        buckets: vec![2],
        capacity: Capacity {
            sequences: 2,
            pages: 1 + 2 * config.table_stride(),
            rows: 2,
        },
        packing,
        programmatic: true,
        seed,
    }
}

const REPEAT: Repeat = Repeat {
    context: 512,
    replays: 6,
};

fn run(packing: Packing, seed: u64, arms: &[Arm]) -> Vec<RepeatedArm> {
    let setup = setup(packing, seed);
    let found = Repetition::run(&Device::sim(seed), setup, REPEAT, arms, |_| {}).unwrap();
    assert_eq!(found.device, "sim");
    found.arms
}

#[test]
fn a_shared_pool_in_host_order_goes_wrong() {
    for seed in 0..3 {
        let [shared] = &run(Packing::Isolated, seed, &[SHARED])[..] else {
            panic!("one arm")
        };
        assert!(shared.wrong > 0, "seed {seed}");
        assert!(shared.selected_differs > 0, "seed {seed}");
        assert_eq!(shared.report.verdict, Verdict::Hazard);
        assert!(
            shared
                .report
                .hazards
                .iter()
                .all(|hazard| hazard.rule == Rule::SharedBytes && hazard.proven),
            "{}",
            shared.report
        );
    }
}

#[test]
fn a_pool_for_each_stream_and_one_stream_are_clean() {
    for seed in 0..3 {
        for arm in run(Packing::Isolated, seed, &[TAGGED, SERIAL]) {
            assert!(arm.is_clean(), "seed {seed}: {arm:?}");
            assert_eq!(arm.report.verdict, Verdict::Safe);
        }
    }
}

#[test]
fn a_planned_step_needs_less_memory_and_no_more_lanes() {
    let [live] = &run(Packing::Isolated, 0, &[TAGGED])[..] else {
        panic!("one arm")
    };
    let [planned] = &run(Packing::Planned, 0, &[TAGGED])[..] else {
        panic!("one arm")
    };
    assert!(planned.is_clean(), "{planned:?}");
    assert_eq!(planned.report.verdict, Verdict::Safe);
    assert_eq!(planned.report.stats.edges, live.report.stats.edges);
    assert!(planned.reserved < live.reserved, "{planned:?} {live:?}");
    assert!(planned.replay_streams <= live.replay_streams);
    assert_eq!(planned.replay_streams, 2);
}

#[test]
fn the_overlap_is_in_the_graph() {
    let arms = run(Packing::Isolated, 0, &[SHARED, TAGGED, SERIAL]);
    let [shared, tagged, serial] = &arms[..] else {
        panic!("three arms")
    };
    assert_eq!(shared.report.stats.nodes, serial.report.stats.nodes);
    assert_eq!(shared.report.stats.edges, tagged.report.stats.edges);
    assert_eq!(serial.report.stats.edges, serial.report.stats.nodes - 1);
    assert_eq!(
        [shared, tagged, serial].map(|arm| arm.report.stats.streams),
        [2, 2, 1]
    );
    // A simulated device has no clock.
    assert!(arms.iter().all(|arm| arm.us_per_replay.is_none()));
}

#[test]
fn a_seed_repeats_itself() {
    let counts = |seed| {
        let arms = run(Packing::Isolated, seed, &[SHARED]);
        let arm = &arms[0];
        (arm.wrong, arm.selected_differs, arm.report.clone())
    };
    assert_eq!(counts(7), counts(7));
}

#[test]
fn progress_is_told_of_each_replay() {
    let mut steps = Vec::new();
    let repeat = Repeat {
        replays: 2,
        ..REPEAT
    };
    let setup = setup(Packing::Isolated, 0);
    Repetition::run(&Device::sim(0), setup, repeat, &[SERIAL], |step| {
        steps.push(step);
    })
    .unwrap();
    let replayed = |done| RepeatProgress::Replayed { arm: SERIAL, done };
    let told = [RepeatProgress::Preparing, replayed(1), replayed(2)];
    assert_eq!(steps, told);
}

#[test]
fn an_arm_without_graphs_is_refused() {
    let eager = Arm::REFERENCE;
    let setup = setup(Packing::Isolated, 0);
    let error = Repetition::run(&Device::sim(0), setup, REPEAT, &[eager], |_| {}).unwrap_err();
    assert!(matches!(error, Error::NoGraph { bucket: 2 }), "{error}");
}
