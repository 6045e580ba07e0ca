//! The example of two products at once, on the simulated device.

use streamweir::Device;

#[path = "../../examples/two_gemms.rs"]
#[allow(dead_code)]
mod example;

#[test]
fn products_of_two_streams_are_those_of_one() {
    for seed in 1..3 {
        let device = Device::sim(seed);
        assert!(example::run(&device, &example::Sizes::SMALL).unwrap());
    }
}
