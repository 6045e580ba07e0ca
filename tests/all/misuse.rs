//! What an engine can do wrong with handles: a typed error that names them,
//! and a capture after it that works.

use streamweir::driver::{
    CaptureCalls, CaptureMode, ErrorClass, GraphCalls, ModuleImage, StreamCalls, StreamHandle,
};
use streamweir::kernel::{In, Out};
use streamweir::{
    ArenaConfig, Capture, CaptureOptions, Device, DeviceStream, EngineError, Error, KernelError,
    Persistent, cast, kernel, narrow, part,
};

use crate::common::{Kernels, LEN, N, NOTHING, bump, live, plus, sim};

/// The next capture works, and nothing of the refused one is left.
fn sound(device: &Device) {
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("next", |cap| {
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
}

/// A capture that `record` spoils; its error, after which all is as before.
fn spoilt(record: impl FnOnce(&Capture, &Kernels, &Persistent<u32>) -> Result<(), Error>) -> Error {
    let (device, driver) = sim(1);
    let error = {
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
        device
            .capture::<_, Error>("decode", |cap| record(cap, &kernels, &x))
            .unwrap_err()
    };
    assert_eq!(driver.live().captures, 0, "after {error}");
    device.collect();
    assert_eq!(live(&driver), NOTHING, "after {error}");
    sound(&device);
    error
}

#[test]
fn an_error_of_the_closure_comes_through() {
    #[derive(Debug)]
    enum Engine {
        Weir(Error),
        NoBucket(usize),
    }
    impl From<Error> for Engine {
        fn from(error: Error) -> Self {
            Self::Weir(error)
        }
    }
    let (device, driver) = sim(1);
    let result = device.capture::<(), Engine>("decode", |cap| {
        let side = cap.fork(&cap.origin(), "side")?;
        side.scratch::<u32>("a", LEN)?;
        Err(Engine::NoBucket(48))
    });
    assert!(matches!(result, Err(Engine::NoBucket(48))));
    let result = device.capture::<(), Engine>("decode", |cap| {
        cap.fork(&cap.origin(), "side")?;
        Ok(())
    });
    assert!(matches!(result, Err(Engine::Weir(Error::Unjoined { .. }))));
    device.collect();
    assert_eq!(live(&driver), NOTHING);
    sound(&device);
}

#[test]
fn a_panic_in_the_closure_leaves_no_capture() {
    let (device, driver) = sim(1);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        device.capture::<(), Error>("decode", |cap| {
            let side = cap.fork(&cap.origin(), "side")?;
            let _a = side.scratch::<u32>("a", LEN)?;
            panic!("the engine's own");
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(driver.live().captures, 0);
    device.collect();
    assert_eq!(live(&driver), NOTHING);
    sound(&device);
}

#[test]
fn an_unjoined_stream_is_named_with_its_last_node() {
    let error = spoilt(|cap, kernels, x| {
        let side = cap.fork(&cap.origin(), "side")?;
        let a = side.scratch::<u32>("a", LEN)?;
        side.launch(
            &kernels.plus,
            plus {
                input: x,
                output: &a,
                more: 1,
                len: N,
            },
        )?;
        side.launch(&kernels.bump, bump { data: &a, len: N })
    });
    let text = error.to_string();
    for word in ["\"decode\"", "\"side\"", "`bump`", "misuse.rs:", "join"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    let error = spoilt(|cap, _, _| cap.fork(&cap.origin(), "side").map(drop));
    assert!(error.to_string().contains("last node: none"), "{error}");
}

#[test]
fn streams_and_scratch_of_another_capture() {
    // Two captures at once cannot be had on one thread of one device, but on
    // two devices' streams and scratch they can meet.
    let first = Device::sim(1);
    let outer = first.begin("outer").unwrap();
    let stream = outer.origin();
    let side = outer.fork(&stream, "side").unwrap();
    let scratch = stream.scratch::<u32>("kept", LEN).unwrap();
    drop(outer);

    let error = spoilt(|cap, _, _| cap.fork(&stream, "x").map(drop));
    let text = error.to_string();
    assert!(matches!(error, Error::OtherCapture { .. }), "{text}");
    for word in ["stream \"main\"", "\"outer\"", "\"decode\""] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    let error = spoilt(|cap, _, _| cap.join(&cap.origin(), side).map(drop));
    assert!(matches!(error, Error::OtherCapture { .. }), "{error}");

    let error = spoilt(|cap, kernels, x| {
        cap.origin().launch(
            &kernels.plus,
            plus {
                input: x,
                output: &scratch,
                more: 1,
                len: N,
            },
        )
    });
    let text = error.to_string();
    assert!(matches!(error, Error::OtherCapture { .. }), "{text}");
    for word in ["scratch buffer \"kept\"", "\"outer\"", "persistent"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    sound(&first);
}

#[test]
fn handles_do_not_outlive_their_capture() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let (_graph, (main, a)) = device
        .capture::<_, Error>("first", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.fill(&a, 0)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: &y,
                    more: 1,
                    len: N,
                },
            )?;
            Ok((main, a))
        })
        .unwrap();
    for error in [
        main.fill(&a, 0).unwrap_err(),
        main.scratch::<u32>("b", 1).unwrap_err(),
        main.launch(&kernels.bump, bump { data: &y, len: N })
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::CaptureEnded { capture, .. } if capture == "first"),
            "{error}"
        );
    }
    let error = device
        .capture::<_, Error>("second", |cap| cap.origin().fill(&a, 0))
        .unwrap_err();
    assert!(matches!(error, Error::OtherCapture { .. }), "{error}");
    drop(a);
    sound(&device);
}

#[test]
fn joins_that_join_nothing() {
    let error = spoilt(|cap, _, _| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        cap.join(&side, main).map(drop)
    });
    assert!(
        matches!(&error, Error::BadJoin { stream, into, .. } if stream == "main" && into == "side"),
        "{error}"
    );
    let error = spoilt(|cap, _, _| {
        let side = cap.fork(&cap.origin(), "side")?;
        let again = side.scope("the same stream");
        cap.join(&side, again).map(drop)
    });
    assert!(matches!(error, Error::BadJoin { .. }), "{error}");
}

#[test]
fn a_stream_is_forked_once_at_a_time() {
    let error = spoilt(|cap, _, _| {
        let main = cap.origin();
        let _side = cap.fork(&main, "side")?;
        cap.fork(&main, "side").map(drop)
    });
    assert!(
        matches!(&error, Error::AlreadyForked { stream, .. } if stream == "side"),
        "{error}"
    );
    let error = spoilt(|cap, _, _| cap.fork(&cap.origin(), "main").map(drop));
    assert!(matches!(error, Error::AlreadyForked { .. }), "{error}");
}

#[test]
fn a_handle_of_an_earlier_fork_is_stale() {
    let error = spoilt(|cap, _, x| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let stale = side.scope("earlier");
        cap.join(&main, side)?;
        let _side = cap.fork(&main, "side")?;
        stale.fill(x, 0)
    });
    assert!(
        error.to_string().contains("\"side\", joined since"),
        "{error}"
    );
    let error = spoilt(|cap, _, _| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let stale = side.scope("earlier");
        cap.join(&main, side)?;
        cap.fork(&stale, "third").map(drop)
    });
    assert!(
        error.to_string().contains("\"side\", joined since"),
        "{error}"
    );
}

#[test]
fn a_lane_stands_for_one_stream() {
    streamweir::lanes! {
        Main;
        Side;
    }
    let error = spoilt(|cap, _, _| {
        let main = cap.origin_as::<Main>()?;
        let (_side, _) = cap.fork_as::<Side, _>(&main, "side")?;
        cap.fork_as::<Side, _>(&main, "other").map(drop)
    });
    assert!(
        matches!(&error, Error::LaneTaken { lane, first, .. }
            if lane.ends_with("Side") && first == "side"),
        "{error}"
    );
    let error = spoilt(|cap, _, _| {
        let main = cap.origin_as::<Main>()?;
        cap.fork_as::<Main, _>(&main, "side").map(drop)
    });
    assert!(matches!(error, Error::LaneTaken { .. }), "{error}");
}

#[test]
fn lengths_are_checked() {
    let error = spoilt(|cap, _, x| {
        let main = cap.origin();
        let short = main.scratch::<u32>("short", 2)?;
        main.copy(&short, x)
    });
    let text = error.to_string();
    for word in ["\"short\"", "2 elements", "\"x\"", "4 elements"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    let reversed = std::ops::Range { start: 3, end: 2 };
    for range in [3..5, 5..5, reversed] {
        for error in [
            spoilt(|_, _, x| part(x, range.clone()).map(drop)),
            // SAFETY: nothing is launched over it.
            spoilt(|_, _, x| unsafe { narrow(x, range.clone()) }.map(drop)),
        ] {
            assert!(
                matches!(&error, Error::Length { buffer, has: 4, .. } if buffer == "x"),
                "{error}"
            );
        }
    }
    let error = spoilt(|_, _, x| part(part(x, 1..3)?, 1..3).map(drop));
    assert!(matches!(error, Error::Length { has: 2, .. }), "{error}");
    // Three words are no whole number of longer ones, an odd word begins none, and
    // of a narrowed buffer it is not known where it begins.
    for error in [
        spoilt(|_, _, x| cast::<u64, _>(part(x, 0..3)?).map(drop)),
        spoilt(|_, _, x| cast::<u64, _>(part(x, 1..3)?).map(drop)),
        // SAFETY: nothing is launched over it.
        spoilt(|_, _, x| cast::<u64, _>(unsafe { narrow(x, 2..4) }?).map(drop)),
    ] {
        assert!(
            matches!(&error, Error::Length { buffer, .. } if buffer == "x"),
            "{error}"
        );
        assert!(error.to_string().contains("8 bytes"), "{error}");
    }
    let error = spoilt(|cap, _, _| {
        let main = cap.origin();
        main.scratch::<u32>("huge", usize::MAX / 2).map(drop)
    });
    assert!(
        matches!(&error, Error::TooLarge { buffer, .. } if buffer == "huge"),
        "{error}"
    );
    let device = Device::sim(1);
    let x = device.persistent::<u32>("x", 2).unwrap();
    let error = x.upload(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Length { has: 2, .. }), "{error}");
}

#[test]
fn buffers_and_parts_of_no_bytes_are_valid() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent::<u32>("x", 0).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("empty", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", 0)?;
            let b = main.scratch::<u32>("b", 0)?;
            assert_ne!(a.range()?.start, b.range()?.start);
            main.fill(&a, 1)?;
            main.copy(&b, &a)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: part(&b, 0..0)?,
                    more: 1,
                    len: 0,
                },
            )
        })
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 1);
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    device.synchronize().unwrap();
}

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
    assert!(error.to_string().contains("`missing`"), "{error}");
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
fn pointers_that_cannot_be_adopted() {
    let device = Device::sim(1);
    let adopt = |address, len| {
        // SAFETY: the buffer is refused, or not used.
        unsafe { Persistent::<u32>::from_raw(&device, address, len, "kv", std::sync::Arc::new(())) }
    };
    for (address, len) in [(0, 4), (0x1001, 4), (u64::MAX - 3, 4)] {
        let error = adopt(address, len).unwrap_err();
        assert!(
            matches!(&error, Error::BadPointer { buffer, .. } if buffer == "kv"),
            "{error}"
        );
    }
    let kept = adopt(0x1000, 4).unwrap();
    let error = adopt(0x1008, 4).unwrap_err();
    assert!(matches!(error, Error::Registry(_)), "{error}");
    drop(kept);
    adopt(0x1008, 4).unwrap();
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

#[test]
fn a_copy_onto_the_bytes_it_reads_is_refused() {
    let (device, _) = sim(1);
    let x = device.persistent::<u32>("x", 8).unwrap();
    let error = device
        .capture::<_, Error>("overlap", |cap| {
            let main = cap.origin();
            // The halves are apart, and that is fine.
            main.copy(part(&x, 0..4)?, part(&x, 4..8)?)?;
            main.copy(part(&x, 0..4)?, part(&x, 2..6)?)
        })
        .unwrap_err();
    assert!(matches!(error, Error::BadCopy { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("from \"x\" to \"x\" would overwrite what it reads"),
        "{error}"
    );
}
