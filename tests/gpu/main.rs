//! Tests that need a CUDA device.
//!
//! Without one every test is listed as ignored, of the kind `no device`; with
//! `STREAMWEIR_REQUIRE_GPU=1` it fails instead. A test that injects faults runs
//! in a process of its own, which this binary starts from itself, because a
//! driver call that failed half-way may leave a context that no test should
//! inherit.

mod adopt;
mod audit;
mod capture;
mod edge;
mod faults;
mod gemm;
mod infer;
mod instruments;
mod isolated;
mod launches;
mod planned;
mod program;

use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use streamweir::driver::DynDriver;
use streamweir::driver::cuda::{CudaDriver, OpenError};
use streamweir::driver::testing::conformance::{self, KernelFixture};
use streamweir::kernels;
use streamweir::kernels::dsv4::Image;
use streamweir::{Device, Error};

type Outcome = Result<(), Failed>;

/// A test by its name, on a device with the module of all kernels.
type Test = (&'static str, fn(&Device, &Image) -> Outcome);

fn main() {
    if let Some(code) = isolated::run_child(child) {
        std::process::exit(code);
    }
    let mut arguments = Arguments::from_args();
    // One device, and captures in global mode among the cases.
    arguments.test_threads = Some(1);
    let trials = match open() {
        Ok((device, image)) => trials(&device, &image),
        Err(why) => without_device(&why),
    };
    libtest_mimic::run(&arguments, trials).exit();
}

/// What this binary does when a test has started it.
fn child(what: &str) -> Outcome {
    match what.strip_prefix("infer ") {
        Some(what) => infer::child(what),
        None => faults::child(what),
    }
}

fn open() -> Result<(Device, Image), String> {
    let device = Device::cuda(0).map_err(|error| error.to_string())?;
    let image = kernels::dsv4::image(device.info()).map_err(|error| error.to_string())?;
    Ok((device, image))
}

fn trials(device: &Device, image: &Image) -> Vec<Trial> {
    let mut trials = Vec::new();
    let fixture = Arc::new(KernelFixture {
        image: (**image).clone(),
        symbol: "add_one",
    });
    for case in conformance::suite() {
        let fixture = fixture.clone();
        trials.push(trial("driver", case.name, move || {
            Ok(case.run(&driver()?, &fixture)?)
        }));
    }
    for case in kernels::conformance::suite() {
        use kernels::conformance::Size;
        for (name, size) in [("tiny", Size::TINY), ("flash", Size::FLASH)] {
            let image = image.clone();
            trials.push(trial(
                "kernel",
                &format!("{}_{name}", case.name),
                move || {
                    let seed = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
                    case.run(&driver()?, &image, size, seed)
                        .map_err(|failure| Failed::from(format!("seed {seed}: {failure}")))
                },
            ));
        }
    }
    for (group, list) in [
        ("capture", capture::TESTS),
        ("launches", launches::TESTS),
        ("planned", planned::TESTS),
        ("adopt", adopt::TESTS),
        ("audit", audit::TESTS),
        ("infer", infer::TESTS),
        ("gemm", gemm::TESTS),
        ("instruments", instruments::TESTS),
        ("edge", edge::TESTS),
        ("fault", faults::TESTS),
    ] {
        for &(name, test) in list {
            let (device, image) = (device.clone(), image.clone());
            trials.push(trial(group, name, move || test(&device, &image)));
        }
    }
    trials
}

fn trial(group: &str, name: &str, test: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    Trial::test(format!("{group}::{name}"), test)
}

/// The same tests by name, none of which can run.
fn without_device(why: &str) -> Vec<Trial> {
    let required = std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|value| value == "1");
    let driver = conformance::suite()
        .into_iter()
        .map(|case| format!("driver::{}", case.name));
    let kernel = kernels::conformance::suite()
        .into_iter()
        .flat_map(|case| ["tiny", "flash"].map(|size| format!("kernel::{}_{size}", case.name)));
    let own = [
        ("capture", capture::TESTS),
        ("planned", planned::TESTS),
        ("adopt", adopt::TESTS),
        ("audit", audit::TESTS),
        ("infer", infer::TESTS),
        ("gemm", gemm::TESTS),
        ("instruments", instruments::TESTS),
        ("edge", edge::TESTS),
        ("fault", faults::TESTS),
    ];
    let own = own
        .into_iter()
        .flat_map(|(group, list)| list.iter().map(move |(name, _)| format!("{group}::{name}")));
    driver
        .chain(kernel)
        .chain(own)
        .map(|name| {
            let why = why.to_owned();
            Trial::test(name, move || Err(Failed::from(why)))
                .with_kind("no device")
                .with_ignored_flag(!required)
        })
        .collect()
}

/// The driver, for calls as an engine makes them: in the primary context, as the
/// devices of the tests are.
fn driver() -> Result<DynDriver, OpenError> {
    Ok(CudaDriver::open(0)?)
}

/// Fails a test with a sentence.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failed::from(what()))
    }
}

/// The error of an operation that has to fail.
fn refused<T>(result: Result<T, Error>, what: &str) -> Result<Error, Failed> {
    match result {
        Ok(_) => Err(Failed::from(format!("{what} was accepted"))),
        Err(error) => Ok(error),
    }
}
