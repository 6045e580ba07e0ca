//! Invariant 6: a graph keeps what it refers to, and nothing is released while
//! it is in flight or inside a capture, whoever is dropped first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use streamweir::driver::sim::{LiveObjects, SimDriver};
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{ErrorClass, MemoryCalls};
use streamweir::{CaptureOptions, Device, DeviceStream, Error, Graph, Persistent};

use crate::common::{Kernels, LEN, N, NOTHING, SMALL, by_a_side_stream, live, plus, sim};

/// A graph that computes `y = x + 2` over scratch, with what it refers to.
struct Parts {
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
    graph: Graph,
    stream: DeviceStream,
}

fn parts(device: &Device) -> Parts {
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let graph = by_a_side_stream(device, &kernels, "decode", &x, &y);
    let stream = device.stream("replay").unwrap();
    Parts {
        kernels,
        x,
        y,
        graph,
        stream,
    }
}

const Y: [u32; 4] = [3, 4, 5, 6];

#[test]
fn a_graph_keeps_buffers_and_code() {
    let (device, driver) = sim(1);
    let Parts {
        kernels,
        x,
        y,
        graph,
        stream,
    } = parts(&device);
    drop((kernels, x));
    device.collect();
    assert_eq!(live(&driver).modules, 1);
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), Y);
    let address = y.range().start;
    drop(y);
    device.collect();
    graph.replay(&stream).unwrap();
    device.synchronize().unwrap();
    let mut bytes = [0; 4];
    // SAFETY: the graph keeps the buffer, and nothing is in flight.
    unsafe { driver.copy_to_host(&mut bytes, address) }.unwrap();
    assert_eq!(u32::from_ne_bytes(bytes), Y[0]);
    drop((graph, stream));
    device.collect();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn everything_dropped_in_flight() {
    for seed in 0..50 {
        let (device, driver) = sim(seed);
        let Parts {
            kernels,
            x,
            y,
            graph,
            stream,
        } = parts(&device);
        for _ in 0..3 {
            graph.replay(&stream).unwrap();
        }
        drop((graph, kernels, x));
        device.collect();
        assert_eq!(y.download().unwrap(), Y);
        drop(y);
        device.synchronize().unwrap();
        assert_eq!(live(&driver), NOTHING);
        assert_eq!(device.retired(), 0);
        assert!(device.release_failures().is_empty());
        drop((device, stream));
        assert_eq!(driver.live(), NOTHING);
    }
}

#[test]
fn a_graph_in_flight_is_not_released() {
    let (device, driver) = sim(1);
    let Parts {
        graph,
        stream,
        y,
        kernels,
        x,
    } = parts(&device);
    drop((kernels, x, y));
    graph.replay(&stream).unwrap();
    drop(graph);
    // Nobody has waited, and nobody has asked: the work has not run.
    assert!(device.retired() > 0);
    let held = live(&driver);
    assert_eq!((held.execs, held.graphs, held.modules), (1, 1, 1));
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn the_device_may_go_first() {
    let (device, driver) = sim(1);
    let Parts {
        kernels,
        x,
        y,
        graph,
        stream,
    } = parts(&device);
    drop((device, kernels));
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
    drop((graph, stream));
    assert_eq!(y.download().unwrap(), Y);
    drop((x, y));
    assert_eq!(driver.live(), NOTHING);
}

#[test]
fn the_device_may_go_first_in_flight() {
    let (device, driver) = sim(1);
    let Parts {
        kernels,
        x,
        y,
        graph,
        stream,
    } = parts(&device);
    graph.replay(&stream).unwrap();
    drop((x, kernels, graph, device, stream));
    assert_eq!(y.download().unwrap(), Y);
    drop(y);
    assert_eq!(driver.live(), NOTHING);
}

#[test]
fn nothing_is_released_inside_a_capture() {
    let (device, driver) = sim(1);
    let Parts {
        kernels,
        x,
        y,
        graph,
        stream,
    } = parts(&device);
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
    let unused = device.persistent::<u32>("unused", LEN).unwrap();
    let event = device.event("event").unwrap();
    let (next, ()) = device
        .capture::<_, Error>("next", |cap| {
            let main = cap.origin();
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: &y,
                    more: 5,
                    len: N,
                },
            )?;
            let before = driver.live();
            drop((graph, unused, x, event));
            drop(kernels);
            device.collect();
            let after = driver.live();
            // The graph that was replayed gets an event, to know its end by.
            assert!(after.events >= before.events);
            let events = after.events;
            let before = LiveObjects { events, ..before };
            assert_eq!(before, after, "released under capture");
            main.fill(&y, 0)
        })
        .unwrap();
    device.collect();
    assert_eq!(live(&driver).graphs, 1);
    next.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [0; LEN]);
    drop((next, y));
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn scratch_may_be_dropped_anywhere() {
    let (device, driver) = sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let (graph, late) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.fill(&a, 0)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: &y,
                    more: 3,
                    len: N,
                },
            )?;
            let range = a.range()?;
            std::thread::spawn(move || drop(a)).join().unwrap();
            // The other thread's drop gave the bytes back.
            let b = main.scratch::<u32>("b", LEN)?;
            assert_eq!(b.range()?, range);
            main.fill(&b, 0)?;
            let late = main.scratch::<u32>("late", LEN)?;
            main.fill(&late, 0)?;
            Ok(late)
        })
        .unwrap();
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    std::thread::spawn(move || drop(late)).join().unwrap();
    assert_eq!(y.download().unwrap(), [3; LEN]);
    drop((graph, y, kernels));
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);

    let late = device
        .capture::<_, Error>("kept longest", |cap| {
            cap.origin().scratch::<u32>("late", LEN)
        })
        .unwrap()
        .1;
    assert_eq!(late.name(), "late");
    drop(device);
    drop(late);
    drop(stream);
    assert_eq!(driver.live(), NOTHING);
}

#[test]
fn adopted_memory_is_kept_by_its_graphs() {
    struct Owner(Arc<AtomicUsize>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let address = driver.mem_alloc(1024).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = Arc::new(Owner(dropped.clone()));
    // SAFETY: the memory is live to the end of the test.
    let kv = unsafe { Persistent::<u32>::from_raw(&device, address, LEN, "kv", owner) }.unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| cap.origin().fill(&kv, 1))
        .unwrap();
    drop(kv);
    device.collect();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    drop(graph);
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "let go in flight");
    device.synchronize().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn captured_uploads_read_at_each_replay_and_keep_their_source() {
    let (device, driver) = sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let mut staged = device.pinned::<u32>("staged", LEN).unwrap();
    staged
        .as_mut_slice()
        .unwrap()
        .copy_from_slice(&[9, 8, 7, 6]);
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| cap.origin().upload(&y, &staged))
        .unwrap();
    assert!(staged.as_mut_slice().is_none(), "a graph reads it");
    drop(staged);
    device.collect();
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [9, 8, 7, 6]);
    drop((graph, y));
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn a_question_that_fails_releases_nothing() {
    let driver = SimDriver::new(1);
    let fault = FaultDriver::new(driver.clone());
    let device = Device::with_driver(fault.clone());
    let Parts { graph, stream, .. } = parts(&device);
    graph.replay(&stream).unwrap();
    drop(graph);
    fault.fail_call(0, ErrorClass::Unknown);
    device.collect();
    assert_eq!(fault.failed(), Some("event_query"));
    assert_eq!(live(&driver).execs, 1, "released in flight");
    fault.disarm();
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn scratch_of_a_failed_capture_holds_no_memory() {
    let device = Device::sim(1);
    let group = device.replay_group("buckets", SMALL);
    let mut kept = None;
    let options = CaptureOptions::new("decode").group(&group);
    let error = device
        .capture::<(), Error>(options, |cap| {
            let main = cap.origin();
            kept = Some(main.scratch::<u32>("kept", LEN)?);
            cap.fork(&main, "main").map(drop)
        })
        .unwrap_err();
    assert!(matches!(error, Error::AlreadyForked { .. }), "{error}");
    assert_eq!(group.reserved(), 0, "the handle holds no bytes");
    drop(kept);
}
