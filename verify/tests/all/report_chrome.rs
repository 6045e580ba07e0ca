//! The graph as Chrome trace JSON, read as a viewer reads it.

use serde_json::Value;
use streamweir_trace::{NodeId, Trace};
use streamweir_verify::{Axis, VerifyError, chrome, verify};

use crate::build::*;
use crate::generate::{hostile, layers};

fn file(trace: &Trace, axis: Axis<'_>) -> Value {
    let report = verify(trace).unwrap();
    serde_json::from_str(&chrome(trace, &report, axis).unwrap()).unwrap()
}

/// The events of one phase.
fn events<'a>(file: &'a Value, phase: &str) -> Vec<&'a Value> {
    let events = file["traceEvents"].as_array().unwrap();
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// A bar: its lane, its name, where it begins and where it ends.
type Bar<'a> = (u64, &'a str, f64, f64);

fn bars(file: &Value) -> Vec<Bar<'_>> {
    let bars = events(file, "X");
    bars.iter()
        .map(|bar| {
            let [ts, dur] = ["ts", "dur"].map(|key| bar[key].as_f64().unwrap());
            let name = bar["name"].as_str().unwrap();
            (bar["tid"].as_u64().unwrap(), name, ts, ts + dur)
        })
        .collect()
}

/// The arrows, each with its category and the bars that hold its ends. Panics unless
/// each end lies inside of a bar and none points backwards.
fn arrows(file: &Value) -> Vec<(String, String, String)> {
    let bars = bars(file);
    let around = |end: &Value| {
        let (lane, at) = (end["tid"].as_u64().unwrap(), end["ts"].as_f64().unwrap());
        let holds = |bar: &&Bar<'_>| bar.0 == lane && bar.2 < at && at < bar.3;
        let found: Vec<_> = bars.iter().filter(holds).collect();
        assert_eq!(found.len(), 1, "{end}");
        found[0].1.to_owned()
    };
    let (starts, ends) = (events(file, "s"), events(file, "f"));
    assert_eq!(starts.len(), ends.len());
    let pairs = starts.into_iter().zip(ends);
    pairs
        .map(|(start, end)| {
            assert_eq!((&start["id"], &start["cat"]), (&end["id"], &end["cat"]));
            assert_eq!(end["bp"], "e");
            assert!(start["ts"].as_f64() <= end["ts"].as_f64(), "{start} {end}");
            let cat = start["cat"].as_str().unwrap().to_owned();
            (cat, around(start), around(end))
        })
        .collect()
}

fn arrow(cat: &str, from: &str, to: &str) -> (String, String, String) {
    (cat.to_owned(), from.to_owned(), to.to_owned())
}

#[test]
fn branches_are_lanes_joins_are_flows_and_a_missing_join_is_one_of_its_own() {
    let mut cap = Capture::new();
    let scores = cap.persistent("scores", 0x1000, 0x400);
    cap.node(MAIN, "norm");
    cap.join(SIDE, MAIN);
    let logits = cap.node(SIDE, "logits");
    let attend = cap.node(MAIN, "attend");
    cap.all(logits, Write, scores);
    cap.all(attend, Read, scores);
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "add");
    let file = file(&cap.end(), Axis::Order);
    assert_eq!(
        bars(&file),
        [
            (0, "norm", 0e6, 1e6),
            (1, "logits", 1e6, 2e6),
            (0, "attend", 1e6, 2e6),
            (0, "add", 2e6, 3e6),
        ]
    );
    assert_eq!(
        arrows(&file),
        [
            arrow("join", "norm", "logits"),
            arrow("join", "logits", "add"),
            arrow("missing join", "logits", "attend"),
        ]
    );
    let marks = events(&file, "i");
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0]["name"], "hazard[R1]");
    let bar = events(&file, "X")[1];
    assert_eq!(bar["cat"], "kernel");
    assert_eq!(bar["args"]["graph node id"], 1);
    assert_eq!(bar["args"]["follows"], serde_json::json!(["n0"]));
    assert_eq!(bar["args"]["touches"][0]["bytes"], "0x1000..0x1400");
    assert_eq!(bar["cname"], "terrible");
    let name = &events(&file, "M")[0]["args"]["name"];
    assert_eq!(
        name,
        "capture \"test\" (order, not time: each node fills one second)"
    );
    assert_eq!(file["streamweir"]["verdict"], "hazard");
}

/// The one that has to wait is recorded first, where a viewer would want it last.
#[test]
fn a_missing_join_never_points_backwards() {
    let mut cap = Capture::new();
    let scores = cap.persistent("scores", 0x1000, 0x400);
    for name in ["a", "b", "c"] {
        cap.node(SIDE, name);
    }
    let logits = cap.node(SIDE, "logits");
    let attend = cap.node(MAIN, "attend");
    cap.all(logits, Write, scores);
    cap.all(attend, Read, scores);
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "add");
    let file = file(&cap.end(), Axis::Order);
    let beside = |name| bars(&file).into_iter().find(|bar| bar.1 == name).unwrap().2;
    assert_eq!(beside("attend"), beside("logits"));
    assert!(arrows(&file).contains(&arrow("missing join", "logits", "attend")));
    for (broken, seed) in [(0, 0), (1, 7), (5, 13)] {
        let trace = layers(6, &[broken]);
        let times: Vec<f64> = (0..trace.nodes.len())
            .map(|at| f64::from((at as u32 * 7919 + seed) % 97 + 1))
            .collect();
        for axis in [Axis::Order, Axis::Measured(&times)] {
            let file = self::file(&trace, axis);
            let missing = arrows(&file);
            assert!(missing.iter().any(|(cat, ..)| cat == "missing join"));
        }
    }
}

#[test]
fn a_stream_that_is_left_open_misses_a_join_at_the_end() {
    let mut cap = Capture::new();
    cap.node(MAIN, "main");
    cap.node(SIDE, "side");
    let mut trace = cap.end();
    trace.streams[1].end.joined = false;
    let file = file(&trace, Axis::Order);
    assert_eq!(
        arrows(&file),
        [arrow("missing join", "side", "end of the capture")]
    );
}

#[test]
fn measured_times_are_drawn_and_refused_where_they_are_none() {
    let trace = layers(1, &[]);
    let mut times: Vec<f64> = (1..=trace.nodes.len()).map(|at| at as f64).collect();
    let drawn = file(&trace, Axis::Measured(&times));
    let lengths: Vec<f64> = events(&drawn, "X")
        .iter()
        .map(|bar| bar["dur"].as_f64().unwrap())
        .collect();
    // In the order of the graph, in which these nodes were recorded.
    assert_eq!(lengths, times);
    let report = verify(&trace).unwrap();
    let refused = |times: &[f64]| {
        let refused = chrome(&trace, &report, Axis::Measured(times));
        assert!(
            matches!(refused, Err(VerifyError::Times { .. })),
            "{times:?}"
        );
    };
    refused(&times[1..]);
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        times[3] = bad;
        refused(&times);
    }
}

#[test]
fn hostile_names_are_names() {
    let (bad, plain) = (hostile(), layers(2, &[1]));
    let [bad_file, plain] = [&bad, &plain].map(|trace| file(trace, Axis::Order));
    let count = |file: &Value| file["traceEvents"].as_array().unwrap().len();
    assert_eq!(count(&bad_file), count(&plain));
    for (bar, node) in bars(&bad_file).iter().zip(&bad.nodes) {
        assert_eq!(bar.1, node.name);
    }
}

#[test]
fn a_report_of_another_trace_draws_nothing_and_a_broken_trace_has_no_file() {
    let trace = layers(2, &[1]);
    let report = verify(&trace).unwrap();
    let empty = Capture::new().end();
    let file: Value = serde_json::from_str(&chrome(&empty, &report, Axis::Order).unwrap()).unwrap();
    assert!(bars(&file).is_empty() && arrows(&file).is_empty());
    let mut broken = trace;
    broken.edges[0].to = NodeId(999);
    let refused = chrome(&broken, &report, Axis::Order);
    assert!(matches!(refused, Err(VerifyError::Malformed(_))));
}
