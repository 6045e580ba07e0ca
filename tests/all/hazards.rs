//! The proof end to end: what a capture with a hazard says, and what the pool
//! policies do to the story that this library exists for.

mod each;

use streamweir::driver::sim::SimDriver;
use streamweir::trace::BufferKind;
use streamweir::verify::{Rule, Verdict};
use streamweir::{Capture, CaptureOptions, Device, Error, Graph, Persistent, Policy, Verify};

use crate::common::{Kernels, LEN, N, SMALL, bump, plus};

#[test]
fn a_missing_join_is_refused_and_told_in_full() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let mut lines = [0; 3];
    let error = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "indexer")?;
            side.fill(&y, 0)?;
            let scores = side.scratch::<u32>("scores", LEN)?;
            let indexer = side.scope("layer 2").scope("indexer");
            let attention = main.scope("layer 2/attention");
            lines[0] = line!();
            indexer.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: &scores,
                    more: 1,
                    len: N,
                },
            )?;
            lines[1] = line!();
            attention.launch(
                &kernels.bump,
                bump {
                    data: &scores,
                    len: N,
                },
            )?;
            lines[2] = line!();
            cap.join(&main, side).map(drop)
        })
        .unwrap_err();
    let report = error.report().expect("the capture is refused");
    assert_eq!(report.verdict, Verdict::Hazard);
    let rules: Vec<Rule> = report.hazards.iter().map(|h| h.rule).collect();
    assert!(rules.contains(&Rule::UnorderedConflict), "{report}");
    assert!(rules.contains(&Rule::OwnerGone), "{report}");
    let text = error.to_string();
    for word in [
        "\"decode\"",
        "R1",
        "R4",
        "plus",
        "bump",
        "layer 2/indexer",
        "layer 2/attention",
        "indexer",
        "main",
        "scores",
    ] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    let race = &report.hazards[0];
    assert_eq!(race.rule, Rule::UnorderedConflict);
    for (site, between) in [
        (Some(&race.first), lines[0]..lines[1]),
        (race.second.as_ref(), lines[1]..lines[2]),
    ] {
        let launch = site.and_then(|s| s.launch.as_ref()).expect("a launch line");
        assert!(between.contains(&launch.line), "{launch:?}");
        assert!(
            text.contains(&format!("hazards.rs:{}", launch.line)),
            "{text}"
        );
    }
}

#[test]
fn scratch_that_nothing_wrote() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let error = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(&kernels.bump, bump { data: &a, len: N })
        })
        .unwrap_err();
    let report = error.report().expect("the capture is refused");
    assert_eq!(report.hazards[0].rule, Rule::ReadBeforeWrite, "{report}");
}

/// ```text
/// main     W a ---- drop a ---- W b - W c ----- R c
///              \                            /
/// side          R a - R a - R a -----------
/// ```
///
/// `b` has the size of `a`, so a pool that looks at host calls alone puts it
/// where `side` still reads.
struct Story {
    device: Device,
    x: Persistent<u32>,
    y: Persistent<u32>,
    z: Persistent<u32>,
    kernels: Kernels,
}

/// What an engine can do that stays with one pool in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// Keep what the side stream uses until it has been joined.
    HoldToJoin,
    /// Join the side stream before memory is taken again, which gives the overlap
    /// up.
    JoinFirst,
}

impl Story {
    const Y: [u32; 4] = [12, 13, 14, 15];
    const Z: [u32; 4] = [101, 102, 103, 104];

    fn new(driver: std::sync::Arc<SimDriver>) -> Self {
        let device = Device::with_driver(driver);
        Self {
            x: device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            z: device.persistent("z", LEN).unwrap(),
            kernels: Kernels::load(&device).unwrap(),
            device,
        }
    }

    fn record(&self, cap: &Capture, repair: Option<Repair>) -> Result<(), Error> {
        let Kernels { plus, .. } = &self.kernels;
        let main = cap.origin();
        let a = main.scratch::<u32>("a", LEN)?;
        main.launch(
            plus,
            plus {
                input: &self.x,
                output: &a,
                more: 10,
                len: N,
            },
        )?;
        let side = cap.fork(&main, "side")?;
        side.launch(
            plus,
            plus {
                input: &a,
                output: &self.y,
                more: 1,
                len: N,
            },
        )?;
        let held = (repair == Some(Repair::HoldToJoin)).then_some(a);
        let side = match repair {
            Some(Repair::JoinFirst) => {
                cap.join(&main, side)?;
                None
            }
            _ => Some(side),
        };
        let b = main.scratch::<u32>("b", LEN)?;
        main.launch(
            plus,
            plus {
                input: &self.x,
                output: &b,
                more: 100,
                len: N,
            },
        )?;
        if let Some(side) = side {
            cap.join(&main, side)?;
        }
        drop(held);
        main.launch(
            plus,
            plus {
                input: &b,
                output: &self.z,
                more: 0,
                len: N,
            },
        )
    }

    fn capture(&self, options: CaptureOptions, repair: Option<Repair>) -> Graph {
        self.device
            .capture::<_, Error>(options, |cap| self.record(cap, repair))
            .unwrap()
            .0
    }
}

/// How many of 200 replays under as many seeds give wrong bits.
fn wrong(options: CaptureOptions, repair: Option<Repair>) -> (Graph, usize) {
    let driver = SimDriver::new(0);
    let story = Story::new(driver.clone());
    let graph = story.capture(options, repair);
    let stream = story.device.stream("replay").unwrap();
    let wrong = (0..200)
        .filter(|&seed| {
            driver.reseed(seed);
            graph.replay(&stream).unwrap();
            story.y.download().unwrap() != Story::Y || story.z.download().unwrap() != Story::Z
        })
        .count();
    (graph, wrong)
}

#[test]
fn a_pool_in_host_order_gives_wrong_bits() {
    // SAFETY: nothing relies on the results, and no kernel computes addresses.
    let options = unsafe { CaptureOptions::new("story").host_order_pools() };
    let (graph, wrong) = wrong(options.verify(Verify::Report), None);
    assert!(wrong > 0, "no interleaving showed the hazard");
    assert!(graph.certificate().is_none());
    let report = graph.report();
    assert_eq!(report.verdict, Verdict::Hazard);
    let shared = report
        .hazards
        .iter()
        .find(|h| h.rule == Rule::SharedBytes)
        .unwrap_or_else(|| panic!("no R2 in {report}"));
    let names: Vec<&str> = shared.buffers.iter().map(|b| &*b.name).collect();
    assert_eq!(names, ["a", "b"]);

    let driver = SimDriver::new(0);
    let story = Story::new(driver);
    // SAFETY: nothing is captured that could be replayed.
    let options = unsafe { CaptureOptions::new("story").host_order_pools() };
    let refused = story
        .device
        .capture::<_, Error>(options, |cap| story.record(cap, None))
        .unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");

    // Safe code does not get such pools.
    let options = CaptureOptions::new("story").policy(Policy::HOST_ORDER);
    let captured = story.device.capture::<(), Error>(options, |_| Ok(()));
    let error = captured.map(drop).unwrap_err();
    assert!(matches!(error, Error::HostOrder { .. }), "{error}");
    let options = CaptureOptions::new("story").policy(Policy::HOST_ORDER);
    let run = story.device.eager::<(), Error>(options, |_| Ok(()));
    assert!(matches!(run.map(drop), Err(Error::HostOrder { .. })));
}

#[test]
fn isolated_and_ordered_pools_give_right_bits() {
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let (graph, wrong) = wrong(CaptureOptions::new("story").policy(policy), None);
        assert_eq!(wrong, 0, "{policy}");
        let certificate = graph.certificate().expect("safe");
        streamweir::verify::certificate::check(graph.trace(), certificate).unwrap();
    }
}

#[test]
fn either_repair_of_a_pool_in_host_order_gives_right_bits() {
    // SAFETY: as above.
    let options = unsafe { CaptureOptions::new("story").host_order_pools() };
    for repair in [Repair::HoldToJoin, Repair::JoinFirst] {
        let (graph, wrong) = wrong(options.clone(), Some(repair));
        assert_eq!(wrong, 0, "{repair:?}");
        assert!(graph.certificate().is_some(), "{repair:?}");
    }
}

/// Layers that each fork, work on the side, and join: with a join between, the
/// pool of one stream could serve the other.
fn layers(
    cap: &Capture,
    kernels: &Kernels,
    x: &Persistent<u32>,
    y: &Persistent<u32>,
) -> Result<(), Error> {
    let main = cap.origin();
    for layer in 0..4 {
        let name = if layer % 2 == 0 { "even" } else { "odd" };
        let side = cap.fork(&main, name)?;
        let a = side.scratch::<u32>("a", LEN)?;
        side.launch(
            &kernels.plus,
            plus {
                input: x,
                output: &a,
                more: layer,
                len: N,
            },
        )?;
        cap.join(&main, side)?;
        let b = main.scratch::<u32>("b", LEN)?;
        main.launch(
            &kernels.plus,
            plus {
                input: &a,
                output: &b,
                more: 1,
                len: N,
            },
        )?;
        main.launch(
            &kernels.plus,
            plus {
                input: &b,
                output: y,
                more: 1,
                len: N,
            },
        )?;
    }
    Ok(())
}

#[test]
fn ordered_pools_share_bytes_across_streams_after_a_join() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let stream = device.stream("replay").unwrap();
    let [isolated, ordered] = [Policy::ISOLATED, Policy::ORDERED].map(|policy| {
        let options = CaptureOptions::new("layers").policy(policy).arena(SMALL);
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| layers(cap, &kernels, &x, &y))
            .unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(y.download().unwrap(), [6, 7, 8, 9], "{policy}");
        assert!(graph.certificate().is_some());
        graph
    });
    let ranges = |graph: &Graph, tag: &str| -> Vec<_> {
        let trace = graph.trace();
        let of_tag = |b: &&streamweir::trace::Buffer| {
            matches!(b.kind, BufferKind::Scratch { .. })
                && b.stream()
                    .is_some_and(|s| trace.streams[s.index()].tag == tag)
        };
        trace
            .buffers
            .iter()
            .filter(of_tag)
            .map(|b| b.range)
            .collect()
    };
    let meet = |graph: &Graph| {
        let odd = ranges(graph, "odd");
        assert_eq!(odd.len(), 2);
        ranges(graph, "even")
            .iter()
            .any(|range| odd.contains(range))
    };
    assert!(!meet(&isolated), "the pools of two tags are disjoint");
    assert!(meet(&ordered), "after the join the bytes are used again");
    assert!(ordered.pools().reserved < isolated.pools().reserved);
}
