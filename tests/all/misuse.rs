//! What an engine can do wrong with handles: a typed error that names them,
//! and a capture after it that works.

mod elsewhere;
mod memory;

use streamweir::driver::{
    CaptureCalls, CaptureMode, ErrorClass, GraphCalls, ModuleImage, StreamCalls, StreamHandle,
};
use streamweir::kernel::{In, Out};
use streamweir::{
    ArenaConfig, Capture, CaptureOptions, Device, DeviceStream, EngineError, Error, KernelError,
    Persistent, cast, kernel, narrow, part,
};

use crate::common::{Kernels, LEN, N, NOTHING, bump, by_a_side_stream, live, plus, sim};

/// The next capture works, and nothing of the refused one is left.
fn sound(device: &Device) {
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let graph = by_a_side_stream(device, &kernels, "next", &x, &y);
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
        matches!(&error, Error::AlreadyForked { stream, first, again, .. }
            if stream == "side" && again.line() == first.line() + 1),
        "{error}"
    );
    assert!(
        error.to_string().matches("misuse.rs:").count() == 2,
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
