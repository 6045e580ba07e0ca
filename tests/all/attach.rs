//! An engine that begins, ends, instantiates and replays by itself, with our
//! part attached in between. The engine is the driver, called raw.

use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::{
    CaptureCalls, CaptureMode, ExecHandle, GraphCalls, GraphHandle, MemoryCalls, ModuleCalls,
    Start, StreamCalls, StreamHandle,
};
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    Attached, Detached, Device, DeviceStream, EngineError, Error, Persistent, Verify,
};

use crate::common::{GRID, Kernels, LEN, N, NOTHING, live, plus, sum};

/// An engine with a stream of its own.
struct Engine {
    driver: Arc<SimDriver>,
    device: Device,
    raw: StreamHandle,
    stream: DeviceStream,
    keep: Arc<()>,
}

impl Engine {
    fn new() -> Self {
        let driver = SimDriver::new(1);
        let device = Device::with_driver(driver.clone());
        let raw = driver.stream_create(0).unwrap();
        let keep = Arc::new(());
        // SAFETY: the engine destroys its stream at the very end.
        let stream =
            unsafe { DeviceStream::from_raw(&device, "engine", raw, keep.clone()) }.unwrap();
        Self {
            driver,
            device,
            raw,
            stream,
            keep,
        }
    }

    /// The engine's stream is held by nobody when all handles are gone.
    fn lets_go(self) {
        let Self {
            device,
            stream,
            keep,
            ..
        } = self;
        drop((device, stream));
        assert_eq!(Arc::strong_count(&keep), 1, "the engine's stream is kept");
    }

    fn begin(&self) {
        // SAFETY: the stream is live.
        unsafe {
            self.driver
                .capture_begin(self.raw, CaptureMode::ThreadLocal)
        }
        .unwrap();
    }

    /// Waits inside the capture, as a library call may do that was not meant
    /// for captures.
    fn break_capture(&self) {
        // SAFETY: the stream is live.
        unsafe { self.driver.stream_synchronize(self.raw) }.unwrap_err();
    }

    fn end(&self) -> GraphHandle {
        // SAFETY: the stream is live.
        unsafe { self.driver.capture_end(self.raw) }.unwrap()
    }

    fn instantiate(&self, graph: GraphHandle) -> ExecHandle {
        // SAFETY: the graph is live.
        unsafe { self.driver.graph_instantiate(graph) }.unwrap()
    }

    fn replay(&self, exec: ExecHandle) {
        // SAFETY: both are live, and so is what the graph refers to.
        unsafe {
            self.driver.exec_launch(exec, self.raw).unwrap();
            self.driver.stream_synchronize(self.raw).unwrap();
        }
    }

    fn read(&self, address: u64) -> [u32; LEN] {
        let mut bytes = [0; 4 * LEN];
        // SAFETY: the caller knows it to be live and idle.
        unsafe { self.driver.copy_to_host(&mut bytes, address) }.unwrap();
        std::array::from_fn(|i| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[4 * i + byte])))
    }
}

/// `y = (x + 1) + (x + 2)`, on two streams.
fn part(
    attached: &Attached,
    kernels: &Kernels,
    (x, y): (&Persistent<u32>, &Persistent<u32>),
) -> Result<(), Error> {
    let main = attached.origin();
    let side = attached.fork(&main, "side")?;
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
    let b = main.scratch::<u32>("b", LEN)?;
    main.launch(
        &kernels.plus,
        plus {
            input: x,
            output: &b,
            more: 2,
            len: N,
        },
    )?;
    attached.join(&main, side)?;
    main.launch(
        &kernels.sum,
        sum {
            left: &a,
            right: &b,
            output: y,
            len: N,
        },
    )
}

#[test]
fn the_engines_graph_keeps_what_our_part_refers_to() {
    let engine = Engine::new();
    let Engine { driver, device, .. } = &engine;
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let address = y.range().start;

    engine.begin();
    // SAFETY: the engine's own buffer and work.
    unsafe { driver.fill_async(engine.raw, address, 9, 16) }.unwrap();
    let attached = device.attach(&engine.stream, "decode").unwrap();
    part(&attached, &kernels, (&x, &y)).unwrap();
    let detached: Detached = attached.detach().unwrap();
    assert_ne!(
        detached.report().verdict,
        Verdict::Hazard,
        "{}",
        detached.report()
    );
    assert_eq!(detached.trace().nodes.len(), 4);
    assert_eq!(
        detached.report().stats.accesses,
        8,
        "x twice, the scratch four times, y, and the engine's fill of it: {}",
        detached.report()
    );
    let graph = engine.end();
    let exec = engine.instantiate(graph);

    drop((kernels, x, y, detached));
    device.synchronize().unwrap();
    let held = live(driver);
    assert_eq!(held.modules, 1);
    assert_eq!(held.allocations, 3, "x, y and the scratch");
    for _ in 0..3 {
        engine.replay(exec);
        assert_eq!(engine.read(address), [5, 7, 9, 11]);
    }

    // SAFETY: each is destroyed once.
    unsafe { driver.graph_destroy(graph) }.unwrap();
    device.collect();
    engine.replay(exec);
    assert_eq!(engine.read(address), [5, 7, 9, 11]);
    // SAFETY: as above.
    unsafe { driver.exec_destroy(exec) }.unwrap();
    device.collect();
    assert_eq!(live(driver), NOTHING);
    let Engine { device, stream, .. } = engine;
    drop((device, stream));
    let (driver, raw) = (engine.driver, engine.raw);
    assert_eq!(
        driver.live().streams,
        1,
        "the engine's stream is the engine's"
    );
    // SAFETY: as above.
    unsafe { driver.stream_destroy(raw) }.unwrap();
    assert_eq!(driver.live(), NOTHING);
}

#[test]
fn a_stream_that_does_not_capture() {
    let engine = Engine::new();
    let error = engine.device.attach(&engine.stream, "decode").unwrap_err();
    assert!(
        matches!(&error, Error::Engine(EngineError::NotCapturing { stream }) if stream == "engine"),
        "{error}"
    );
    // The thread is not inside a capture after the refusal.
    engine.device.synchronize().unwrap();
}

#[test]
fn an_unjoined_fork_at_detach() {
    let engine = Engine::new();
    let y = engine.device.persistent::<u32>("y", LEN).unwrap();
    engine.begin();
    let attached = engine.device.attach(&engine.stream, "decode").unwrap();
    let side = attached.fork(&attached.origin(), "side").unwrap();
    side.fill(&y, 1).unwrap();
    let error = attached.detach().unwrap_err();
    assert!(
        matches!(&error, Error::Unjoined { stream, .. } if stream == "side"),
        "{error}"
    );
    drop(side);
    // The engine's capture is the engine's, and ends badly on its own account.
    // SAFETY: the stream is live.
    unsafe { engine.driver.capture_end(engine.raw) }.unwrap_err();
    drop(y);
    engine.device.synchronize().unwrap();
    assert_eq!(live(&engine.driver), NOTHING);

    engine.begin();
    let y = engine.device.persistent::<u32>("y", LEN);
    assert!(y.is_ok(), "the thread is not inside a capture of ours");
    let attached = engine.device.attach(&engine.stream, "next").unwrap();
    attached.origin().fill(y.unwrap(), 1).unwrap();
    attached.detach().unwrap();
    let graph = engine.end();
    // SAFETY: it is destroyed once.
    unsafe { engine.driver.graph_destroy(graph) }.unwrap();
    engine.device.collect();
    assert_eq!(live(&engine.driver), NOTHING);
}

#[test]
fn a_hazard_in_our_part_is_refused_at_detach() {
    let engine = Engine::new();
    let y = engine.device.persistent::<u32>("y", LEN).unwrap();
    let hazard = |verify| {
        engine.begin();
        let options = streamweir::CaptureOptions::new("decode").verify(verify);
        let attached = engine.device.attach(&engine.stream, options).unwrap();
        let main = attached.origin();
        let side = attached.fork(&main, "side").unwrap();
        side.fill(&y, 1).unwrap();
        main.fill(&y, 2).unwrap();
        attached.join(&main, side).unwrap();
        let detached = attached.detach();
        let graph = engine.end();
        // SAFETY: it is destroyed once.
        unsafe { engine.driver.graph_destroy(graph) }.unwrap();
        detached
    };
    let error = hazard(Verify::Refuse).unwrap_err();
    let report = error.report().expect("the part is refused");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
    let detached = hazard(Verify::Report).unwrap();
    assert_eq!(detached.report().verdict, Verdict::Hazard);
    drop(y);
    engine.device.collect();
    assert_eq!(live(&engine.driver), NOTHING);
    engine.lets_go();
}

/// What the engine records beside our part, and what is said of it.
fn beside(of_engine: impl FnOnce(&Engine, u64)) -> (Verdict, String) {
    let engine = Engine::new();
    let y = engine.device.persistent::<u32>("y", LEN).unwrap();
    engine.begin();
    let options = streamweir::CaptureOptions::new("decode").verify(Verify::Report);
    let attached = engine.device.attach(&engine.stream, options).unwrap();
    let main = attached.origin();
    let side = attached.fork(&main, "side").unwrap();
    side.fill(&y, 1).unwrap();
    of_engine(&engine, y.range().start);
    attached.join(&main, side).unwrap();
    drop(main);
    let detached = attached.detach().unwrap();
    // SAFETY: it is destroyed once.
    unsafe { engine.driver.graph_destroy(engine.end()) }.unwrap();
    // The last node is the engine's, on its stream: nothing is left unjoined.
    let report = detached.report();
    assert!(
        report.hazards.iter().all(|h| h.rule != Rule::Protocol),
        "{report}"
    );
    (report.verdict, report.to_string())
}

#[test]
fn what_the_engine_records_is_judged_with_our_part() {
    // A fill says what it writes: proof.
    let (verdict, text) = beside(|engine, address| {
        // SAFETY: live memory, in a graph that is never replayed.
        unsafe { engine.driver.fill_async(engine.raw, address, 9, 16) }.unwrap();
    });
    assert_eq!(verdict, Verdict::Hazard, "{text}");
    assert!(text.contains("\"y\"") && text.contains("memset"), "{text}");

    // A kernel only holds an address: possible, and it is said that its accesses
    // are not known.
    let kernel = |place: fn(u64) -> u64| {
        move |engine: &Engine, address: u64| {
            let module = engine.driver.module_load(&crate::common::image()).unwrap();
            let (mut address, mut len) = (place(address), N);
            let mut params = [(&raw mut address).cast(), (&raw mut len).cast()];
            // SAFETY: as many parameters as `bump` has, in a graph that is
            // never replayed.
            unsafe {
                let function = engine.driver.module_function(module, "bump").unwrap();
                let shape = GRID.into();
                engine
                    .driver
                    .launch(engine.raw, function, shape, Start::InOrder, &mut params)
                    .unwrap();
            }
        }
    };
    let (verdict, text) = beside(kernel(|address| address));
    assert_eq!(verdict, Verdict::Possible, "{text}");
    assert!(
        text.contains("\"y\"") && text.contains("not analysed"),
        "{text}"
    );
    let (verdict, text) = beside(kernel(|_| 0));
    assert_eq!(verdict, Verdict::Safe, "{text}");
    assert!(text.contains("not analysed"), "{text}");
}

#[test]
fn memory_that_the_engine_has_not_named_is_its_own_affair() {
    let fill = |engine: &Engine, stream: StreamHandle, address: u64| {
        // SAFETY: live memory, in a graph that is never replayed.
        unsafe { engine.driver.fill_async(stream, address, 9, 16) }.unwrap();
    };
    // A new buffer and a new stream, which a capture does not forbid an engine
    // that asks for it.
    let own = |engine: &Engine| {
        let driver = &engine.driver;
        let mode = driver.capture_mode_exchange(CaptureMode::Relaxed).unwrap();
        let own = (
            driver.mem_alloc(64).unwrap(),
            driver.stream_create(0).unwrap(),
        );
        driver.capture_mode_exchange(mode).unwrap();
        own
    };
    let (verdict, text) = beside(|engine, _| fill(engine, engine.raw, own(engine).0));
    assert_eq!(verdict, Verdict::Safe, "{text}");

    // Unless it does not order its own nodes.
    let (verdict, text) = beside(|engine, _| {
        let (own, other) = own(engine);
        let event = |from: StreamHandle, to: StreamHandle| {
            let event = engine.driver.event_create(false).unwrap();
            // SAFETY: all are live.
            unsafe {
                let scope = streamweir::driver::EventScope::Internal;
                engine.driver.event_record(event, from, scope).unwrap();
                engine.driver.stream_wait(to, event, scope).unwrap();
            }
        };
        event(engine.raw, other);
        fill(engine, engine.raw, own);
        fill(engine, other, own);
        event(other, engine.raw);
    });
    assert_eq!(verdict, Verdict::Hazard, "{text}");
    assert!(text.contains("memory of the engine at 0x"), "{text}");
}

#[test]
fn an_attachment_that_is_dropped_leaves_a_graph_that_works() {
    let engine = Engine::new();
    let Engine { driver, device, .. } = &engine;
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let address = y.range().start;
    engine.begin();
    let attached = device.attach(&engine.stream, "decode").unwrap();
    part(&attached, &kernels, (&x, &y)).unwrap();
    drop(attached);
    let graph = engine.end();
    let exec = engine.instantiate(graph);
    drop((kernels, x, y));
    device.synchronize().unwrap();
    engine.replay(exec);
    assert_eq!(engine.read(address), [5, 7, 9, 11]);
    // SAFETY: each is destroyed once.
    unsafe {
        driver.exec_destroy(exec).unwrap();
        driver.graph_destroy(graph).unwrap();
    }
    device.collect();
    assert_eq!(live(driver), NOTHING);
}

#[test]
fn the_engine_breaks_its_capture() {
    let engine = Engine::new();
    let y = engine.device.persistent::<u32>("y", LEN).unwrap();
    engine.begin();
    let attached = engine.device.attach(&engine.stream, "decode").unwrap();
    let main = attached.origin();
    main.fill(&y, 1).unwrap();
    engine.break_capture();
    main.fill(&y, 2).unwrap_err();
    let broken = |error: &Error| {
        matches!(error, Error::Engine(EngineError::CaptureBroken { stream, slices })
            if stream == "engine" && slices.is_empty())
    };
    let error = attached.detach().unwrap_err();
    assert!(broken(&error), "{error}");
    assert!(
        error.to_string().contains("does not allow; end it"),
        "{error}"
    );
    let error = engine.device.attach(&engine.stream, "again").unwrap_err();
    assert!(broken(&error), "{error}");
    drop(main);
    // SAFETY: the stream is live.
    unsafe { engine.driver.capture_end(engine.raw) }.unwrap_err();
    drop(y);
    engine.device.synchronize().unwrap();
    assert_eq!(live(&engine.driver), NOTHING);
    engine.lets_go();
}
