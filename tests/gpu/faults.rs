//! Faults injected into the calls of a real driver (invariant 8).

use libtest_mimic::Failed;
use streamweir::Device;
use streamweir::cudarc::driver::result::mem_get_info;
use streamweir::driver::ErrorClass;
use streamweir::driver::cuda::CudaDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::kernels::dsv4::Image;

use super::isolated::in_own_process;
use super::program::Program;
use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("every_eighth_call_fails_once", every_eighth_call),
    ("ending_the_capture_fails", |_, _| {
        in_own_process("capture_end")
    }),
    ("instantiating_fails", |_, _| {
        in_own_process("graph_instantiate")
    }),
];

/// The calls of the program are counted first, in a process of their own too.
fn every_eighth_call(_: &Device, _: &Image) -> Outcome {
    in_own_process("all")
}

/// `all`, the number of a call, or the name of one whose first call is to fail.
pub(crate) fn child(what: &str) -> Outcome {
    let faults = FaultDriver::new(CudaDriver::open(0)?);
    let device = Device::with_driver(faults.clone());
    let image = streamweir::kernels::dsv4::image(device.info())?;
    // Once before, so that what the driver sets up for good is set up. The
    // device keeps streams for later, too: only a second run makes the calls
    // that a third one makes again, under the same numbers.
    for run in ["first", "second"] {
        faults.fail_call(u64::MAX, ErrorClass::OutOfMemory);
        ensure(Program::run(&device, &image)?, || {
            format!("the {run} run is wrong without a fault")
        })?;
    }
    let calls = faults.trace();
    if what == "all" {
        drop(device);
        for call in (0..calls.len()).step_by(8) {
            in_own_process(&format!("{call}"))?;
        }
        return Ok(());
    }
    if let Ok(call) = what.parse() {
        return fail_at(&device, &faults, &image, call).map(drop);
    }
    let call = calls.iter().position(|call| *call == what);
    let call = call.ok_or_else(|| format!("the program never calls {what}"))?;
    let failed = fail_at(&device, &faults, &image, call as u64)?;
    ensure(failed == Some(what), || {
        format!("{failed:?} was made to fail instead of {what}")
    })
}

/// Fails one call of the program, then runs it again on the same device. Says
/// which call it was.
fn fail_at(
    device: &Device,
    faults: &FaultDriver,
    image: &Image,
    call: u64,
) -> Result<Option<&'static str>, Failed> {
    let (free, _) = mem_get_info()?;
    faults.fail_call(call, ErrorClass::OutOfMemory);
    let outcome = Program::run(device, image);
    let failed = faults.failed();
    faults.disarm();
    device.synchronize()?;
    let told = !device.release_failures().is_empty();
    // A fault may be survived (a release made again), but not passed over: it
    // is returned, told by the device, or in a call that leaves a way out.
    ensure(
        outcome.is_err() || told || failed.is_none() || outcome.is_ok_and(|right| right),
        || format!("call {call} ({failed:?}) failed and the result is wrong"),
    )?;

    ensure(Program::run(device, image)?, || {
        format!("wrong after call {call} ({failed:?}) had failed")
    })?;
    device.synchronize()?;
    let (now, _) = mem_get_info()?;
    ensure(now >= free, || {
        format!(
            "{} bytes of device memory are gone after call {call} ({failed:?})",
            free - now
        )
    })?;
    Ok(failed)
}
