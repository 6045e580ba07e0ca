//! Whose record an event is.

use super::*;
use streamweir::EngineError;

/// A capture that records `done` behind a write.
fn recorder(rig: &Rig, name: &str, done: &streamweir::Event) -> Result<Graph, Error> {
    let [x, y] = rig.buffers(["x", "y"]);
    let recorded = rig.device.capture::<_, Error>(name, |cap| {
        let main = cap.origin();
        launch_plus(&main, &rig.kernels, &x, &y)?;
        main.record_external(done)
    });
    recorded.map(|(graph, ())| graph)
}

/// By hand after a graph, and by a graph after the host: whoever waits could not tell
/// which record it has seen.
#[test]
fn a_graph_and_the_host_do_not_record_one_event() {
    let rig = rig();
    let stream = rig.device.stream("by hand").unwrap();
    let done = rig.device.event("done").unwrap();
    let graph = recorder(&rig, "A", &done).unwrap();
    let error = stream.record(&done).unwrap_err();
    assert!(
        matches!(&error, Error::EventTaken { event, .. } if event == "done"),
        "{error}"
    );
    assert!(error.to_string().contains("graph \"A\""), "{error}");
    // Waiting is anybody's.
    stream.wait(&done).unwrap();
    drop(graph);
    rig.device.synchronize().unwrap();
    stream.record(&done).unwrap();

    let error = recorder(&rig, "B", &done).unwrap_err();
    assert!(error.to_string().contains("by hand"), "{error}");
}

/// The graphs of one group take turns, so the latest record stands for those before it.
#[test]
fn graphs_of_one_group_record_one_event() {
    let rig = rig();
    let done = rig.device.event("done").unwrap();
    let [x, a, b, c] = rig.buffers(["x", "a", "b", "c"]);
    let group = rig.device.replay_group("buckets", SMALL);
    let record = |name: &str, output: &Persistent<u32>| {
        let options = CaptureOptions::new(name).group(&group);
        let recorded = rig.device.capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            launch_plus(&main, &rig.kernels, &x, output)?;
            main.record_external(&done)
        });
        recorded.unwrap().0
    };
    let (first, second) = (record("A", &a), record("B", &b));
    let [s, t, u] = ["s", "t", "u"].map(|name| rig.device.stream(name).unwrap());
    for seed in 0..50 {
        rig.driver.reseed(seed);
        a.upload(&[0; LEN]).unwrap();
        first.replay(&s).unwrap();
        second.replay(&t).unwrap();
        u.wait(&done).unwrap();
        // SAFETY: both buffers live to the end of the test.
        unsafe {
            rig.driver
                .copy_async(u.raw(), c.range().start, a.range().start, 16)
        }
        .unwrap();
        u.synchronize().unwrap();
        assert_eq!(c.download().unwrap(), [7; LEN], "seed {seed}");
    }
}

/// The claim goes with the graph, and with a capture that comes to nothing.
#[test]
fn an_event_is_free_when_its_graph_is_gone() {
    let rig = rig();
    let done = rig.device.event("done").unwrap();
    let failed = rig.device.capture::<(), Error>("failed", |cap| {
        cap.origin().record_external(&done)?;
        Err(Error::Engine(EngineError::NotCapturing {
            stream: "none".into(),
        }))
    });
    assert!(failed.is_err());
    drop(recorder(&rig, "A", &done).unwrap());
    rig.device.synchronize().unwrap();
    let graph = recorder(&rig, "B", &done).unwrap();
    assert!(recorder(&rig, "C", &done).is_err());
    drop(graph);
}
