//! A driver that says something else than what it captured (invariant 5): the
//! capture is refused, and the report names what differs.

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::lying::{Lie, LyingDriver};
use streamweir::verify::{Rule, Verdict};
use streamweir::{Capture, CaptureOptions, Device, Error, Persistent, Verify};

use crate::common::{Kernels, LEN, N, bump, plus, sum};

struct Bench {
    lying: std::sync::Arc<LyingDriver>,
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

impl Bench {
    fn new() -> Self {
        let lying = LyingDriver::new(SimDriver::new(1), None);
        let device = Device::with_driver(lying.clone());
        Self {
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            device,
            lying,
        }
    }

    /// ```text
    /// side   0 plus - 1 bump
    ///                        \
    /// main   2 fill --------- 3 sum - 4 copy
    /// ```
    fn record(&self, cap: &Capture) -> Result<(), Error> {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let b = side.scratch::<u32>("b", LEN)?;
        side.launch(
            &self.kernels.plus,
            plus {
                input: &self.x,
                output: &b,
                more: 1,
                len: N,
            },
        )?;
        side.launch(&self.kernels.bump, bump { data: &b, len: N })?;
        let a = main.scratch::<u32>("a", LEN)?;
        main.fill(&a, 0)?;
        cap.join(&main, side)?;
        let c = main.scratch::<u32>("c", LEN)?;
        main.launch(
            &self.kernels.sum,
            sum {
                left: &a,
                right: &b,
                output: &c,
                len: N,
            },
        )?;
        main.copy(&self.y, &c)
    }
}

fn lies() -> Vec<(Lie, &'static str)> {
    let mut lies = vec![
        (Lie::HideNode(0), "plus"),
        (Lie::HideNode(4), "copy"),
        (Lie::RepeatNode(1), "bump"),
        (
            Lie::SwapFunction {
                node: 3,
                function: "other".into(),
            },
            "other",
        ),
        (Lie::GrowGrid(0), "plus"),
        (
            Lie::MoveTarget {
                node: 2,
                bytes: 256,
            },
            "fill",
        ),
        (Lie::MoveTarget { node: 4, bytes: 4 }, "copy"),
        (Lie::Cooperate(0), "launch"),
        (Lie::AddRow(2), "rows"),
        (Lie::AddRow(4), "rows"),
        (
            Lie::AddParam {
                node: 0,
                bytes: vec![1; 8],
            },
            "plus",
        ),
        (Lie::CallEmpty(1), "bump"),
        (Lie::CallEmpty(2), "fill"),
    ];
    for param in 0..4 {
        let xor = 0x100;
        lies.push((
            Lie::AlterParam {
                node: 3,
                param,
                xor,
            },
            "sum",
        ));
    }
    lies.extend((0..4).map(|edge| (Lie::DropEdge(edge), "edge")));
    lies.extend((0..4).map(|edge| (Lie::TurnEdge(edge), "edge")));
    lies.extend((0..4).map(|edge| (Lie::LoosenEdge(edge), "edge")));
    lies
}

#[test]
fn an_honest_driver_is_believed() {
    let bench = Bench::new();
    let (graph, ()) = bench
        .device
        .capture::<_, Error>("decode", |cap| bench.record(cap))
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 5);
    assert_eq!(graph.trace().edges.len(), 4);
    assert!(graph.certificate().is_some());
}

#[test]
fn every_lie_is_refused_by_name() {
    let bench = Bench::new();
    for (lie, word) in lies() {
        bench.lying.tell(Some(lie.clone()));
        let error = bench
            .device
            .capture::<_, Error>("decode", |cap| bench.record(cap))
            .map(drop)
            .expect_err(&format!("{lie:?} was believed"));
        let report = error
            .report()
            .unwrap_or_else(|| panic!("{lie:?} is no report but {error}"));
        assert_eq!(report.verdict, Verdict::Hazard, "{lie:?}");
        assert!(
            report
                .hazards
                .iter()
                .any(|h| h.rule == Rule::Reconciliation),
            "{lie:?}: {report}"
        );
        let text = report.to_string();
        assert!(text.contains(word), "{lie:?}: {word} is not in\n{text}");

        // Asked to report only, it makes the graph, without a proof.
        let options = CaptureOptions::new("decode").verify(Verify::Report);
        let (graph, ()) = bench
            .device
            .capture::<_, Error>(options, |cap| bench.record(cap))
            .unwrap_or_else(|error| panic!("{lie:?}: {error}"));
        assert_eq!(graph.report().verdict, Verdict::Hazard, "{lie:?}");
        assert!(graph.certificate().is_none());

        bench.lying.tell(None);
        bench
            .device
            .capture::<_, Error>("decode", |cap| bench.record(cap))
            .unwrap();
    }
}

/// ```text
/// main   0 fill ------------ 2 bump
///               \          /
/// side           1 bump --
/// ```
#[test]
fn an_edge_that_orders_nothing_new_may_be_missing() {
    let bench = Bench::new();
    let record = |cap: &Capture| {
        let main = cap.origin();
        main.fill(&bench.y, 0)?;
        let side = cap.fork(&main, "side")?;
        side.launch(
            &bench.kernels.bump,
            bump {
                data: &bench.y,
                len: N,
            },
        )?;
        cap.join(&main, side)?;
        main.launch(
            &bench.kernels.bump,
            bump {
                data: &bench.y,
                len: N,
            },
        )
    };
    let believed = [0, 1, 2].map(|edge| {
        bench.lying.tell(Some(Lie::DropEdge(edge)));
        bench.device.capture::<_, Error>("decode", record).is_ok()
    });
    assert_eq!(believed.iter().filter(|b| **b).count(), 1, "{believed:?}");
}
