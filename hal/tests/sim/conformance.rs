//! Every case of the suite, on the simulated device.

use streamweir_hal::driver::DynDriver;
use streamweir_hal::sim::{LiveObjects, SimDriver};
use streamweir_hal::testing::conformance::{KernelFixture, suite};

#[test]
fn every_case_holds_and_leaves_nothing() {
    let kernel = KernelFixture::sim();
    let mut broken = Vec::new();
    for case in suite() {
        for seed in 0..20 {
            let sim = SimDriver::new(seed);
            let driver: DynDriver = sim.clone();
            if let Err(failure) = case.run(&driver, &kernel) {
                broken.push(format!("{} (seed {seed}): {failure}", case.name));
                break;
            }
            assert_eq!(sim.live(), LiveObjects::default(), "{}", case.name);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn names_are_distinct() {
    let mut names: Vec<_> = suite().iter().map(|case| case.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
