//! The demonstration on the simulated device: which arms are wrong, and that
//! either repair of the shared pool makes it right.

use streamweir_integration::demo::{self, Arm, ArmReport, Config, Repair, Size, Step};
use streamweir_sched::Device;
use streamweir_verify::{Rule, Verdict};

fn run(seed: u64, arms: &[Arm]) -> Vec<ArmReport> {
    let config = Config {
        size: Size::Tiny,
        replays: 12,
        seed,
    };
    let report = demo::run_arms(&Device::sim(seed), &config, arms, |_| {}).unwrap();
    assert_eq!(report.device, "sim");
    report.arms
}

#[test]
fn a_shared_pool_in_host_order_goes_wrong() {
    for seed in 0..3 {
        let [shared] = &run(seed, &[Arm::SharedOverlap])[..] else {
            panic!("one arm")
        };
        assert!(shared.wrong > 0, "seed {seed}");
        assert!(shared.topk_differs > 0, "seed {seed}");
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
        for arm in run(seed, &[Arm::TaggedOverlap, Arm::Serial]) {
            assert!(arm.is_clean(), "seed {seed}: {arm:?}");
            assert_eq!(arm.report.verdict, Verdict::Safe);
        }
    }
}

#[test]
fn planned_layers_need_less_memory_and_fewer_lanes() {
    let arms = run(0, &[Arm::TaggedOverlap, Arm::PlannedOverlap]);
    let [tagged, planned] = &arms[..] else {
        panic!("two arms")
    };
    assert!(planned.is_clean(), "{planned:?}");
    assert_eq!(planned.report.verdict, Verdict::Safe);
    assert_eq!(planned.report.stats.edges, tagged.report.stats.edges);
    assert!(planned.reserved < tagged.reserved, "{arms:?}");
    // The layers record the indexer first, which costs a lane in each.
    assert!(tagged.replay_lanes > 2, "{}", tagged.replay_lanes);
    assert_eq!(planned.replay_lanes, 2);
}

#[test]
fn either_repair_makes_the_shared_pool_right() {
    let repaired = [Repair::HoldToJoin, Repair::JoinFirst].map(Arm::SharedRepaired);
    for seed in 0..3 {
        for arm in run(seed, &repaired) {
            assert!(arm.is_clean(), "seed {seed}: {arm:?}");
        }
    }
}

#[test]
fn the_overlap_is_in_the_graph() {
    let arms = run(0, &[Arm::SharedOverlap, Arm::TaggedOverlap, Arm::Serial]);
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
        let arms = run(seed, &[Arm::SharedOverlap]);
        (arms[0].wrong, arms[0].topk_differs, arms[0].report.clone())
    };
    assert_eq!(counts(7), counts(7));
}

#[test]
fn progress_is_told_of_each_replay() {
    let config = Config {
        size: Size::Tiny,
        replays: 2,
        seed: 0,
    };
    let mut steps = Vec::new();
    demo::run_arms(&Device::sim(0), &config, &[Arm::Serial], |step| {
        steps.push(step);
    })
    .unwrap();
    let replayed = |done| Step::Replayed {
        arm: Arm::Serial,
        done,
    };
    assert_eq!(steps, [Step::Preparing, replayed(1), replayed(2)]);
}
