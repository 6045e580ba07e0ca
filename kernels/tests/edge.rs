//! What the checks of the kernels let through, on the simulated device.

use std::collections::BTreeSet;

use streamweir_kernels::conformance::edge;
use streamweir_kernels::dsv4;
use streamweir_kernels::layout::LatentFp8Pages;
use streamweir_sched::driver::sim::SimDriver;
use streamweir_sched::driver::testing::fault::FaultDriver;
use streamweir_sched::{Device, Error, KernelError};

#[test]
fn every_kernel_is_launched_here() {
    let all: BTreeSet<&str> = dsv4::twins().iter().map(|twin| twin.symbol).collect();
    let mut launched: BTreeSet<&str> = edge::launched().collect();
    // It copies what a table in device memory says: no check can vouch for that.
    assert!(launched.insert("copy_late"));
    assert_eq!(launched, all);
}

#[test]
fn a_buffer_that_is_short_is_refused_before_the_driver_sees_it() {
    let driver = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(driver.clone());
    let code = dsv4::load(&device).unwrap();
    edge::short(&device, &code).unwrap_or_else(|failure| panic!("{failure}"));
    let launched = || driver.trace().contains(&"launch");
    assert!(!launched(), "{:?}", driver.trace());
    edge::hostile(&device, &code, 0).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        launched(),
        "a launch that passes is seen: {:?}",
        driver.trace()
    );
}

/// The simulated device faults on a read beyond an allocation; with guards around the
/// buffers, writes beside them are found.
#[test]
fn whatever_is_in_memory_nothing_else_is_touched() {
    for device in [Device::sim(1), Device::sim(1).guarded()] {
        let code = dsv4::load(&device).unwrap();
        for seed in 0..12 {
            edge::hostile(&device, &code, seed).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

/// A layout is plain data: safe code can make any.
#[test]
fn a_layout_that_no_pool_has_is_refused() {
    let device = Device::sim(1);
    let code = dsv4::load(&device).unwrap();
    let kernel = code.kernel::<dsv4::window_slots>().unwrap();
    let numbers = |name| device.persistent::<i32>(name, 128).unwrap();
    let [lens, table, out, slots] = ["lens", "table", "out", "slots"].map(numbers);
    let faults = device.persistent::<u32>("faults", 1).unwrap();
    for layout in [
        [0_u32; 6],
        [576, 8, 128, 73_728, 73_728, 4],
        [10, 8, 64, 640, 4096, 4],
    ] {
        let layout: LatentFp8Pages = bytemuck::cast(layout);
        let args = dsv4::window_slots {
            seq_lens: &lens,
            window_table: &table,
            out_loc: &out,
            slots: &slots,
            faults: &faults,
            layout,
            tokens: 1,
            table_stride: 4,
        };
        let refused = device
            .eager::<_, Error>("forged", |run| run.origin().launch(&kernel, args))
            .map(drop)
            .unwrap_err();
        assert!(
            matches!(refused, Error::Kernel(KernelError::Arguments { .. })),
            "{refused}"
        );
    }
}
