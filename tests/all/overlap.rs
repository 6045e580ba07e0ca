//! One code path for overlap on and off, for captured and eager, for closure
//! and `begin`/`end`.

use streamweir::trace::NodeId;
use streamweir::verify::Verdict;
use streamweir::{Capture, Device, Error, Graph, Persistent};

use crate::common::{Kernels, LEN, N, NOTHING, bump, live, plus, sim, sum};

struct Bench {
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

const Y: [u32; 4] = [
    1 + 12 + 1 + 5,
    2 + 12 + 2 + 5,
    3 + 12 + 3 + 5,
    4 + 12 + 4 + 5,
];

impl Bench {
    fn new(device: &Device) -> Self {
        Self {
            kernels: Kernels::load(device).unwrap(),
            x: device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
        }
    }

    /// ```text
    /// main            plus b ----- sum
    ///      \                     /
    /// side  plus a - plus c ----
    /// ```
    fn record(&self, cap: &Capture, overlap: bool) -> Result<(), Error> {
        let main = cap.origin().scope("layer 0");
        let side = cap.fork_if(overlap, &main, "side")?.scope("layer 0/side");
        let a = side.scratch::<u32>("a", LEN)?;
        side.launch(
            &self.kernels.plus,
            plus {
                input: &self.x,
                output: &a,
                more: 10,
                len: N,
            },
        )?;
        let c = side.scratch::<u32>("c", LEN)?;
        side.launch(
            &self.kernels.plus,
            plus {
                input: &a,
                output: &c,
                more: 2,
                len: N,
            },
        )?;
        let b = main.scratch::<u32>("b", LEN)?;
        main.launch(
            &self.kernels.plus,
            plus {
                input: &self.x,
                output: &b,
                more: 5,
                len: N,
            },
        )?;
        let seen = cap.join(&main, side)?;
        main.launch(
            &self.kernels.sum,
            sum {
                left: &b,
                right: seen.see(&c),
                output: &self.y,
                len: N,
            },
        )
    }

    fn clear(&self) {
        self.y.upload(&[0; LEN]).unwrap();
    }
}

#[test]
fn overlap_on_and_off_give_the_same_bits() {
    let device = Device::sim(5);
    let bench = Bench::new(&device);
    let stream = device.stream("replay").unwrap();
    let [on, off] = [true, false].map(|overlap| {
        bench.clear();
        let (graph, ()) = device
            .capture::<_, Error>("decode", |cap| bench.record(cap, overlap))
            .unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(bench.y.download().unwrap(), Y, "overlap {overlap}");
        assert!(graph.certificate().is_some());
        graph
    });
    assert_eq!(on.trace().streams.len(), 2);
    assert_eq!(off.trace().streams.len(), 1);
    assert_eq!(on.trace().nodes.len(), off.trace().nodes.len());
    let scopes = |graph: &Graph| {
        let trace = graph.trace();
        let ids = (0..trace.nodes.len()).map(NodeId::at);
        let scopes = ids.map(|node| trace.scope_of(node).map(str::to_owned));
        scopes.collect::<Vec<_>>()
    };
    assert_eq!(scopes(&on), scopes(&off), "work has one name");
    let (n, edges) = (off.trace().nodes.len(), off.trace().edges.len());
    assert_eq!(edges, n - 1, "with the overlap off it is one chain");
}

#[test]
fn an_alias_is_joined_into_its_parent() {
    let device = Device::sim(5);
    let bench = Bench::new(&device);
    device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let outer = cap.fork(&main, "outer")?;
            let inner = cap.fork_if(false, &outer, "inner")?;
            inner.launch(
                &bench.kernels.bump,
                bump {
                    data: &bench.y,
                    len: N,
                },
            )?;
            assert_eq!(inner.name(), "outer");
            cap.join(&outer, inner)?;
            // The alias ended and its parent did not.
            outer.launch(
                &bench.kernels.bump,
                bump {
                    data: &bench.y,
                    len: N,
                },
            )?;
            cap.join(&main, outer).map(drop)
        })
        .unwrap();
}

#[test]
fn an_alias_joined_into_another_stream_orders_that_stream() {
    let device = Device::sim(3);
    let bench = Bench::new(&device);
    for overlap in [true, false] {
        let captured = device.capture::<_, Error>("third stream", |cap| {
            let main = cap.origin();
            let third = cap.fork(&main, "third")?;
            let side = cap.fork_if(overlap, &main, "side")?;
            side.launch(
                &bench.kernels.plus,
                plus {
                    input: &bench.x,
                    output: &bench.y,
                    more: 1,
                    len: N,
                },
            )?;
            cap.join(&third, side)?;
            third.launch(
                &bench.kernels.bump,
                bump {
                    data: &bench.y,
                    len: N,
                },
            )?;
            cap.join(&main, third)?;
            Ok(())
        });
        let (graph, ()) = captured.unwrap();
        assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
    }
}

#[test]
fn eager_runs_give_the_bits_of_captures() {
    for seed in 0..50 {
        let (device, driver) = sim(seed);
        let bench = Bench::new(&device);
        for overlap in [true, false] {
            bench.clear();
            let (run, ()) = device
                .eager::<_, Error>("decode", |cap| bench.record(cap, overlap))
                .unwrap();
            assert_eq!(run.report().verdict, Verdict::Safe, "{}", run.report());
            assert_eq!(run.trace().nodes.len(), 4);
            assert_eq!(bench.y.download().unwrap(), Y);
        }
        drop(bench);
        device.synchronize().unwrap();
        assert!(device.trim_eager() > 0);
        device.synchronize().unwrap();
        assert_eq!(live(&driver), NOTHING);
    }
}

#[test]
fn an_eager_run_that_fails_is_waited_for() {
    let (device, driver) = sim(1);
    let bench = Bench::new(&device);
    let error = device
        .eager::<(), Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &bench.kernels.plus,
                plus {
                    input: &bench.x,
                    output: &a,
                    more: 1,
                    len: N,
                },
            )?;
            cap.fork(&main, "main").map(drop)
        })
        .unwrap_err();
    assert!(matches!(error, Error::AlreadyForked { .. }), "{error}");
    let error = device
        .eager::<(), Error>("decode", |cap| cap.fork(&cap.origin(), "side").map(drop))
        .unwrap_err();
    assert!(matches!(error, Error::Unjoined { .. }), "{error}");
    drop(bench);
    device.synchronize().unwrap();
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn an_eager_run_reports_its_hazards() {
    let device = Device::sim(1);
    let bench = Bench::new(&device);
    let (run, ()) = device
        .eager::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.fill(&bench.y, 1)?;
            main.fill(&bench.y, 2)?;
            cap.join(&main, side).map(drop)
        })
        .unwrap();
    assert_eq!(run.report().verdict, Verdict::Hazard);
    device.synchronize().unwrap();
}

#[test]
fn begin_and_end_beside_the_closure() {
    let (device, driver) = sim(1);
    let bench = Bench::new(&device);
    let capture = device.begin("decode").unwrap();
    bench.record(&capture, true).unwrap();
    let graph = capture.end().unwrap();
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(bench.y.download().unwrap(), Y);

    // Dropped before its end, it is as if it had not been.
    bench.clear();
    let before = driver.live();
    let capture = device.begin("dropped").unwrap();
    bench.record(&capture, true).unwrap();
    assert_eq!(driver.live().captures, 1);
    drop(capture);
    assert_eq!(driver.live().captures, 0);
    device.collect();
    let after = live(&driver);
    assert_eq!((after.captures, after.graphs), (0, before.graphs));
    assert_eq!(after.allocations, before.allocations);
    assert_eq!(bench.y.download().unwrap(), [0; LEN]);
    bench.record(&device.begin("again").unwrap(), true).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(bench.y.download().unwrap(), Y);
}
