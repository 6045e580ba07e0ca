//! What belongs to another device or thread, or is not what it is declared to be.

use super::*;

mod wrong {
    use super::*;
    kernel! {
        pub(super) fn plus(input: In<u32>, output: Out<u32>, more: u32);
    }
    pub(super) mod wide {
        use super::*;
        kernel! {
            pub(in super::super) fn plus(input: In<u32>, output: Out<u32>, more: u64, len: u32);
        }
    }
    kernel! {
        pub(super) fn missing(input: In<u32>);
    }
}

#[test]
fn a_declaration_is_held_against_the_code() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    // SAFETY: nothing is launched.
    let error = unsafe { kernels.module.kernel::<wrong::plus>() }.unwrap_err();
    assert!(
        matches!(&error, Error::Kernel(KernelError::ParamCount { kernel, declared: 3, actual: 4 }) if kernel == "plus"),
        "{error}"
    );
    // SAFETY: as above.
    let error = unsafe { kernels.module.kernel::<wrong::wide::plus>() }.unwrap_err();
    assert!(
        matches!(&error, Error::Kernel(KernelError::ParamShape { kernel, param, declared_size: 8, actual_size: 4, .. })
            if kernel == "plus" && param == "more"),
        "{error}"
    );
    // SAFETY: as above.
    let error = unsafe { kernels.module.kernel::<wrong::missing>() }.unwrap_err();
    assert_eq!(error.driver_class(), Some(ErrorClass::NotFound));
    let text = error.to_string();
    assert!(
        text.contains("`missing`") && text.contains("; the module has bump, plus, sum"),
        "{text}"
    );
    let error = device.load(&ModuleImage::Cuda(vec![0; 4])).unwrap_err();
    assert!(matches!(error, Error::Driver { .. }), "{error}");
}

#[test]
fn things_of_another_device() {
    let (here, there) = (Device::sim(1), Device::sim(2));
    let kernels = Kernels::load(&here).unwrap();
    let y = here.persistent::<u32>("y", LEN).unwrap();
    let elsewhere = there.persistent::<u32>("elsewhere", LEN).unwrap();
    let event = there.event("event").unwrap();
    let group = there.replay_group("group", ArenaConfig::default());
    let other_kernels = Kernels::load(&there).unwrap();
    let refused = |what: &str, result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::OtherDevice { what: named, .. } if named.contains(what)),
            "{error}"
        );
    };
    here.capture::<_, Error>("decode", |cap| {
        let main = cap.origin();
        refused(
            "\"elsewhere\"",
            main.launch(
                &kernels.bump,
                bump {
                    data: &elsewhere,
                    len: N,
                },
            ),
        );
        refused("\"elsewhere\"", main.fill(&elsewhere, 0));
        refused(
            "`bump`",
            main.launch(&other_kernels.bump, bump { data: &y, len: N }),
        );
        refused("\"event\"", main.record_external(&event));
        refused("\"event\"", main.wait_external(&event));
        // A refused command leaves no trace: the capture goes on.
        main.launch(&kernels.bump, bump { data: &y, len: N })
    })
    .map(|(graph, ())| {
        assert_eq!(graph.trace().nodes.len(), 1);
        assert_eq!(graph.trace().accesses.len(), 1);
        let stream = there.stream("stream").unwrap();
        refused("\"decode\"", graph.replay(&stream));
        refused("\"decode\"", graph.upload(&stream));
    })
    .unwrap();
    let error = here
        .capture::<_, Error>(CaptureOptions::new("decode").group(&group), |_| Ok(()))
        .unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }), "{error}");
    let stream = here.stream("stream").unwrap();
    refused("\"event\"", stream.record(&event));
    refused("\"event\"", stream.wait(&event));
    refused("\"stream\"", there.attach(&stream, "attached").map(drop));
    sound(&here);
}

#[test]
fn the_default_streams_are_refused() {
    let device = Device::sim(1);
    for raw in 0..=2 {
        // SAFETY: the handle is refused, and not used.
        let stream = unsafe {
            DeviceStream::from_raw(
                &device,
                "engine",
                StreamHandle(raw),
                std::sync::Arc::new(()),
            )
        };
        let error = stream.unwrap_err();
        assert!(
            matches!(&error, Error::Engine(EngineError::LegacyStream { stream }) if stream == "engine"),
            "{error}"
        );
    }
}

#[test]
fn another_threads_capture_in_global_mode_is_left_alone() {
    let (device, driver) = sim(1);
    let raw = driver.stream_create(0).unwrap();
    std::thread::scope(|scope| {
        let (begun, wait) = std::sync::mpsc::channel();
        let (finished, end) = std::sync::mpsc::channel();
        let capturing = driver.clone();
        let engine = scope.spawn(move || {
            // SAFETY: the stream is live, and ends its capture here.
            unsafe { capturing.capture_begin(raw, CaptureMode::Global) }.unwrap();
            begun.send(()).unwrap();
            end.recv().unwrap();
            // SAFETY: as above.
            let graph = unsafe { capturing.capture_end(raw) }.expect("nobody broke it");
            // SAFETY: nobody else has it.
            unsafe { capturing.graph_destroy(graph) }.unwrap();
        });
        wait.recv().unwrap();
        // Allocation, code, copies, waits, captures, replays: all of it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sound(&device)));
        finished.send(()).unwrap();
        engine.join().unwrap();
        outcome.unwrap();
    });
}

#[test]
fn two_threads_capture_at_once() {
    let (device, driver) = sim(1);
    let both = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let kernels = Kernels::load(&device).unwrap();
                let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
                let y = device.persistent::<u32>("y", LEN).unwrap();
                both.wait();
                let (graph, ()) = device
                    .capture::<_, Error>("half", |cap| {
                        both.wait();
                        let main = cap.origin();
                        let side = cap.fork(&main, "side")?;
                        let a = side.scratch::<u32>("a", LEN)?;
                        side.launch(
                            &kernels.plus,
                            plus {
                                input: &x,
                                output: &a,
                                more: 1,
                                len: N,
                            },
                        )?;
                        both.wait();
                        cap.join(&main, side)?;
                        main.launch(
                            &kernels.plus,
                            plus {
                                input: &a,
                                output: &y,
                                more: 1,
                                len: N,
                            },
                        )
                    })
                    .unwrap();
                let stream = device.stream("replay").unwrap();
                graph.replay(&stream).unwrap();
                assert_eq!(y.download().unwrap(), [3, 4, 5, 6]);
            });
        }
    });
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}
