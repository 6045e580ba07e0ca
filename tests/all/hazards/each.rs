//! Rules broken through the capture interface and around it, each beside its
//! nearest safe twin. Typed code cannot break most of them: foreign calls and
//! work outside of graphs can.

use streamweir::driver::MemoryCalls;
use streamweir::driver::sim::SimDriver;
use streamweir::trace::session::{Place, Session, Step};
use streamweir::trace::{BufferId, StreamId};
use streamweir::verify::session::{add_graph, mend};
use streamweir::verify::{Rule, Verdict, verify_session};
use streamweir::{CaptureOptions, Device, Error, Graph, Persistent, Policy, ReplayGroup, updates};

use crate::common::{Kernels, LEN, N, SMALL, bump, foreign, plus, sim};

const BYTES: u64 = LEN as u64 * 4;

/// main: R1 and R4 told apart by one join, and mended by it.
#[test]
fn a_join_in_time_is_all_that_is_missing() {
    for in_time in [false, true] {
        let device = Device::sim(1);
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
        let y = device.persistent::<u32>("y", LEN).unwrap();
        let result = device.capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
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
            if in_time {
                cap.join(&main, side)?;
                main.launch(&kernels.bump, bump { data: &y, len: N })
            } else {
                main.launch(&kernels.bump, bump { data: &y, len: N })?;
                cap.join(&main, side).map(drop)
            }
        });
        if in_time {
            assert!(result.unwrap().0.certificate().is_some());
            continue;
        }
        let error = result.unwrap_err();
        let report = error.report().expect("the capture is refused");
        assert_eq!(report.hazards_total, 1, "{report}");
        assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);
    }
}

/// A library that is handed the workspace of another stream.
#[test]
fn r11_the_workspace_of_another_stream() {
    for own in [false, true] {
        let (device, driver) = sim(1);
        let result = device.capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let workspace = main.workspace("main's", 16)?;
            main.fill(&workspace, 0)?;
            let side = cap.fork(&main, "side")?;
            let lent = if own {
                side.workspace("side's", 16)?
            } else {
                workspace
            };
            // SAFETY: the call fills the workspace it declares.
            unsafe {
                side.foreign::<_, Error>("gemm", &[updates(&lent)], None, |raw, addresses| {
                    driver.fill_async(raw, addresses[0], 1, 16).map_err(foreign)
                })?;
            }
            cap.join(&main, side).map(drop)
        });
        if own {
            result.unwrap();
            continue;
        }
        let error = result.unwrap_err();
        let report = error.report().expect("the capture is refused");
        assert_eq!(report.hazards_total, 1, "{report}");
        assert_eq!(report.hazards[0].rule, Rule::LibraryState, "{report}");
    }
}

/// Scratch that is taken and dropped in turn: one place is enough, and the
/// report knows what the capture takes and what it needs.
#[test]
fn r9_growth_is_reported() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let growth = |keep: bool| {
        let options = CaptureOptions::new("decode")
            .policy(Policy::ISOLATED)
            .arena(SMALL);
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let mut kept = Vec::new();
                for more in 0..8 {
                    let a = main.scratch::<u32>("a", LEN)?;
                    main.launch(
                        &kernels.plus,
                        plus {
                            input: &x,
                            output: &a,
                            more,
                            len: N,
                        },
                    )?;
                    main.launch(
                        &kernels.plus,
                        plus {
                            input: &a,
                            output: &y,
                            more: 0,
                            len: N,
                        },
                    )?;
                    if keep {
                        kept.push(a);
                    }
                }
                Ok(())
            })
            .unwrap();
        graph.report().growth[0].clone()
    };
    let (thrifty, wasteful) = (growth(false), growth(true));
    for growth in [&thrifty, &wasteful] {
        assert_eq!(growth.tag.as_deref(), Some("main"));
        assert_eq!((growth.buffers, growth.floor), (8, BYTES));
        assert!(growth.floor_exact);
        assert!(growth.reserved >= growth.peak);
    }
    assert_eq!(thrifty.peak, BYTES);
    assert_eq!(wasteful.peak, 8 * BYTES);
}

/// A replay of `y = x + 1` on one stream, and the next batch copied into `x` on
/// another.
struct Staging {
    driver: std::sync::Arc<SimDriver>,
    device: Device,
    graph: Graph,
    x: Persistent<u32>,
    y: Persistent<u32>,
    next: Persistent<u32>,
}

impl Staging {
    fn new(driver: std::sync::Arc<SimDriver>) -> Self {
        let device = Device::with_driver(driver.clone());
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent::<u32>("x", LEN).unwrap();
        let y = device.persistent::<u32>("y", LEN).unwrap();
        let next = device.persistent_from("next", &[100_u32; LEN]).unwrap();
        let (graph, ()) = device
            .capture::<_, Error>("decode", |cap| {
                cap.origin().launch(
                    &kernels.plus,
                    plus {
                        input: &x,
                        output: &y,
                        more: 1,
                        len: N,
                    },
                )
            })
            .unwrap();
        Self {
            driver,
            device,
            graph,
            x,
            y,
            next,
        }
    }

    /// What the replay computes when the copy is called right behind it.
    fn run(&self, waits: bool) -> Vec<u32> {
        let main = self.device.stream("main").unwrap();
        let stage = self.device.stream("stage").unwrap();
        let replayed = self.device.event("replayed").unwrap();
        self.x.upload(&[0; LEN]).unwrap();
        self.graph.replay(&main).unwrap();
        if waits {
            main.record(&replayed).unwrap();
            stage.wait(&replayed).unwrap();
        }
        let (to, from) = (self.x.range().start, self.next.range().start);
        // SAFETY: both buffers outlive the synchronisation below.
        unsafe {
            self.driver
                .copy_async(stage.raw(), to, from, BYTES)
                .unwrap();
        }
        self.device.synchronize().unwrap();
        self.y.download().unwrap()
    }

    /// The same as a record, without the wait.
    fn session(&self) -> Session {
        let mut session = Session::new("staging");
        let main = session.add_stream("main");
        let stage = session.add_stream("stage");
        let decode = add_graph(&mut session, self.graph.trace()).unwrap();
        let named = |name: &str, session: &Session| {
            let at = session.buffers.iter().position(|b| b.name == name);
            BufferId::at(at.unwrap())
        };
        let x = named("x", &session);
        let next = session.add_buffer("next", self.next.range());
        session.push(Step::launch("decode", main, decode));
        let (from, to) = (Place::start(next), Place::start(x));
        session.push(Step::copy("next batch", stage, from, to, BYTES));
        session
    }
}

/// R12: the record says what the device shows, and its fix is the wait that
/// makes every interleaving right.
#[test]
fn r12_the_next_batch_is_staged_too_early() {
    let driver = SimDriver::new(0);
    let staging = Staging::new(driver.clone());
    let wrong = |waits| {
        (0..100)
            .filter(|&seed| {
                driver.reseed(seed);
                staging.run(waits) != [1; LEN]
            })
            .count()
    };
    let session = staging.session();
    let report = verify_session(&session).unwrap();
    assert_eq!(report.hazards_total, 1, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::External);
    assert_eq!(report.hazards[0].bytes, staging.x.range());
    assert!(wrong(false) > 0, "no interleaving showed the hazard");

    let mended = mend(&session, &report.hazards[0].fix).unwrap();
    assert_eq!(verify_session(&mended).unwrap().verdict, Verdict::Safe);
    let names: Vec<&str> = mended.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["decode", "record", "wait", "next batch"]);
    assert_eq!(wrong(true), 0);
}

/// A graph with one scratch buffer, `a`, of the arena of `group`.
fn batch(device: &Device, kernels: &Kernels, group: &ReplayGroup, y: &Persistent<u32>) -> Graph {
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let options = CaptureOptions::new(format!("batch of {}", group.name())).group(group);
    let (graph, ()) = device
        .capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: &a,
                    more: 1,
                    len: N,
                },
            )?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: y,
                    more: 1,
                    len: N,
                },
            )
        })
        .unwrap();
    graph
}

/// R5: two graphs of one replay group share their scratch and must not be in
/// flight together; those of two groups share nothing and may.
#[test]
fn r5_two_graphs_on_two_streams() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let [one, two] = ["one", "two"].map(|name| device.replay_group(name, SMALL));
    let outs = ["y", "z"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    for (groups, together) in [([&one, &one], false), ([&one, &two], true)] {
        let pair = [0, 1].map(|at| batch(&device, &kernels, groups[at], &outs[at]));
        for streams in [["main", "side"], ["main", "main"]] {
            let mut session = Session::new("two batches");
            for (stream, graph) in streams.into_iter().zip(&pair) {
                let known = session.streams.iter().position(|s| s.name == stream);
                let stream = known.map_or_else(|| session.add_stream(stream), StreamId::at);
                let graph = add_graph(&mut session, graph.trace()).unwrap();
                session.push(Step::launch("decode", stream, graph));
            }
            let report = verify_session(&session).unwrap();
            let ok = together || streams[0] == streams[1];
            assert_eq!(report.hazards_total, u64::from(!ok), "{report}");
            if let Some(hazard) = report.hazards.first() {
                assert_eq!(hazard.rule, Rule::InFlight);
                assert_eq!(hazard.buffers[0].name, "a");
            }
        }
    }
}
