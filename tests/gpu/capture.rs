//! Captures, proofs and replays.

use libtest_mimic::Failed;
use streamweir::driver::testing::lying::{Lie, LyingDriver};
use streamweir::driver::{CaptureMode, EventScope};
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::add_one;
use streamweir::verify::Verdict;
use streamweir::{ArenaConfig, CaptureOptions, Device, Error, Policy, Verify, updates};

use super::program::{LEN, Program};
use super::{Outcome, Test, ensure, refused};

pub(crate) const TESTS: &[Test] = &[
    ("two_streams_are_proven_and_right", two_streams),
    ("eager_and_captured_runs_agree", eager),
    ("a_missing_join_is_refused", missing_join),
    ("a_driver_that_lies_is_caught", lies),
    ("replays_from_two_threads_take_turns", two_threads),
    ("a_group_reserves_what_its_largest_graph_needs", group),
    (
        "a_graph_dropped_in_flight_is_released_later",
        dropped_in_flight,
    ),
    ("the_arena_grows_inside_a_capture", growth),
    ("an_external_event_orders_a_replay", external_events),
    ("copies_in_a_graph_go_both_ways_and_are_refilled", pinned),
    ("a_foreign_call_is_attributed", foreign),
    ("the_graph_is_the_one_made_by_hand", by_hand),
];

fn two_streams(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let graph = program.capture(device, "two streams")?;
    ensure(graph.report().verdict == Verdict::Safe, || {
        graph.report().to_string()
    })?;
    ensure(graph.certificate().is_some(), || "no certificate".into())?;
    let stream = device.stream("replay")?;
    graph.upload(&stream)?;
    for replay in 0..100 {
        program.left.upload(&[0; LEN])?;
        graph.replay(&stream)?;
        ensure(program.check()?, || format!("replay {replay} is wrong"))?;
    }
    Ok(())
}

fn eager(device: &Device, image: &Image) -> Outcome {
    let module = image.load(device)?;
    let bump = module.kernel::<add_one>()?;
    let data = device.persistent::<u32>("data", LEN)?;
    let record = |cap: &streamweir::Capture| -> Result<(), Error> {
        let main = cap.origin();
        let side = cap.fork_if(true, &main, "side")?;
        side.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )?;
        cap.join(&main, side)?;
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )
    };
    let (run, ()) = device.eager("eager", record)?;
    ensure(run.report().verdict == Verdict::Safe, || {
        run.report().to_string()
    })?;
    ensure(data.download()?.iter().all(|&v| v == 2), || {
        "the eager run is wrong".into()
    })?;
    let (graph, ()) = device.capture("captured", record)?;
    graph.replay(&device.stream("replay")?)?;
    ensure(data.download()?.iter().all(|&v| v == 4), || {
        "the replay is wrong".into()
    })
}

fn pinned(device: &Device, image: &Image) -> Outcome {
    let module = image.load(device)?;
    let bump = module.kernel::<add_one>()?;
    let mut ids = device.pinned::<u32>("ids", LEN)?;
    let mut tokens = device.pinned::<u32>("tokens", LEN)?;
    let options = CaptureOptions::new("copies").verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, Error>(options, |cap| {
        let main = cap.origin();
        let [data, kept] = ["data", "kept"].map(|name| main.scratch::<u32>(name, LEN));
        let (data, kept) = (data?, kept?);
        main.upload(&data, &ids)?;
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )?;
        main.copy(&kept, &data)?;
        main.download(&mut tokens, &kept)
    })?;
    let streams = [device.stream("a")?, device.stream("b")?];
    for step in 0..200_u32 {
        ids.hold()?.fill(step);
        graph.replay(&streams[step as usize % 2])?;
        let found = tokens.hold()?;
        ensure(found.iter().all(|&value| value == step + 1), || {
            format!("step {step} is wrong")
        })?;
        ensure(graph.replay(&streams[0]).is_err(), || {
            "replayed under the host's hands".into()
        })?;
    }
    Ok(())
}

fn missing_join(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let refused = refused(
        device.capture("missing join", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.launch(
                &program.bump,
                add_one {
                    data: &program.left,
                    len: LEN as u32,
                },
            )?;
            main.launch(
                &program.bump,
                add_one {
                    data: &program.left,
                    len: LEN as u32,
                },
            )?;
            cap.join(&main, side)?;
            Ok::<(), Error>(())
        }),
        "a race",
    )?;
    let report = refused
        .report()
        .ok_or_else(|| Failed::from(format!("{refused}")))?;
    ensure(report.hazards[0].rule.code() == "R1", || report.to_string())
}

fn lies(_: &Device, image: &Image) -> Outcome {
    let liar = LyingDriver::new(crate::driver()?, None);
    let device = Device::with_driver(liar.clone());
    let program = Program::prepare(&device, image)?;
    for lie in [
        Lie::DropEdge(2),
        Lie::TurnEdge(2),
        Lie::HideNode(1),
        Lie::AlterParam {
            node: 0,
            param: 0,
            xor: 256,
        },
        Lie::GrowGrid(1),
        Lie::CallEmpty(1),
    ] {
        liar.tell(Some(lie.clone()));
        let error = refused(program.capture(&device, "lie"), &format!("{lie:?}"))?;
        ensure(
            error.report().is_some() || matches!(error, Error::Unverifiable { .. }),
            || format!("{lie:?}: {error}"),
        )?;
    }
    liar.tell(None);
    program.capture(&device, "truth")?;
    Ok(())
}

fn two_threads(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let group = device.replay_group("shared", ArenaConfig::default());
    let options = |name| CaptureOptions::new(name).group(&group);
    let graphs = [
        program.capture(device, options("one"))?,
        program.capture(device, options("two"))?,
    ];
    std::thread::scope(|scope| {
        let threads: Vec<_> = graphs
            .iter()
            .map(|graph| {
                scope.spawn(move || {
                    let stream = device.stream("thread")?;
                    (0..500).try_for_each(|_| graph.replay(&stream))
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    ensure(program.check()?, || "the result is wrong".into())
}

fn group(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let group = device.replay_group("buckets", ArenaConfig::default());
    let first = program.capture(device, CaptureOptions::new("first").group(&group))?;
    let reserved = group.reserved();
    let second = program.capture(device, CaptureOptions::new("second").group(&group))?;
    ensure(reserved > 0 && group.reserved() == reserved, || {
        format!(
            "{reserved} bytes for one graph, {} for two",
            group.reserved()
        )
    })?;
    drop((first, second));
    device.synchronize()?;
    ensure(group.trim() == reserved, || {
        "the arena keeps what no graph uses".into()
    })
}

fn dropped_in_flight(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let graph = program.capture(device, "dropped")?;
    let stream = device.stream("replay")?;
    for _ in 0..200 {
        graph.replay(&stream)?;
    }
    drop(graph);
    ensure(device.retired() > 0, || "nothing was put aside".into())?;
    ensure(program.check()?, || "the result is wrong".into())?;
    device.synchronize()?;
    ensure(device.retired() == 0, || {
        format!("{} objects left", device.retired())
    })?;
    ensure(device.release_failures().is_empty(), || {
        "a release failed".into()
    })
}

fn growth(device: &Device, image: &Image) -> Outcome {
    let module = image.load(device)?;
    let bump = module.kernel::<add_one>()?;
    let config = ArenaConfig {
        segment_bytes: 1 << 21,
        ..ArenaConfig::default()
    };
    let (graph, ()) = device.capture(CaptureOptions::new("growth").arena(config), |cap| {
        let main = cap.origin();
        for _ in 0..8 {
            let data = main.scratch::<u32>("data", 1 << 19)?;
            main.fill(&data, 0)?;
            main.launch(
                &bump,
                add_one {
                    data: &data,
                    len: 1 << 19,
                },
            )?;
            main.keep(std::sync::Arc::new(data))?;
        }
        Ok::<(), Error>(())
    })?;
    graph.replay(&device.stream("replay")?)?;
    device.synchronize()?;
    ensure(graph.pools().reserved >= 8 << 21, || {
        graph.pools().to_string()
    })
}

fn external_events(device: &Device, image: &Image) -> Outcome {
    let module = image.load(device)?;
    let bump = module.kernel::<add_one>()?;
    let data = device.persistent::<u32>("data", LEN)?;
    let [produced, consumed] = [device.event("produced")?, device.event("consumed")?];
    let [producer, consumer] = [device.stream("producer")?, device.stream("consumer")?];
    producer.record(&produced)?;
    let (graph, ()) = device.capture("external", |cap| {
        let main = cap.origin();
        main.wait_external(&produced)?;
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )?;
        main.record_external(&consumed)
    })?;
    for _ in 0..10 {
        producer.record(&produced)?;
        graph.replay(&consumer)?;
        producer.wait(&consumed)?;
    }
    consumed.synchronize()?;
    ensure(data.download()?.iter().all(|&v| v == 10), || {
        "the result is wrong".into()
    })
}

fn foreign(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let driver = crate::driver()?;
    let bytes = (LEN * 4) as u64;
    let capture = |ordered: bool| {
        device.capture("foreign", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            // SAFETY: the two fills touch the declared buffer alone.
            unsafe {
                side.foreign("library", &[updates(&program.left)], None, |stream, at| {
                    driver
                        .fill_async(stream, at[0], 1, bytes)
                        .and_then(|()| driver.fill_async(stream, at[0], 2, bytes))
                        .map_err(|source| Error::Driver {
                            during: "filling".into(),
                            source,
                        })
                })?;
            }
            if ordered {
                cap.join(&main, side)?;
                main.copy(&program.right, &program.left)
            } else {
                main.copy(&program.right, &program.left)?;
                cap.join(&main, side).map(drop)
            }
        })
    };
    let (graph, ()) = capture(true)?;
    let named = graph
        .trace()
        .nodes
        .iter()
        .filter(|node| node.name == "library")
        .count();
    ensure(named == 2, || format!("{named} nodes are the library's"))?;
    graph.replay(&device.stream("replay")?)?;
    ensure(
        program.right.download()?.iter().all(|&v| v == 0x0202_0202),
        || "wrong".into(),
    )?;
    let error = refused(capture(false), "a race with a library")?;
    ensure(error.to_string().contains("library"), || error.to_string())
}

fn by_hand(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let ours = program.capture(
        device,
        CaptureOptions::new("ours")
            .policy(Policy::ORDERED)
            .verify(Verify::Report),
    )?;
    let driver = crate::driver()?;
    let [main, side] = [driver.stream_create(0)?, driver.stream_create(0)?];
    let event = driver.event_create(false)?;
    let (a, b) = (
        driver.mem_alloc(LEN as u64 * 4)?,
        driver.mem_alloc(LEN as u64 * 4)?,
    );
    // SAFETY: every handle and address was made above and is given up below.
    let (nodes, edges) = unsafe {
        driver.capture_begin(main, CaptureMode::ThreadLocal)?;
        driver.event_record(event, main, EventScope::Internal)?;
        driver.stream_wait(side, event, EventScope::Internal)?;
        let bytes = LEN as u64 * 4;
        for (stream, at, count) in [(side, b, 2), (main, a, 3)] {
            for _ in 0..count {
                driver.fill_async(stream, at, 1, bytes)?;
            }
        }
        driver.event_record(event, side, EventScope::Internal)?;
        driver.stream_wait(main, event, EventScope::Internal)?;
        driver.fill_async(main, a, 2, bytes)?;
        driver.fill_async(main, b, 2, bytes)?;
        let graph = driver.capture_end(main)?;
        let counts = (
            driver.graph_nodes(graph)?.len(),
            driver.graph_edges(graph)?.len(),
        );
        driver.graph_destroy(graph)?;
        driver.event_destroy(event)?;
        driver.stream_destroy(main)?;
        driver.stream_destroy(side)?;
        driver.mem_free(a)?;
        driver.mem_free(b)?;
        counts
    };
    let trace = ours.trace();
    ensure(
        (trace.nodes.len(), trace.edges.len()) == (nodes, edges),
        || {
            format!(
                "ours has {} nodes and {} edges, the one by hand {nodes} and {edges}",
                trace.nodes.len(),
                trace.edges.len()
            )
        },
    )
}
