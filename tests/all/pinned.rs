//! Page-locked memory in graphs: copies both ways, proved, and refilled between replays
//! under the turn that replays take.

use std::collections::BTreeSet;
use std::thread;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{CaptureCalls, CaptureMode, ErrorClass, GraphCalls, StreamCalls};
use streamweir::trace::{AccessMode, NodeKind};
use streamweir::verify::{Rule, certificate};
use streamweir::{
    Capture, CaptureOptions, Device, DeviceStream, Error, FeedError, Graph, Persistent, Pinned,
    Placement, Poison, Taps, Verify,
};

use crate::common::{Kernels, LEN, N, NOTHING, live, plus, sim};

/// `tokens = ids + 1`, by way of an upload, a kernel on a side stream, and a download.
struct Step {
    ids: Pinned<u32>,
    tokens: Pinned<u32>,
    graph: Graph,
}

fn record(
    cap: &Capture,
    kernels: &Kernels,
    ids: &Pinned<u32>,
    tokens: &mut Pinned<u32>,
) -> Result<(), Error> {
    let main = cap.origin();
    let [x, y] = [
        main.scratch::<u32>("x", LEN)?,
        main.scratch::<u32>("y", LEN)?,
    ];
    main.upload(&x, ids)?;
    let side = cap.fork(&main, "side")?;
    side.launch(
        &kernels.plus,
        plus {
            input: &x,
            output: &y,
            more: 1,
            len: N,
        },
    )?;
    cap.join(&main, side)?;
    main.download(tokens, &y)
}

fn step(device: &Device, options: CaptureOptions) -> Step {
    let kernels = Kernels::load(device).unwrap();
    let ids = device.pinned("ids", LEN).unwrap();
    let mut tokens = device.pinned("tokens", LEN).unwrap();
    let options = options.verify(Verify::Prove);
    let (graph, ()) = device
        .capture::<_, Error>(options, |cap| record(cap, &kernels, &ids, &mut tokens))
        .unwrap();
    Step { ids, tokens, graph }
}

impl Step {
    fn run(&mut self, id: u32, stream: &DeviceStream) -> Vec<u32> {
        self.ids.hold().unwrap().fill(id);
        self.graph.replay(stream).unwrap();
        self.tokens.hold().unwrap().to_vec()
    }
}

/// Several steps are in flight before the first result is read: each refill waits for
/// the replay before, and never changes what it reads.
///
/// ```text
/// host      fill 0 . . . . . . . . fill 1 . . . . . . . .
/// a                replay 0 ──────┘      ┌ (waits) replay 1 ..
/// b                                      └─ on the other stream
/// ```
#[test]
fn a_refill_comes_after_the_replay_before_and_before_the_next() {
    for seed in 0..60 {
        for placement in [Placement::Live, Placement::Planned] {
            let device = Device::sim(seed);
            let mut step = step(&device, CaptureOptions::new("step").placement(placement));
            let streams = ["a", "b"].map(|name| device.stream(name).unwrap());
            let log = device.persistent::<u32>("log", LEN).unwrap();
            for id in 0..5 {
                let found = step.run(10 * id, &streams[id as usize % 2]);
                assert_eq!(found, [10 * id + 1; LEN], "{seed}");
            }
            // A replay that nobody waits for before the refill.
            let (copy, ()) = device
                .capture::<_, Error>("copy", |cap| cap.origin().upload(&log, &step.ids))
                .unwrap();
            step.ids.hold().unwrap().fill(7);
            copy.replay(&streams[0]).unwrap();
            step.ids.hold().unwrap().fill(8);
            assert_eq!(log.download().unwrap(), [7; LEN], "{seed}");
        }
    }
}

/// What the test above would miss if `hold` did not wait.
#[test]
fn behind_the_back_of_the_turn_a_refill_reaches_the_replay() {
    let wrong = (0..100).filter(|&seed| {
        let (device, driver) = sim(seed);
        let log = device.persistent::<u32>("log", LEN).unwrap();
        let mut ids = device.pinned::<u32>("ids", LEN).unwrap();
        ids.as_mut_slice().unwrap().fill(7);
        let address = ids.as_slice().unwrap().as_ptr().cast_mut();
        let (copy, ()) = device
            .capture::<_, Error>("copy", |cap| cap.origin().upload(&log, &ids))
            .unwrap();
        let stream = device.stream("replay").unwrap();
        copy.replay(&stream).unwrap();
        // SAFETY: the simulated device copies on this thread, when somebody waits.
        unsafe { address.write(8) };
        // SAFETY: the stream is live.
        unsafe { driver.stream_synchronize(stream.raw()) }.unwrap();
        log.download().unwrap()[0] == 8
    });
    assert!(wrong.count() > 0);
}

#[test]
fn a_step_is_one_call_and_each_hold_one_event() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let mut step = step(&device, CaptureOptions::new("step"));
    let stream = device.stream("replay").unwrap();
    // Each makes its event when it first has a launch to wait for.
    for id in 0..2 {
        step.run(id, &stream);
    }
    for id in 2..4 {
        fault.disarm();
        step.ids.hold().unwrap().fill(id);
        assert_eq!(fault.trace(), ["event_record", "event_synchronize"]);
        fault.disarm();
        step.graph.replay(&stream).unwrap();
        assert_eq!(fault.trace(), ["exec_launch"]);
    }
    assert_eq!(step.tokens.hold().unwrap()[..], [4; LEN]);
}

#[test]
fn a_replay_is_refused_while_the_host_holds_what_it_touches() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let mut step = step(&device, CaptureOptions::new("step"));
    let (stream, x) = (
        device.stream("replay").unwrap(),
        device.persistent::<u32>("x", LEN).unwrap(),
    );
    let (other, ()) = device
        .capture::<_, Error>("other", |cap| cap.origin().fill(&x, 1))
        .unwrap();
    let refused = |error: Error, held: &str| {
        assert!(
            matches!(&error, Error::Feed(FeedError::HostHolds { graph, buffer }) if graph == "step" && buffer == held),
            "{error}"
        );
    };
    let held = step.tokens.hold().unwrap();
    fault.disarm();
    refused(step.graph.replay(&stream).unwrap_err(), "tokens");
    let elsewhere = thread::scope(|scope| {
        let replay = scope.spawn(|| step.graph.replay(&stream));
        replay.join().unwrap()
    });
    refused(elsewhere.unwrap_err(), "tokens");
    assert_eq!(fault.trace(), [""; 0], "nothing was enqueued");
    other.replay(&stream).unwrap();
    drop(held);
    step.graph.replay(&stream).unwrap();

    // What is never let go of is held to the end, and may be held again.
    std::mem::forget(step.ids.hold().unwrap());
    refused(step.graph.replay(&stream).unwrap_err(), "ids");
    drop(step.ids.hold().unwrap());
    step.graph.replay(&stream).unwrap();
}

#[test]
fn memory_of_which_nobody_knows_when_it_is_free_is_not_held() {
    let device = Device::sim(1);
    let x = device.persistent::<u32>("x", LEN).unwrap();
    let mut ids = device.pinned::<u32>("ids", LEN).unwrap();
    let not_held = |error: Error, said: &str| {
        assert!(
            matches!(&error, Error::Feed(FeedError::NotHeld { buffer, why }) if buffer == "ids" && why.contains(said)),
            "{error}"
        );
    };
    // An eager run that is under way: its copy is enqueued, and no turn knows of it.
    device
        .eager::<_, Error>("run", |run| {
            run.origin().upload(&x, &ids)?;
            not_held(ids.hold().map(drop).unwrap_err(), "eager run");
            Ok(())
        })
        .unwrap();
    ids.hold().unwrap().fill(1);
    let inside = device.capture::<_, Error>("inside", |cap| {
        cap.origin().upload(&x, &ids)?;
        ids.hold().map(drop)
    });
    assert!(matches!(
        inside,
        Err(Error::InsideCapture {
            call: "Pinned::hold",
            ..
        })
    ));
    // The capture that failed has let go of it.
    ids.hold().unwrap().fill(2);
    assert!(ids.as_mut_slice().is_some());
}

#[test]
fn what_an_engine_replays_is_not_held() {
    let (device, driver) = sim(1);
    let raw = driver.stream_create(0).unwrap();
    // SAFETY: the stream is destroyed by nobody before the device goes.
    let engine =
        unsafe { DeviceStream::from_raw(&device, "engine", raw, std::sync::Arc::new(())) }.unwrap();
    let x = device.persistent::<u32>("x", LEN).unwrap();
    let mut ids = device.pinned::<u32>("ids", LEN).unwrap();
    // SAFETY: the handle is live.
    unsafe { driver.capture_begin(raw, CaptureMode::ThreadLocal) }.unwrap();
    let attached = device.attach(&engine, "part").unwrap();
    attached.origin().upload(&x, &ids).unwrap();
    attached.detach().unwrap();
    // SAFETY: the handle is live.
    let graph = unsafe { driver.capture_end(raw) }.unwrap();
    let error = ids.hold().map(drop).unwrap_err();
    assert!(
        error.to_string().contains("a graph of an engine"),
        "{error}"
    );
    // SAFETY: nobody uses the graph afterwards.
    unsafe { driver.graph_destroy(graph) }.unwrap();
    device.collect();
    ids.hold().unwrap().fill(1);
}

/// The host's memory is a buffer: what meets in it unordered is a hazard, by name.
#[test]
fn an_upload_beside_a_download_of_the_same_memory_is_refused() {
    let device = Device::sim(1);
    let [x, y] = ["x", "y"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let mut staged = device.pinned::<u32>("staged", LEN).unwrap();
    let mut capture = |join_first: bool| {
        device.capture::<_, Error>("both", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.upload(&x, &staged)?;
            match join_first {
                true => {
                    cap.join(&main, side)?;
                    main.download(&mut staged, &y)
                }
                false => {
                    main.download(&mut staged, &y)?;
                    cap.join(&main, side).map(drop)
                }
            }
        })
    };
    let error = capture(false).unwrap_err();
    let report = error.report().unwrap();
    let rules: BTreeSet<Rule> = report.hazards.iter().map(|hazard| hazard.rule).collect();
    assert_eq!(rules, BTreeSet::from([Rule::UnorderedConflict]), "{report}");
    assert_eq!(report.hazards[0].buffers[0].name, "staged");
    let (graph, ()) = capture(true).unwrap();
    assert!(graph.certificate().is_some());
}

#[test]
fn both_ends_of_a_copy_are_in_the_trace_and_in_the_proof() {
    let device = Device::sim(1);
    let step = step(&device, CaptureOptions::new("step"));
    let trace = step.graph.trace();
    let ends = |name: &str| -> Vec<_> {
        let named = |buffer: usize| trace.buffers[buffer].name == name;
        let accesses = trace.accesses.iter();
        accesses
            .filter(|access| named(access.buffer.index()))
            .map(|access| (access.node.index(), access.mode, access.bytes.len()))
            .collect()
    };
    let bytes = 4 * LEN as u64;
    assert_eq!(ends("ids"), [(0, AccessMode::Read, bytes)]);
    assert_eq!(ends("tokens"), [(2, AccessMode::Write, bytes)]);
    for (node, name) in [(0, "ids"), (2, "tokens")] {
        let NodeKind::Memcpy(copy) = trace.nodes[node].kind else {
            panic!("node {node} is no copy");
        };
        let buffer = trace.buffers.iter().find(|buffer| buffer.name == name);
        let host = if node == 0 { copy.from } else { copy.to };
        assert_eq!((host, copy.bytes), (buffer.unwrap().range.start, bytes));
    }
    let certificate = step.graph.certificate().unwrap();
    certificate::check(trace, certificate).unwrap();
}

#[test]
fn graphs_that_meet_in_page_locked_memory_take_turns() {
    for seed in 0..60 {
        let device = Device::sim(seed);
        let [x, y] = ["x", "y"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
        let mut between = device.pinned::<u32>("between", LEN).unwrap();
        let out = device.capture::<_, Error>("out", |cap| cap.origin().download(&mut between, &x));
        let out = out.unwrap().0;
        let back = device.capture::<_, Error>("back", |cap| cap.origin().upload(&y, &between));
        let back = back.unwrap().0;
        let [a, b] = ["a", "b"].map(|name| device.stream(name).unwrap());
        for value in 1..4 {
            x.upload(&[value; LEN]).unwrap();
            out.replay(&a).unwrap();
            back.replay(&b).unwrap();
            assert_eq!(y.download().unwrap(), [value; LEN], "{seed}");
        }
    }
}

#[test]
fn what_is_written_at_a_replay_is_not_read_beside_it() {
    let device = Device::sim(1);
    let Step {
        ids,
        mut tokens,
        graph,
    } = step(&device, CaptureOptions::new("step"));
    assert!(ids.as_slice().is_some(), "nobody writes it");
    assert!(tokens.as_slice().is_none());
    assert!(tokens.as_mut_slice().is_none());
    drop(graph);
    device.synchronize().unwrap();
    assert_eq!(tokens.as_slice().unwrap(), [0; LEN]);
    tokens.as_mut_slice().unwrap().fill(1);
}

#[test]
fn poison_and_taps_know_the_copies() {
    for seed in 0..20 {
        let device = Device::sim(seed);
        let mut poisoned = step(&device, CaptureOptions::new("step").poison(Poison::Every));
        let stream = device.stream("replay").unwrap();
        assert_eq!(poisoned.run(4, &stream), [5; LEN]);

        let taps = Taps::new(&device, "taps");
        let mut tapped = step(&device, CaptureOptions::new("step").taps(&taps));
        assert_eq!(tapped.run(4, &stream), [5; LEN]);
        let seen = taps.read().unwrap();
        // x; x, y; y, tokens.
        assert_eq!((seen.len(), seen.left_out()), (5, &[][..]));

        // And the same run without a graph.
        let reference = Taps::new(&device, "reference");
        let kernels = Kernels::load(&device).unwrap();
        let mut ids = device.pinned::<u32>("ids", LEN).unwrap();
        ids.as_mut_slice().unwrap().fill(4);
        let mut tokens = device.pinned::<u32>("tokens", LEN).unwrap();
        let options = CaptureOptions::new("step").taps(&reference);
        device
            .eager::<_, Error>(options, |cap| record(cap, &kernels, &ids, &mut tokens))
            .unwrap();
        assert_eq!(tokens.hold().unwrap()[..], [5; LEN]);
        assert!(reference.read().unwrap().compare(&seen).unwrap().is_clean());
    }
}

#[test]
fn a_wait_that_fails_leaves_the_memory_to_the_replays() {
    let sim = SimDriver::new(1);
    let fault = FaultDriver::new(sim.clone());
    let device = Device::with_driver(fault.clone());
    let mut step = step(&device, CaptureOptions::new("step"));
    let stream = device.stream("replay").unwrap();
    step.graph.replay(&stream).unwrap();
    // The event is made once, so the call before is not made again.
    for (call, name) in [
        (0, "event_create"),
        (1, "event_record"),
        (1, "event_synchronize"),
    ] {
        fault.fail_call(call, ErrorClass::Unknown);
        let error = step.ids.hold().map(drop).unwrap_err();
        assert_eq!(fault.failed(), Some(name));
        assert!(error.to_string().contains("\"ids\""), "{error}");
        fault.disarm();
        step.graph.replay(&stream).unwrap();
    }
    assert_eq!(step.run(3, &stream), [4; LEN]);
    drop(step);
    device.synchronize().unwrap();
    drop(stream);
    assert_eq!(live(&sim), NOTHING);
}

#[test]
fn copies_that_do_not_fit_are_refused_by_name() {
    let (device, other) = (Device::sim(1), Device::sim(2));
    let x: Persistent<u32> = device.persistent("x", LEN).unwrap();
    let mut short = device.pinned::<u32>("short", LEN - 1).unwrap();
    let foreign = other.pinned::<u32>("foreign", LEN).unwrap();
    let mut none = device.pinned::<u32>("none", 0).unwrap();
    let nothing = device.persistent::<u32>("nothing", 0).unwrap();
    device
        .capture::<_, Error>("step", |cap| {
            let main = cap.origin();
            main.fill(&x, 0)?;
            let error = main.download(&mut short, &x).unwrap_err().to_string();
            assert!(
                error.contains("\"short\"") && error.contains("\"x\""),
                "{error}"
            );
            let error = main.upload(&x, &short).unwrap_err();
            assert!(matches!(error, Error::Length { buffer, .. } if buffer == "x"));
            let error = main.upload(&x, &foreign).unwrap_err().to_string();
            assert!(
                error.contains("\"foreign\"") && error.contains("another device"),
                "{error}"
            );
            main.upload(&nothing, &none)?;
            main.download(&mut none, &nothing)
        })
        .unwrap();
    // Refused copies hold nothing.
    assert!(short.as_mut_slice().is_some());
    assert_eq!(none.hold().unwrap().len(), 0);
}
