//! Parts in an engine's capture.

use streamweir::EngineError;
use streamweir::audit::{AuditOptions, audit};
use streamweir::driver::GraphCalls;

use super::*;

/// An engine that captures on `raw`.
struct Engine {
    rig: Rig,
    raw: StreamHandle,
    stream: DeviceStream,
}

impl Engine {
    fn new() -> Self {
        let rig = rig();
        let raw = rig.driver.stream_create(0).unwrap();
        // SAFETY: the stream lives as long as the driver.
        let stream = unsafe { DeviceStream::from_raw(&rig.device, "engine", raw, Arc::new(())) };
        Self {
            raw,
            stream: stream.unwrap(),
            rig,
        }
    }

    fn begin(&self) {
        // SAFETY: the stream is live and captures nothing.
        unsafe {
            self.rig
                .driver
                .capture_begin(self.raw, CaptureMode::ThreadLocal)
        }
        .unwrap();
    }

    fn order(&self, from: StreamHandle, to: StreamHandle) {
        let driver = &self.rig.driver;
        let event = driver.event_create(false).unwrap();
        // SAFETY: all of them are live.
        unsafe {
            driver
                .event_record(event, from, EventScope::Internal)
                .unwrap();
            driver.stream_wait(to, event, EventScope::Internal).unwrap();
        }
    }
}

/// A call of ours in the engine's capture fills what another stream of ours writes.
#[test]
fn an_undeclared_fill_in_a_part_is_an_access() {
    let engine = Engine::new();
    let [x, y, z] = engine.rig.buffers(["x", "y", "z"]);
    let (driver, at) = (engine.rig.driver.clone(), z.range().start);
    engine.begin();
    let part = engine.rig.device.attach(&engine.stream, "part").unwrap();
    let main = part.origin();
    let side = part.fork(&main, "side").unwrap();
    launch_plus(&main, &engine.rig.kernels, &x, &z).unwrap();
    // SAFETY: nothing is replayed.
    unsafe {
        side.foreign::<_, Error>("library", &[writes(&y)], None, |raw, _| {
            driver.fill_async(raw, at, 1, 16).map_err(foreign)
        })
    }
    .unwrap();
    part.join(&main, side).unwrap();
    let error = part.detach().map(drop).unwrap_err();
    let report = error.report().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
    // SAFETY: the engine ends what it began.
    unsafe { engine.rig.driver.capture_end(engine.raw) }.unwrap();
}

/// What a call of ours shows is kept by the engine's graph, declared or not.
#[test]
fn what_a_part_shows_is_kept_by_the_engines_graph() {
    let engine = Engine::new();
    let [y, z] = engine.rig.buffers(["y", "z"]);
    let (driver, at) = (engine.rig.driver.clone(), z.range().start);
    engine.begin();
    let part = engine.rig.device.attach(&engine.stream, "part").unwrap();
    // SAFETY: the graph keeps what its nodes show.
    unsafe {
        let touches = [writes(&y)];
        part.origin()
            .foreign::<_, Error>("library", &touches, None, |raw, _| {
                driver.fill_async(raw, at, 1, 16).map_err(foreign)
            })
    }
    .unwrap();
    let detached = part.detach().unwrap();
    assert_eq!(
        detached.report().verdict,
        Verdict::Safe,
        "{}",
        detached.report()
    );
    drop((y, z));
    // SAFETY: the engine's own graph, and what it replays is alive.
    unsafe {
        let graph = driver.capture_end(engine.raw).unwrap();
        engine.rig.device.synchronize().unwrap();
        let exec = driver.graph_instantiate(graph).unwrap();
        driver.exec_launch(exec, engine.raw).unwrap();
        driver.stream_synchronize(engine.raw).unwrap();
    }
}

/// Two streams of the engine use memory of its own without an order: a race, whether we
/// look at the end of our part or audit the graph when the engine has ended its capture.
#[test]
fn an_audit_finds_the_race_in_unnamed_memory_that_detach_finds() {
    let engine = Engine::new();
    let driver = engine.rig.driver.clone();
    let own = driver.mem_alloc(64).unwrap();
    let aux = driver.stream_create(0).unwrap();
    engine.begin();
    engine.order(engine.raw, aux);
    // SAFETY: the memory is live to the end of the test.
    unsafe {
        driver.fill_async(aux, own, 9, 16).unwrap();
        driver.fill_async(engine.raw, own, 8, 16).unwrap();
    }
    engine.order(aux, engine.raw);
    let part = engine.rig.device.attach(&engine.stream, "part").unwrap();
    let error = part.detach().map(drop).unwrap_err();
    let found = error.report().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(found.hazards[0].rule, Rule::UnorderedConflict, "{found}");
    // SAFETY: the graph is the engine's, and nobody changes it.
    let audited = unsafe {
        let graph = driver.capture_end(engine.raw).unwrap();
        audit(&engine.rig.device, graph, AuditOptions::named("whole")).unwrap()
    };
    let report = audited.verify(&Default::default()).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
    // Of this graph nobody has said whose memory it is.
    let unknown = |hazard: &streamweir::verify::Hazard| hazard.rule == Rule::UnknownMemory;
    assert!(report.hazards.iter().any(unknown), "{report}");
}

/// An open branch is the engine's to join: an assumption at `detach`, knowledge when the
/// driver has let the capture end. Work that we have not joined is refused all the same.
#[test]
fn an_open_branch_is_an_assumption_until_the_capture_has_ended() {
    let engine = Engine::new();
    let driver = engine.rig.driver.clone();
    let [x, y] = engine.rig.buffers(["x", "y"]);
    let own = driver.mem_alloc(64).unwrap();
    let aux = driver.stream_create(0).unwrap();
    engine.begin();
    engine.order(engine.raw, aux);
    // SAFETY: the memory is live to the end of the test.
    unsafe { driver.fill_async(aux, own, 9, 16) }.unwrap();
    let part = engine.rig.device.attach(&engine.stream, "part").unwrap();
    launch_plus(&part.origin(), &engine.rig.kernels, &x, &y).unwrap();
    let detached = part.detach().unwrap();
    let report = detached.report();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let open = |line: &&String| line.contains("had not joined");
    assert_eq!(
        report.assumptions.iter().filter(open).count(),
        1,
        "{report}"
    );
    engine.order(aux, engine.raw);
    // SAFETY: as above.
    let audited = unsafe {
        let graph = driver.capture_end(engine.raw).unwrap();
        audit(&engine.rig.device, graph, AuditOptions::named("whole")).unwrap()
    };
    let report = audited.verify(&Default::default()).unwrap();
    assert!(
        !report.assumptions.iter().any(|line| open(&line)),
        "{report}"
    );
    assert!(
        report
            .hazards
            .iter()
            .all(|hazard| hazard.rule != Rule::Protocol),
        "{report}"
    );
}

/// An engine's replays take no turns, so its part shares no arena unless somebody vouches
/// for them.
#[test]
fn a_group_in_an_engines_capture_is_refused_or_vouched_for() {
    let engine = Engine::new();
    let group = engine.rig.device.replay_group("buckets", SMALL);
    let [y] = engine.rig.buffers(["y"]);
    engine.begin();
    let options = CaptureOptions::new("part").group(&group);
    let error = engine
        .rig
        .device
        .attach(&engine.stream, options.clone())
        .unwrap_err();
    assert!(
        matches!(&error, Error::Engine(EngineError::InGroup { group, .. }) if group == "buckets"),
        "{error}"
    );
    // SAFETY: nothing is replayed.
    let options = unsafe { options.replays_take_turns() };
    let part = engine.rig.device.attach(&engine.stream, options).unwrap();
    let main = part.origin();
    let t = main.scratch::<u32>("t", LEN).unwrap();
    main.fill(&t, 1).unwrap();
    main.copy(&y, &t).unwrap();
    let detached = part.detach().unwrap();
    assert!(group.reserved() > 0, "its scratch is of the group");
    let report = detached.report();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let said = report.assumptions.join("\n");
    assert!(
        said.contains("overlap") && said.contains("\"buckets\""),
        "{said}"
    );
    // SAFETY: the engine ends what it began.
    unsafe { engine.rig.driver.capture_end(engine.raw) }.unwrap();
}
