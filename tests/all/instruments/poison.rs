use streamweir::trace::{NodeId, NodeKind, Trace};
use streamweir::verify::{Rule, Verdict};
use streamweir::{Capture, CaptureOptions, Device, EngineError, Error, Persistent, Poison, Policy};

use super::{Story, host_order};
use crate::common::{Kernels, LEN, N, SMALL, plus, sum};

/// The fills of an instrument: buffer, stream, scope of each.
fn poisoned(trace: &Trace) -> Vec<(String, String, String)> {
    let nodes = trace.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| node.name == "poison")
        .map(|(at, node)| {
            let NodeKind::Memset(fill) = &node.kind else {
                panic!("{node:?}");
            };
            let access = trace.accesses.iter();
            let access = access.filter(|access| access.node == NodeId::at(at));
            let [access] = access.collect::<Vec<_>>()[..] else {
                panic!("a fill has one access: {node:?}");
            };
            let buffer = trace.buffer(access.buffer);
            let filled = (fill.to, fill.to + fill.bytes);
            let bytes = (buffer.range.start, buffer.range.end);
            assert_eq!(filled, bytes, "all of it is filled");
            let stream = node.stream.map(|id| trace.streams[id.index()].name.clone());
            let scope = node.scope.map(|id| trace.scopes[id.index()].clone());
            (
                buffer.name.clone(),
                stream.unwrap(),
                scope.unwrap_or_default(),
            )
        })
        .collect()
}

fn named(of: &[(String, String, String)]) -> Vec<(&str, &str, &str)> {
    of.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect()
}

struct Chain {
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

impl Chain {
    fn new() -> Self {
        let device = Device::sim(7);
        Self {
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent_from("x", &[1, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            device,
        }
    }

    /// `first` is dropped where a buffer of the same size follows, on main and on
    /// a side stream.
    fn record(&self, cap: &Capture) -> Result<(), Error> {
        let plus = &self.kernels.plus;
        let main = cap.origin();
        let held = main.workspace("held", 64)?;
        main.fill(&held, 0)?;
        let first = main.scratch::<u32>("first", LEN)?;
        main.launch(
            plus,
            plus {
                input: &self.x,
                output: &first,
                more: 1,
                len: N,
            },
        )?;
        let side = cap.fork(&main, "side")?.scope("layer 3");
        let early = side.scratch::<u32>("early", LEN)?;
        side.launch(
            plus,
            plus {
                input: &first,
                output: &early,
                more: 1,
                len: N,
            },
        )?;
        let sum = side.scratch::<u32>("sum", LEN)?;
        side.launch(
            &self.kernels.sum,
            sum {
                left: &early,
                right: &early,
                output: &sum,
                len: N,
            },
        )?;
        drop(early);
        let late = side.scratch::<u32>("late", LEN)?;
        side.launch(
            plus,
            plus {
                input: &sum,
                output: &late,
                more: 1,
                len: N,
            },
        )?;
        cap.join(&main, side)?;
        drop(first);
        let second = main.scratch::<u32>("second", LEN)?;
        main.launch(
            plus,
            plus {
                input: &late,
                output: &second,
                more: 1,
                len: N,
            },
        )?;
        main.launch(
            plus,
            plus {
                input: &second,
                output: &self.y,
                more: 0,
                len: N,
            },
        )
    }

    /// `2 (x + 1 + 1) + 1 + 1`.
    const Y: [u32; 4] = [8, 10, 12, 14];
}

#[test]
fn without_it_there_is_no_node() {
    let chain = Chain::new();
    let capture = |options: CaptureOptions| {
        let record = |cap: &Capture| chain.record(cap);
        let (graph, ()) = chain.device.capture::<_, Error>(options, record).unwrap();
        (graph.trace().nodes.len(), poisoned(graph.trace()))
    };
    let plain = capture(CaptureOptions::new("plain"));
    let off = capture(CaptureOptions::new("off").poison(Poison::Off));
    // Seven launches and fills of its own.
    assert_eq!((plain.0, off.0), (7, 7));
    assert_eq!((plain.1, off.1), (vec![], vec![]));
}

#[test]
fn bytes_that_are_used_again_are_filled_on_the_stream_of_their_new_owner() {
    let chain = Chain::new();
    let options = CaptureOptions::new("reused").poison(Poison::Reused);
    let record = |cap: &Capture| chain.record(cap);
    let (graph, ()) = chain.device.capture::<_, Error>(options, record).unwrap();
    assert_eq!(
        named(&poisoned(graph.trace())),
        [("late", "side", "layer 3"), ("second", "main", "")]
    );
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
    let launch = graph.trace().nodes.iter().find(|n| n.name == "poison");
    let line = launch.and_then(|node| node.launch.as_ref()).unwrap();
    assert!(line.file.ends_with("poison.rs"), "{line:?}");
    let stream = chain.device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(chain.y.download().unwrap(), Chain::Y);

    chain.y.upload(&[0; LEN]).unwrap();
    let options = CaptureOptions::new("eager").poison(Poison::Reused);
    let (run, ()) = chain.device.eager::<_, Error>(options, record).unwrap();
    assert_eq!(poisoned(run.trace()).len(), 2);
    assert_eq!(chain.y.download().unwrap(), Chain::Y);
}

/// All of it, also where the plan decides later what is used again; but never what
/// a library holds.
#[test]
fn every_scratch_buffer_is_filled_live_and_planned() {
    let chain = Chain::new();
    let record = |cap: &Capture| chain.record(cap);
    for options in [
        CaptureOptions::new("live"),
        CaptureOptions::new("planned")
            .planned()
            .policy(Policy::ORDERED),
    ] {
        let options = options.arena(SMALL).poison(Poison::Every);
        let (graph, ()) = chain.device.capture::<_, Error>(options, record).unwrap();
        let mut filled = poisoned(graph.trace());
        filled.sort();
        assert_eq!(
            named(&filled),
            [
                ("early", "side", "layer 3"),
                ("first", "main", ""),
                ("late", "side", "layer 3"),
                ("second", "main", ""),
                ("sum", "side", "layer 3"),
            ]
        );
        assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
        chain.y.upload(&[0; LEN]).unwrap();
        let stream = chain.device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(chain.y.download().unwrap(), Chain::Y);
    }
    let options = CaptureOptions::new("planned").planned();
    let options = options.poison(Poison::Reused);
    let error = chain
        .device
        .capture::<_, Error>(options.clone(), record)
        .unwrap_err();
    assert!(
        matches!(&error, Error::Unplannable { capture, .. } if capture == "planned"),
        "{error}"
    );
    // An eager run is live in any case.
    let (run, ()) = chain.device.eager::<_, Error>(options, record).unwrap();
    assert_eq!(poisoned(run.trace()).len(), 2);
}

/// What nobody has written is what it was filled with.
#[test]
fn the_fill_is_there_for_the_first_kernel() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let options = CaptureOptions::new("unwritten").poison(Poison::Every);
    let (graph, ()) = device
        .capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: &y,
                    more: 0,
                    len: N,
                },
            )
        })
        .unwrap();
    graph.replay(&device.stream("replay").unwrap()).unwrap();
    assert_eq!(y.download().unwrap(), [u32::MAX; LEN]);
}

/// Both owners of the bytes have the same values, so nothing shows the race but
/// poison.
#[test]
fn a_hidden_race_of_a_pool_in_host_order_gets_loud() {
    let story = Story::new(10);
    let hidden = story.capture(host_order());
    assert!(hidden.report().hazards_total > 0);
    assert!((0..50).all(|seed| !story.goes_wrong(&hidden, seed)));

    let loud = story.capture(host_order().poison(Poison::Reused));
    let wrong = (0..50).filter(|&seed| story.goes_wrong(&loud, seed));
    assert!(wrong.count() > 0, "no interleaving showed the hazard");
    // When the host drops `a`, and at the end what it holds then.
    let filled = poisoned(loud.trace());
    assert_eq!(
        named(&filled)[0],
        ("a", "main", "layer 0"),
        "before `b` has its bytes"
    );
    assert_eq!(filled.len(), 3, "{filled:?}");
    let report = loud.report();
    let found = report.hazards.iter().any(|hazard| {
        let kernels = [Some(&hazard.first), hazard.second.as_ref()].map(|site| {
            let site = site.expect("a race is of two");
            (site.name.as_str(), site.stream.as_deref())
        });
        hazard.rule == Rule::UnorderedConflict
            && hazard.buffers.iter().any(|buffer| buffer.name == "a")
            && kernels.contains(&("poison", Some("main")))
            && kernels.contains(&("plus", Some("side")))
    });
    assert!(found, "{report}");
    // The reuse is as it was.
    let bytes = |trace: &Trace, name: &str| {
        let found = trace.buffers.iter().find(|buffer| buffer.name == name);
        found.map(|buffer| buffer.range).unwrap()
    };
    for graph in [&hidden, &loud] {
        assert_eq!(bytes(graph.trace(), "a"), bytes(graph.trace(), "b"));
    }
}

/// Of one stream even that pool is right, and poison does not make it wrong.
#[test]
fn one_stream_in_host_order_stays_right() {
    let story = Story::new(20);
    let options = host_order().poison(Poison::Every);
    let record = |cap: &Capture| story.record(cap, false);
    let (graph, ()) = story.device.capture::<_, Error>(options, record).unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
    assert!((0..20).all(|seed| !story.goes_wrong(&graph, seed)));
}

#[test]
fn a_drop_on_another_thread_is_filled_by_the_next_call() {
    let story = Story::new(10);
    let record = |cap: &Capture| {
        story.record_with(cap, true, |a| {
            std::thread::spawn(move || drop(a)).join().unwrap();
        })
    };
    let options = host_order().poison(Poison::Reused);
    let (graph, ()) = story.device.capture::<_, Error>(options, record).unwrap();
    assert_eq!(named(&poisoned(graph.trace()))[0], ("a", "main", "layer 0"));
}

/// A drop between the last call and a failure, and one after the end.
#[test]
fn drops_around_the_end_leave_nothing_behind() {
    let story = Story::new(10);
    let options = || host_order().poison(Poison::Reused);
    let mut late = None;
    let (graph, ()) = story
        .device
        .capture::<_, Error>(options(), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &story.kernels.plus,
                plus {
                    input: &story.x,
                    output: &a,
                    more: 10,
                    len: N,
                },
            )?;
            late = Some(a);
            Ok(())
        })
        .unwrap();
    drop(late);
    assert_eq!(poisoned(graph.trace()), []);
    drop(graph);
    let failed = story.device.capture::<(), Error>(options(), |cap| {
        drop(cap.origin().scratch::<u32>("a", LEN)?);
        Err(Error::Engine(EngineError::NotCapturing {
            stream: "nothing".into(),
        }))
    });
    assert!(failed.is_err());
    story.device.synchronize().unwrap();
    let again = story.capture(options());
    assert!(again.report().hazards_total > 0);
}
