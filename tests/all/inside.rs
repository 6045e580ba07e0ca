//! What does not belong inside a capture is a typed error there, and leaves
//! the capture as it was.

use streamweir::driver::sim::SimDriver;
use streamweir::{ArenaConfig, Device, Error, Persistent};

use crate::common::{Kernels, LEN, N, bump, image};

#[test]
fn calls_that_belong_outside() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let stream = device.stream("replay").unwrap();
    let event = device.event("event").unwrap();
    let group = device.replay_group("group", ArenaConfig::default());
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            main.launch(&kernels.bump, bump { data: &y, len: N })?;
            let refused: Vec<(&str, Result<(), Error>)> = vec![
                ("Device::load", device.load(&image()).map(drop)),
                (
                    "Module::kernel",
                    // SAFETY: the declaration is that of the twin.
                    unsafe { kernels.module.kernel::<crate::common::bump>() }.map(drop),
                ),
                ("Device::synchronize", device.synchronize()),
                ("DeviceStream::synchronize", stream.synchronize()),
                ("DeviceStream::is_idle", stream.is_idle().map(drop)),
                ("Event::synchronize", event.synchronize()),
                ("ReplayGroup::synchronize", group.synchronize()),
                (
                    "Device::persistent",
                    device.persistent::<u32>("z", 1).map(drop),
                ),
                (
                    "Device::persistent",
                    device.persistent_from("z", &[1_u32]).map(drop),
                ),
                (
                    "Persistent::from_raw",
                    // SAFETY: the buffer is refused.
                    unsafe {
                        Persistent::<u32>::from_raw(
                            &device,
                            0x1000,
                            1,
                            "z",
                            std::sync::Arc::new(()),
                        )
                    }
                    .map(drop),
                ),
                ("Persistent::upload", y.upload(&[0; LEN])),
                ("Persistent::download", y.download().map(drop)),
                ("Device::pinned", device.pinned::<u32>("p", 1).map(drop)),
                ("Device::stream", device.stream("s").map(drop)),
                ("Device::event", device.event("e").map(drop)),
                (
                    "Device::prepare",
                    device.prepare::<_, Error>(|_| Ok(())).map(drop),
                ),
                (
                    "Device::eager",
                    device.eager::<_, Error>("eager", |_| Ok(())).map(drop),
                ),
                ("Device::begin", device.begin("nested").map(drop)),
                (
                    "Device::attach",
                    device.attach(&stream, "attached").map(drop),
                ),
            ];
            for (call, result) in refused {
                match result {
                    Err(Error::InsideCapture {
                        call: named,
                        capture,
                    }) => {
                        assert_eq!(named, call);
                        assert_eq!(capture, "decode");
                    }
                    other => panic!("{call}: {other:?}"),
                }
            }
            // None of them broke anything.
            main.launch(&kernels.bump, bump { data: &y, len: N })
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [2; LEN]);
}

#[test]
fn another_thread_is_not_inside() {
    let device = Device::sim(1);
    let capture = device.begin("decode").unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let x = device.persistent_from("x", &[7_u32]).unwrap();
                assert_eq!(x.download().unwrap(), [7]);
                device.synchronize().unwrap();
            })
            .join()
            .unwrap();
    });
    capture.end().unwrap();
    device.synchronize().unwrap();
}

#[test]
fn out_of_memory_names_buffer_stream_and_tag() {
    let driver = SimDriver::with_memory(1, 64 << 20);
    let device = Device::with_driver(driver.clone());
    let error = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "indexer")?;
            side.scratch::<u32>("logits", 32 << 20).map(drop)
        })
        .unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let text = error.to_string();
    for word in [
        "\"logits\"",
        "stream \"indexer\"",
        "tag \"indexer\"",
        "\"decode\"",
    ] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    // What a capture that failed had reserved is there for the next one.
    for _ in 0..3 {
        device
            .capture::<_, Error>("decode", |cap| {
                let main = cap.origin();
                let a = main.scratch::<u8>("a", 40 << 20)?;
                main.fill(&a, 0)
            })
            .unwrap();
    }
    let error = device.persistent::<u8>("weights", 65 << 20).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("\"weights\""), "{error}");
}

#[test]
fn out_of_memory_does_not_break_the_capture() {
    let device = Device::with_driver(SimDriver::with_memory(1, 64 << 20));
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let error = main.scratch::<u8>("large", 128 << 20).unwrap_err();
            assert!(error.is_out_of_memory(), "{error}");
            main.fill(&y, 1)
        })
        .unwrap();
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [0x0101_0101; LEN]);
}
