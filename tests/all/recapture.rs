//! A changed step: captured again, proved in full, and put in the place of the old one
//! by an update of the instantiated graph.

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{DynDriver, ErrorClass};
use streamweir::{Capture, CaptureOptions, Device, Error, Persistent, Verify};

use crate::common::{Kernels, LEN, N, NOTHING, SMALL, live, plus, sim};

#[path = "../../examples/changed_step.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

#[test]
fn the_example_runs() {
    for seed in 0..20 {
        example::run(&Device::sim(seed)).unwrap();
    }
}

/// `out = table + more`, by way of scratch on a side stream.
fn step<'a>(
    kernels: &'a Kernels,
    table: &'a Persistent<u32>,
    out: &'a Persistent<u32>,
    more: u32,
) -> impl Fn(&Capture) -> Result<(), Error> + 'a {
    move |cap| {
        let main = cap.origin();
        let x = main.scratch::<u32>("x", LEN)?;
        main.copy(&x, table)?;
        let side = cap.fork(&main, "side")?;
        side.launch(
            &kernels.plus,
            plus {
                input: &x,
                output: out,
                more,
                len: N,
            },
        )?;
        cap.join(&main, side).map(drop)
    }
}

#[test]
fn later_replays_do_the_new_step_and_those_in_flight_the_old_one() {
    for seed in 0..50 {
        let (device, driver) = sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let stream = device.stream("replay").unwrap();
        let log = device.persistent::<u32>("log", LEN).unwrap();
        let out = device.persistent::<u32>("out", LEN).unwrap();
        let keep = {
            let old = device.persistent_from("old", &[10_u32; LEN]).unwrap();
            let record = step(&kernels, &old, &out, 1);
            let (mut graph, ()) = device.capture::<_, Error>("step", record).unwrap();
            let (copy, ()) = device
                .capture::<_, Error>("copy", |cap| cap.origin().copy(&log, &out))
                .unwrap();
            graph.replay(&stream).unwrap();
            copy.replay(&stream).unwrap();
            let new = device.persistent_from("new", &[20_u32; LEN]).unwrap();
            // The old table is let go of while a replay may read it.
            drop(old);
            let record = step(&kernels, &new, &out, 2);
            let options = CaptureOptions::new("changed").verify(Verify::Prove);
            device
                .recapture::<_, Error>(&mut graph, options, record)
                .unwrap();
            assert_eq!(graph.name(), "changed");
            assert!(graph.certificate().is_some());
            graph.replay(&stream).unwrap();
            assert_eq!(log.download().unwrap(), [11; LEN], "{seed}");
            assert_eq!(out.download().unwrap(), [22; LEN], "{seed}");
            device.collect();
            // The old graph, its table and its node graph are gone with its last launch.
            let found = driver.live();
            assert_eq!((found.graphs, found.execs), (2, 2));
            (graph, copy)
        };
        drop(keep);
        device.synchronize().unwrap();
        drop((kernels, stream, log, out));
        device.collect();
        assert_eq!(live(&driver), NOTHING);
    }
}

#[test]
fn the_old_tables_stay_until_their_last_replay_has_ended() {
    let (device, driver) = sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let stream = device.stream("replay").unwrap();
    let out = device.persistent::<u32>("out", LEN).unwrap();
    let [old, new] = [1, 2].map(|v| device.persistent_from("table", &[v; LEN]).unwrap());
    let (mut graph, ()) = device
        .capture::<_, Error>("step", step(&kernels, &old, &out, 0))
        .unwrap();
    graph.replay(&stream).unwrap();
    let before = driver.live().allocations;
    device
        .recapture::<_, Error>(&mut graph, "step", step(&kernels, &new, &out, 0))
        .unwrap();
    drop(old);
    // Nothing has run on this device, for nobody has waited or asked.
    assert_eq!(driver.live().allocations, before, "let go in flight");
    device.synchronize().unwrap();
    assert_eq!(driver.live().allocations, before - 1);
    // Never replayed since, and dropped: its instance goes behind the first launch.
    graph.replay(&stream).unwrap();
    drop(graph);
    device.synchronize().unwrap();
    assert_eq!(driver.live().execs, 0);
}

#[test]
fn what_is_captured_anew_shares_the_arena_of_the_group() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let group = device.replay_group("buckets", SMALL);
    let out = device.persistent::<u32>("out", LEN).unwrap();
    let table = device.persistent::<u32>("table", LEN).unwrap();
    let options = CaptureOptions::new("step").group(&group);
    let record = step(&kernels, &table, &out, 0);
    let (mut graph, ()) = device.capture::<_, Error>(options, &record).unwrap();
    let reserved = group.reserved();
    for _ in 0..3 {
        device
            .recapture::<_, Error>(&mut graph, "step", &record)
            .unwrap();
        assert_eq!(group.reserved(), reserved);
    }
    drop(graph);
    device.collect();
    assert_eq!(group.trim(), reserved);
}

#[test]
fn a_step_that_is_refused_leaves_the_graph_as_it_was() {
    let (device, other) = (Device::sim(1), Device::sim(2));
    let kernels = Kernels::load(&device).unwrap();
    let stream = device.stream("replay").unwrap();
    let [out, table] = ["out", "table"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let record = step(&kernels, &table, &out, 7);
    let (mut graph, ()) = device.capture::<_, Error>("step", &record).unwrap();

    // Other nodes.
    let error = device
        .recapture::<_, Error>(&mut graph, "other", |cap| cap.origin().fill(&out, 1))
        .unwrap_err();
    assert!(
        matches!(&error, Error::NotUpdated { graph, .. } if graph == "step"),
        "{error}"
    );
    // A hazard.
    let error = device
        .recapture::<_, Error>(&mut graph, "hazard", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.fill(&out, 1)?;
            main.fill(&out, 2)?;
            cap.join(&main, side).map(drop)
        })
        .unwrap_err();
    assert!(error.report().is_some(), "{error}");
    // An error of the closure, and another device.
    let failed = device.recapture::<(), Error>(&mut graph, "failed", |cap| {
        cap.fork(&cap.origin(), "main").map(drop)
    });
    assert!(failed.is_err());
    let error = other
        .recapture::<_, Error>(&mut graph, "elsewhere", |_| Ok(()))
        .unwrap_err();
    assert!(matches!(&error, Error::OtherDevice { what, .. } if what == "graph \"step\""));

    assert_eq!(graph.name(), "step");
    graph.replay(&stream).unwrap();
    assert_eq!(out.download().unwrap(), [7; LEN]);
    device
        .recapture::<_, Error>(&mut graph, "step", &record)
        .unwrap();
}

/// Every driver call of a recapture fails once, with failures after which an instance is
/// known to be whole and with others.
#[test]
fn whatever_call_of_it_fails_the_graph_is_as_it_was() {
    for class in [ErrorClass::GraphUpdateRefused, ErrorClass::OutOfMemory] {
        let mut failed = Vec::new();
        for index in 0.. {
            let sim = SimDriver::new(index);
            let fault = FaultDriver::new(sim.clone());
            let driver: DynDriver = fault.clone();
            let device = Device::with_driver(driver);
            let kernels = Kernels::load(&device).unwrap();
            let stream = device.stream("replay").unwrap();
            let out = device.persistent::<u32>("out", LEN).unwrap();
            let [old, new] = [10, 20].map(|v| device.persistent_from("table", &[v; LEN]).unwrap());
            let record = step(&kernels, &old, &out, 1);
            let (mut graph, ()) = device.capture::<_, Error>("step", record).unwrap();
            graph.replay(&stream).unwrap();
            fault.disarm();
            fault.fail_call(index, class);
            let record = step(&kernels, &new, &out, 2);
            let outcome = device.recapture::<_, Error>(&mut graph, "changed", record);
            let call = fault.failed();
            fault.disarm();
            let expected = match &outcome {
                Ok(()) => 22,
                Err(_) => 11,
            };
            for _ in 0..2 {
                out.upload(&[0; LEN]).unwrap();
                graph.replay(&stream).unwrap();
                assert_eq!(
                    out.download().unwrap(),
                    [expected; LEN],
                    "{call:?} with {class}"
                );
            }
            drop((graph, old, new, out, kernels, stream));
            device.synchronize().unwrap();
            assert_eq!(live(&sim), NOTHING, "left behind by {call:?} with {class}");
            match call {
                Some(call) => failed.push((call, outcome.is_err())),
                None => break,
            }
        }
        assert!(failed.contains(&("exec_update", true)), "{failed:?}");
        assert!(failed.contains(&("graph_nodes", true)), "{failed:?}");
    }
}
