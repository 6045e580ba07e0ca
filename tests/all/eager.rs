//! What is kept from one eager run to the next, what a run waits for, and which runs
//! are not proved again.

use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{MemoryCalls, ModuleImage};
use streamweir::kernel::twin;
use streamweir::verify::{Rule, Verdict};
use streamweir::{Capture, Device, EagerRun, Error, Graph, Persistent, kernel, narrow};

use crate::common::{Kernels, LEN, N, bump, live, plus, sim};

struct Rig {
    fault: Arc<FaultDriver>,
    device: Device,
    kernels: Kernels,
}

fn rig(seed: u64) -> Rig {
    let fault = FaultDriver::new(SimDriver::new(seed));
    let device = Device::with_driver(fault.clone());
    let kernels = Kernels::load(&device).unwrap();
    Rig {
        fault,
        device,
        kernels,
    }
}

impl Rig {
    fn buffers<const COUNT: usize>(&self, names: [&str; COUNT]) -> [Persistent<u32>; COUNT] {
        names.map(|name| self.device.persistent_from(name, &[1_u32; LEN]).unwrap())
    }

    fn run(&self, record: impl FnOnce(&Capture) -> Result<(), Error>) -> EagerRun {
        self.device.eager("layer", record).unwrap().0
    }

    /// `output = input + 2` by way of scratch, as a graph.
    fn graph(&self, input: &Persistent<u32>, output: &Persistent<u32>) -> Graph {
        let record = |cap: &Capture| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            self.plus(&main, input, &a)?;
            self.plus(&main, &a, output)
        };
        self.device.capture(output.name(), record).unwrap().0
    }

    fn plus<I, O>(&self, on: &streamweir::Stream, input: I, output: O) -> Result<(), Error>
    where
        plus<I, O, u32, u32>: streamweir::CheckedArgs<plus, streamweir::Dyn>,
    {
        let (more, len) = (1, N);
        let args = plus {
            input,
            output,
            more,
            len,
        };
        on.launch(&self.kernels.plus, args)
    }

    /// Scratch on two streams: `z = (x + 1) + 1`, beside `w += 1`.
    fn layer(&self, cap: &Capture, [x, z, w]: &[Persistent<u32>; 3]) -> Result<(), Error> {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let a = main.scratch::<u32>("a", LEN)?;
        self.plus(&main, x, &a)?;
        side.launch(&self.kernels.bump, bump { data: w, len: N })?;
        self.plus(&main, &a, z)?;
        cap.join(&main, side).map(drop)
    }

    fn calls(&self, name: &str) -> usize {
        let trace = self.fault.trace();
        trace.iter().filter(|call| **call == name).count()
    }
}

#[test]
fn a_second_run_like_the_first_makes_nothing_and_is_not_proved() {
    let rig = rig(1);
    let buffers = rig.buffers(["x", "z", "w"]);
    let first = rig.run(|cap| rig.layer(cap, &buffers));
    assert!(!first.is_like_the_last());
    for round in 0..4 {
        rig.fault.disarm();
        let again = rig.run(|cap| rig.layer(cap, &buffers));
        assert!(again.is_like_the_last());
        // Not one like it: the very proof.
        assert!(std::ptr::eq(first.report(), again.report()));
        assert!(std::ptr::eq(first.trace(), again.trace()));
        assert_eq!(again.report().verdict, Verdict::Safe);
        let trace = rig.fault.trace();
        // Three launches, a fork and a join, and what tells when it has ended; beside
        // these only what the run before has left is asked for and given back.
        let counts = [("launch", 3), ("event_record", 3), ("stream_wait", 2)];
        for (call, count) in counts {
            assert_eq!(rig.calls(call), count, "{round}: {call} in {trace:?}");
        }
        let known = [
            "launch",
            "event_record",
            "stream_wait",
            "event_create",
            "event_query",
            "event_destroy",
        ];
        let other: Vec<_> = trace.iter().filter(|call| !known.contains(call)).collect();
        assert!(other.is_empty(), "{round}: {other:?}");
    }
    let [_, z, w] = &buffers;
    assert_eq!(z.download().unwrap(), [3; LEN]);
    assert_eq!(w.download().unwrap(), [6; LEN]);
}

/// Each of these runs differs from the one before in one thing.
#[test]
fn a_run_that_differs_in_one_thing_is_proved() {
    let rig = rig(2);
    let buffers = rig.buffers(["x", "z", "w"]);
    let [x, z, w] = &buffers;
    let other_kernels = Kernels::load(&rig.device).unwrap();
    type Change<'a> = (&'a str, Box<dyn Fn(&Capture) -> Result<(), Error> + 'a>);
    let step = |cap: &Capture, more: u32, data: &Persistent<u32>, len: u32, scope: &str| {
        let main = cap.origin().scope(scope);
        let a = main.scratch::<u32>("a", LEN)?;
        let args = plus {
            input: x,
            output: &a,
            more,
            len,
        };
        main.launch(&rig.kernels.plus, args)?;
        main.launch(&rig.kernels.bump, bump { data, len: N })
    };
    let narrowed = |cap: &Capture, end: usize| {
        // SAFETY: the kernel touches two elements.
        let data = unsafe { narrow(w, 0..end) }?;
        cap.origin()
            .launch(&rig.kernels.bump, bump { data, len: 2 })
    };
    let holding = |cap: &Capture, lets_go: bool| {
        let mut held = Some(cap.origin().scratch::<u32>("held", LEN)?);
        step(cap, 1, z, N, "l")?;
        if lets_go {
            held = None;
        }
        let filled = cap.origin().fill(w, 1);
        drop(held);
        filled
    };
    let changes: Vec<Change<'_>> = vec![
        ("nothing", Box::new(|cap| step(cap, 1, z, N, "l"))),
        ("a value", Box::new(|cap| step(cap, 2, z, N, "l"))),
        ("a buffer", Box::new(|cap| step(cap, 1, w, N, "l"))),
        ("a shape", Box::new(|cap| step(cap, 1, z, N - 1, "l"))),
        ("a scope", Box::new(|cap| step(cap, 1, z, N, "m"))),
        (
            "one command more",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                cap.origin().fill(w, 1)
            }),
        ),
        (
            "a kernel loaded again",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                let data = w;
                cap.origin()
                    .launch(&rig.kernels.bump, bump { data, len: N })
            }),
        ),
        (
            "the other one",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                let (data, kernel) = (w, &other_kernels.bump);
                cap.origin().launch(kernel, bump { data, len: N })
            }),
        ),
        (
            "a stream",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                let side = cap.fork(&cap.origin(), "side")?;
                side.fill(w, 1)?;
                cap.join(&cap.origin(), side).map(drop)
            }),
        ),
        (
            "a part that is vouched for",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                narrowed(cap, 2)
            }),
        ),
        (
            "a longer part",
            Box::new(|cap| {
                step(cap, 1, z, N, "l")?;
                narrowed(cap, 3)
            }),
        ),
        (
            "scratch that is let go at once",
            Box::new(|cap| holding(cap, true)),
        ),
        (
            "scratch that is let go later",
            Box::new(|cap| holding(cap, false)),
        ),
        (
            "scratch that is held on",
            Box::new(|cap| {
                let held = cap.origin().scratch::<u32>("held", LEN)?;
                let stepped = step(cap, 1, z, N, "l");
                drop(held);
                stepped
            }),
        ),
        (
            "and let go",
            Box::new(|cap| {
                drop(cap.origin().scratch::<u32>("held", LEN)?);
                step(cap, 1, z, N, "l")
            }),
        ),
    ];
    for (what, record) in &changes {
        assert!(!rig.run(record).is_like_the_last(), "{what}");
        let like = rig.run(record);
        // The arena may have grown in the first one, whose blocks may lie elsewhere.
        let again = rig.run(record);
        assert!(again.is_like_the_last(), "{what}");
        assert_eq!(again.report().verdict, like.report().verdict, "{what}");
    }
    // Under another name it is another run.
    let (_, record) = &changes[0];
    assert!(!rig.run(record).is_like_the_last());
    let (named, ()) = rig.device.eager::<_, Error>("other", record).unwrap();
    assert!(!named.is_like_the_last());
    assert!(rig.run(record).is_like_the_last());
}

/// The join is left out after a run that was safe, and the run that follows has it
/// again.
#[test]
fn a_hazard_does_not_slip_through_as_a_like_run() {
    let rig = rig(3);
    let [x, z, w] = &rig.buffers(["x", "z", "w"]);
    let record = |joins: bool| {
        let record = |cap: &Capture| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            rig.plus(&side, x, z)?;
            let out = match joins {
                true => cap.join(&main, side).map(|_| None)?,
                false => Some(side),
            };
            rig.plus(&main, z, w)?;
            out.map_or(Ok(()), |side| cap.join(&main, side).map(drop))
        };
        rig.run(record)
    };
    for _ in 0..2 {
        assert_eq!(record(true).report().verdict, Verdict::Safe);
    }
    for round in 0..3 {
        let run = record(false);
        assert_eq!(run.is_like_the_last(), round > 0);
        assert_eq!(run.report().verdict, Verdict::Hazard, "{}", run.report());
        assert_eq!(run.report().hazards[0].rule, Rule::UnorderedConflict);
    }
    let run = record(true);
    assert!(!run.is_like_the_last());
    assert_eq!(run.report().verdict, Verdict::Safe);
}

kernel! {
    /// Takes two words.
    fn raw(p: u64, q: u32);
}

/// What is at an address that nobody declares may be another thing the next time.
#[test]
fn a_run_that_shows_a_word_is_proved_each_time() {
    let rig = rig(4);
    let image = ModuleImage::Sim(vec![twin::<raw>(|_, _| Ok(()))]);
    let module = rig.device.load(&image).unwrap();
    // SAFETY: the twin touches nothing.
    let kernel = unsafe { module.kernel::<raw>() }.unwrap();
    let run = |p| {
        rig.run(|cap| {
            // SAFETY: as above.
            unsafe {
                let args = raw { p, q: 0 };
                cap.origin().launch_unchecked(&kernel, (1, 1), args, &[])
            }
        })
    };
    assert!(!run(0).is_like_the_last());
    assert!(run(0).is_like_the_last());
    let memory = rig.fault.mem_alloc(64).unwrap();
    let verdict = |run: EagerRun| (run.is_like_the_last(), run.report().verdict);
    assert_eq!(verdict(run(memory)), (false, Verdict::Possible));
    assert_eq!(verdict(run(memory)), (false, Verdict::Possible));
    // SAFETY: nothing uses it.
    unsafe { rig.fault.mem_free(memory) }.unwrap();
    assert_eq!(verdict(run(memory)), (false, Verdict::Safe));
}

/// A launch of another group in flight is waited for when a command first touches a
/// buffer where the two conflict, once, and not at all where they do not.
#[test]
fn a_run_waits_for_conflicting_launches_at_the_first_touch() {
    let rig = rig(5);
    let [x, y, z, w] = &rig.buffers(["x", "y", "z", "w"]);
    let replays = rig.device.stream("replays").unwrap();
    let graph = rig.graph(x, y);
    let run = |input, output| {
        rig.fault.disarm();
        rig.run(|cap| {
            let main = cap.origin();
            rig.plus(&main, z, w)?;
            rig.plus(&main, input, output)?;
            rig.plus(&main, input, output)
        });
        let trace = rig.fault.trace();
        let of_order = trace
            .into_iter()
            .filter(|call| ["launch", "stream_wait"].contains(call));
        of_order.collect::<Vec<_>>()
    };
    let free = ["launch"; 3];
    let waits = ["launch", "stream_wait", "launch", "launch"];
    assert_eq!(run(z, w), free, "nothing is in flight");
    graph.replay(&replays).unwrap();
    assert_eq!(run(z, w), free, "no buffer of the graph");
    assert_eq!(run(x, w), free, "both read x");
    assert_eq!(run(y, w), waits, "the graph writes y");
    assert_eq!(run(y, w), free, "what was waited for has passed");
    graph.replay(&replays).unwrap();
    assert_eq!(run(z, x), waits, "the graph reads x");
    graph.replay(&replays).unwrap();
    assert_eq!(run(z, x), waits, "another replay");
    drop(graph);
}

/// Each stream of a run is ordered on its own, and forks and joins pass the order on.
#[test]
fn each_stream_of_a_run_waits_for_what_it_touches() {
    for seed in 0..60 {
        let rig = rig(seed);
        let [x, y, z, w] = &rig.buffers(["x", "y", "z", "w"]);
        let replays = rig.device.stream("replays").unwrap();
        let graph = rig.graph(x, y);
        let back = rig.graph(w, x);
        for round in 0..2 {
            graph.replay(&replays).unwrap();
            rig.run(|cap| {
                let main = cap.origin();
                let side = cap.fork(&main, "side")?;
                let third = cap.fork(&side, "third")?;
                // The same buffer on two streams that nothing orders: each waits.
                rig.plus(&side, y, z)?;
                rig.plus(&third, y, w)?;
                cap.join(&side, third)?;
                cap.join(&main, side).map(drop)
            });
            // The graph behind the run waits for it.
            back.replay(&replays).unwrap();
            let value = 1 + round * 5;
            assert_eq!(z.download().unwrap(), [value + 3; LEN], "{seed}");
            assert_eq!(x.download().unwrap(), [value + 5; LEN], "{seed}");
        }
    }
}

/// A graph that was captured after the run was proved: the next run like it takes the
/// turn of that graph, and comes after its replays.
#[test]
fn a_run_like_the_last_takes_turns_with_graphs_that_came_since() {
    for seed in 0..60 {
        let rig = rig(seed);
        let [x, y, z] = &rig.buffers(["x", "y", "z"]);
        let replays = rig.device.stream("replays").unwrap();
        // What has ended and been collected is no member of any group any more.
        let run = || {
            let run = rig.run(|cap| rig.plus(&cap.origin(), x, y));
            run.is_like_the_last()
        };
        assert!(!run());
        rig.device.synchronize().unwrap();
        let reads = rig.graph(y, z);
        let writes = rig.graph(z, x);
        for round in 0..3 {
            assert!(run());
            reads.replay(&replays).unwrap();
            writes.replay(&replays).unwrap();
            assert_eq!(x.download().unwrap(), [6 + 5 * round; LEN], "{seed}");
            assert_eq!(y.download().unwrap(), [2 + 5 * round; LEN], "{seed}");
        }
    }
}

/// A run of another capture's arena is never in the arena of a run that has one open.
#[test]
fn runs_within_runs_have_homes_of_their_own() {
    for seed in 0..40 {
        let rig = rig(seed);
        let [x, y, z] = &rig.buffers(["x", "y", "z"]);
        for _ in 0..3 {
            rig.run(|cap| {
                let main = cap.origin();
                let a = main.scratch::<u32>("a", LEN)?;
                rig.plus(&main, x, &a)?;
                rig.device.eager::<_, Error>("inner", |cap| {
                    let main = cap.origin();
                    let b = main.scratch::<u32>("b", LEN)?;
                    main.fill(&b, 0)?;
                    rig.plus(&main, &b, y)
                })?;
                rig.plus(&main, &a, z)
            });
            assert_eq!(z.download().unwrap(), [3; LEN], "{seed}");
            assert_eq!(y.download().unwrap(), [1; LEN], "{seed}");
        }
    }
}

/// Two threads run over and over; each run has its scratch to itself.
#[test]
fn runs_of_two_threads_do_not_share_scratch() {
    let device = Device::sim(6);
    let kernels = Kernels::load(&device).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            let (device, kernels) = (&device, &kernels);
            scope.spawn(move || {
                let names = [0, 1].map(|which| format!("{which} of {thread}"));
                let [input, output] =
                    names.map(|name| device.persistent_from(&name, &[thread; LEN]).unwrap());
                for _ in 0..30 {
                    let record = |cap: &Capture| {
                        let main = cap.origin();
                        let a = main.scratch::<u32>("a", LEN)?;
                        let (more, len) = (10, N);
                        let [first, second] = [(&input, None), (&output, Some(&a))];
                        let args = plus {
                            input: first.0,
                            output: &a,
                            more,
                            len,
                        };
                        main.launch(&kernels.plus, args)?;
                        let args = plus {
                            input: second.1.unwrap_or(&a),
                            output: second.0,
                            more,
                            len,
                        };
                        main.launch(&kernels.plus, args)
                    };
                    device.eager::<_, Error>("run", record).unwrap();
                    assert_eq!(output.download().unwrap(), [thread + 20; LEN]);
                }
            });
        }
    });
}

/// What is kept for the next run is kept once, and given back when it is asked for.
#[test]
fn what_runs_leave_for_the_next_is_given_back_by_trim() {
    let (device, driver) = sim(7);
    let kernels = Kernels::load(&device).unwrap();
    let buffer = device.persistent_from("x", &[1_u32; LEN]).unwrap();
    let before = live(&driver);
    let run = |name: &str, len: usize| {
        let record = |cap: &Capture| {
            let a = cap.origin().scratch::<u32>("a", len)?;
            cap.origin().fill(&a, 0)?;
            cap.origin().launch(
                &kernels.bump,
                bump {
                    data: &buffer,
                    len: N,
                },
            )
        };
        device.eager::<_, Error>(name, record).unwrap();
    };
    run("first", LEN);
    let kept = live(&driver);
    assert!(kept.bytes > before.bytes);
    for round in 0..5 {
        // Whatever it is called, and however little it takes.
        run(["first", "second"][round % 2], 1 + round % 2);
        device.synchronize().unwrap();
        assert_eq!(live(&driver), kept, "{round}");
    }
    // A failed run takes its home with it.
    let failed =
        device.eager::<(), Error>("first", |cap| cap.fork(&cap.origin(), "side").map(drop));
    assert!(matches!(failed, Err(Error::Unjoined { .. })));
    device.synchronize().unwrap();
    assert_eq!(live(&driver), before);
    run("first", LEN);
    device.synchronize().unwrap();
    assert_eq!(live(&driver), kept);
    assert!(device.trim_eager() > 0);
    device.synchronize().unwrap();
    assert_eq!(live(&driver), before);
    assert_eq!(device.trim_eager(), 0);
    // Of a run that is under way it goes when that has ended.
    run("first", LEN);
    device.trim_eager();
    device.synchronize().unwrap();
    assert_eq!(live(&driver), before);
}

/// Memory of a run that is over is not kept alive by what is remembered of it.
#[test]
fn a_remembered_run_keeps_no_buffer_alive() {
    let (device, driver) = sim(8);
    let kernels = Kernels::load(&device).unwrap();
    let run = || {
        let data = device.persistent_from("x", &[1_u32; LEN]).unwrap();
        let record = |cap: &Capture| {
            let args = bump {
                data: &data,
                len: N,
            };
            cap.origin().launch(&kernels.bump, args)
        };
        let (run, ()) = device.eager::<_, Error>("run", record).unwrap();
        assert_eq!(data.download().unwrap(), [2; LEN]);
        run.is_like_the_last()
    };
    assert!(!run());
    device.synchronize().unwrap();
    let after = live(&driver);
    for _ in 0..3 {
        // It has another number, wherever it lies.
        assert!(!run());
        device.synchronize().unwrap();
        assert_eq!(live(&driver), after);
    }
}

/// Another buffer at the same address is another buffer.
#[test]
fn another_buffer_at_the_same_address_is_another_run() {
    let rig = rig(9);
    let memory = rig.fault.mem_alloc(64).unwrap();
    let run = |name: &str| {
        // SAFETY: it is freed at the end, and this alone uses it.
        let data = unsafe { Persistent::from_raw(&rig.device, memory, LEN, name, Arc::new(())) };
        let data: Persistent<u32> = data.unwrap();
        let named = rig.run(|cap| {
            let args = bump {
                data: &data,
                len: N,
            };
            cap.origin().launch(&rig.kernels.bump, args)
        });
        assert_eq!(named.trace().buffers[0].name, name);
        rig.device.synchronize().unwrap();
        named.is_like_the_last()
    };
    assert!(!run("one"));
    assert!(!run("other"));
    // SAFETY: nothing uses it any more.
    unsafe { rig.fault.mem_free(memory) }.unwrap();
}
