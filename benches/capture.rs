//! What a capture costs on the host, on the simulated device.
//!
//! With it, what an eager run costs that is like the last one, and one that is proved.
//!
//! The two targets of the design: taking and dropping a scratch buffer, and
//! recording a launch with six accesses on top of what the driver takes. The
//! driver's part is measured in the same run, on the same device.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use streamweir::driver::sim::SimDriver;
use streamweir::driver::{CaptureMode, DynDriver, LaunchShape, ModuleImage, Start};
use streamweir::kernel::{In, Out, twin};
use streamweir::{Device, Error, kernel};

kernel! {
    /// Six buffers and a length: what a fused decode kernel takes.
    ///
    /// # Safety
    /// Its twin touches nothing.
    unsafe fn six(
        a: In<f32>,
        b: In<f32>,
        c: In<f32>,
        d: In<f32>,
        e: Out<f32>,
        f: Out<f32>,
        len: u32,
    ) {
        for buffer in [a, b, c, d, e, f] {
            buffer.holds([len])?;
        }
        Ok((1, 32).into())
    }
}

/// Launches in one capture; a decode step has some hundred.
const LAUNCHES: u64 = 512;
const LEN: usize = 64;

fn image() -> ModuleImage {
    ModuleImage::Sim(vec![twin::<six>(|_, _| Ok(()))])
}

/// Times `body`, which is given how many operations to do, inside captures of
/// at most [`LAUNCHES`] operations. The captures themselves are not timed.
fn inside_captures(
    device: &Device,
    operations: u64,
    mut body: impl FnMut(&streamweir::Capture, u64) -> Result<Duration, Error>,
) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = operations;
    while left > 0 {
        let now = left.min(LAUNCHES);
        let capture = device.begin("bench").expect("a capture begins");
        spent += body(&capture, now).expect("the body records");
        drop(capture);
        left -= now;
    }
    spent
}

fn scratch(c: &mut Criterion) {
    let device = Device::sim(1);
    c.bench_function("scratch alloc+free in a capture", |bench| {
        bench.iter_custom(|operations| {
            inside_captures(&device, operations, |capture, count| {
                let main = capture.origin();
                // The first one has the device give the arena its memory,
                // which is a cost of a capture and not of a buffer.
                drop(main.scratch::<f32>("first", LEN)?);
                let start = Instant::now();
                for _ in 0..count {
                    black_box(main.scratch::<f32>("scores", LEN)?);
                }
                Ok(start.elapsed())
            })
        });
    });
}

fn launch(c: &mut Criterion) {
    let driver: DynDriver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let kernel = device
        .load(&image())
        // SAFETY: the twin is of this declaration.
        .and_then(|m| unsafe { m.kernel::<six>() })
        .expect("the kernel loads");
    let buffers: Vec<_> = (0..6)
        .map(|i| {
            device
                .persistent::<f32>(&format!("buffer {i}"), LEN)
                .expect("memory")
        })
        .collect();
    let [a, b, c0, d, e, f] = &buffers[..] else {
        unreachable!("six were made")
    };
    let mut group = c.benchmark_group("launch with 6 accesses");
    group.bench_function("recorded", |bench| {
        bench.iter_custom(|operations| {
            inside_captures(&device, operations, |capture, count| {
                let main = capture.origin();
                let start = Instant::now();
                for _ in 0..count {
                    main.launch(
                        &kernel,
                        six {
                            a,
                            b,
                            c: c0,
                            d,
                            e,
                            f,
                            len: LEN as u32,
                        },
                    )?;
                }
                Ok(start.elapsed())
            })
        });
    });
    group.bench_function("driver alone", |bench| {
        bench.iter_custom(|operations| raw_launches(&driver, operations));
    });
    group.finish();
}

/// The two driver calls that a recorded launch makes: the launch, and the look
/// at the node that it left.
fn raw_launches(driver: &DynDriver, operations: u64) -> Duration {
    let shape = LaunchShape::from((1, 32));
    let stream = driver.stream_create(0).expect("a stream");
    let module = driver.module_load(&image()).expect("the module loads");
    let mut address = 0u64;
    let mut len = LEN as u32;
    let pointer: *mut c_void = (&raw mut address).cast();
    let mut params = [pointer; 7];
    params[6] = (&raw mut len).cast();
    let mut frontier = Vec::new();
    let mut spent = Duration::ZERO;
    let mut left = operations;
    // SAFETY: the handles are live until they are given up below, there are as
    // many parameters as the kernel takes, and nothing captured is replayed.
    unsafe {
        let function = driver
            .module_function(module, "six")
            .expect("the kernel is there");
        while left > 0 {
            let now = left.min(LAUNCHES);
            driver
                .capture_begin(stream, CaptureMode::ThreadLocal)
                .expect("a capture");
            let start = Instant::now();
            for _ in 0..now {
                driver
                    .launch(stream, function, shape, Start::InOrder, &mut params)
                    .expect("a launch");
                black_box(
                    driver
                        .capture_info(stream, &mut frontier)
                        .expect("a capture"),
                );
            }
            spent += start.elapsed();
            let graph = driver.capture_end(stream).expect("a graph");
            driver.graph_destroy(graph).expect("the graph goes");
            left -= now;
        }
        driver.module_unload(module).expect("the module goes");
        driver.stream_destroy(stream).expect("the stream goes");
    }
    spent
}

fn end(c: &mut Criterion) {
    let device = Device::sim(1);
    let kernel = device
        .load(&image())
        // SAFETY: the twin is of this declaration.
        .and_then(|m| unsafe { m.kernel::<six>() })
        .expect("the kernel loads");
    let [a, b, c0, d, e, f] =
        ["a", "b", "c", "d", "e", "f"].map(|n| device.persistent::<f32>(n, LEN).expect("memory"));
    c.bench_function("end of a capture of 512 launches", |bench| {
        bench.iter_custom(|captures| {
            let mut spent = Duration::ZERO;
            for _ in 0..captures {
                let capture = device.begin("bench").expect("a capture begins");
                let main = capture.origin();
                for _ in 0..LAUNCHES {
                    main.launch(
                        &kernel,
                        six {
                            a: &a,
                            b: &b,
                            c: &c0,
                            d: &d,
                            e: &e,
                            f: &f,
                            len: LEN as u32,
                        },
                    )
                    .expect("a launch");
                }
                drop(main);
                let start = Instant::now();
                black_box(capture.end().expect("the capture is safe"));
                spent += start.elapsed();
            }
            spent
        });
    });
}

/// Launches of one eager run: about a layer.
const LAYER: u32 = 24;

/// An eager run on two streams with scratch: one that is the last one over again, and
/// one that differs in a value and so is proved.
fn eager(c: &mut Criterion) {
    let device = Device::sim(1);
    let kernel = device
        .load(&image())
        // SAFETY: the twin is of this declaration.
        .and_then(|m| unsafe { m.kernel::<six>() })
        .expect("the kernel loads");
    let [a, b, c0, d, e, f] =
        ["a", "b", "c", "d", "e", "f"].map(|n| device.persistent::<f32>(n, LEN).expect("memory"));
    let record = |cap: &streamweir::Capture, len: u32| -> Result<(), Error> {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        side.fill(&f, 0)?;
        for _ in 0..LAYER {
            let out = main.scratch::<f32>("out", LEN)?;
            main.launch(
                &kernel,
                six {
                    a: &a,
                    b: &b,
                    c: &c0,
                    d: &d,
                    e: &e,
                    f: &out,
                    len,
                },
            )?;
        }
        cap.join(&main, side).map(drop)
    };
    let mut group = c.benchmark_group("eager run of 24 launches");
    for (name, changes) in [("like the last", 0), ("proved", 1)] {
        group.bench_function(name, |bench| {
            let mut round = 0;
            bench.iter_custom(|runs| {
                let mut spent = Duration::ZERO;
                for _ in 0..runs {
                    round += changes;
                    let start = Instant::now();
                    let run = device.eager("layer", |cap| record(cap, LEN as u32 - round % 2));
                    spent += start.elapsed();
                    black_box(run.expect("it runs"));
                    device.synchronize().expect("it ends");
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, scratch, launch, end, eager);
criterion_main!(benches);
