//! Invariant 7: graphs whose bytes conflict take turns, on whatever streams
//! they are replayed; others do not wait.

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::trace::BufferKind;
use streamweir::{CaptureOptions, Device, Error, Graph, Persistent, ReplayGroup};

use crate::common::{Kernels, LEN, N, SMALL, plus};

/// `y = x + 3`, through two scratch buffers.
fn bucket(
    device: &Device,
    kernels: &Kernels,
    group: &ReplayGroup,
    (x, y): (&Persistent<u32>, &Persistent<u32>),
) -> Graph {
    let options = CaptureOptions::new("bucket").group(group);
    device
        .capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            let b = main.scratch::<u32>("b", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: x,
                    output: &a,
                    more: 1,
                    len: N,
                },
            )?;
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
            )
        })
        .unwrap()
        .0
}

fn scratch(graph: &Graph) -> Vec<streamweir::trace::ByteRange> {
    let buffers = graph.trace().buffers.iter();
    buffers
        .filter(|b| matches!(b.kind, BufferKind::Scratch { .. }))
        .map(|b| b.range)
        .collect()
}

#[test]
fn graphs_of_one_group_never_overlap() {
    for seed in 0..200 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let group = device.replay_group("buckets", SMALL);
        let inputs = [10_u32, 20].map(|first| {
            let values = [first, first + 1, first + 2, first + 3];
            device.persistent_from("x", &values).unwrap()
        });
        let outputs = [0, 1].map(|_| device.persistent::<u32>("y", LEN).unwrap());
        let graphs = [0, 1].map(|i| bucket(&device, &kernels, &group, (&inputs[i], &outputs[i])));
        assert_eq!(scratch(&graphs[0]), scratch(&graphs[1]), "they share bytes");
        let streams = ["one", "two"].map(|name| device.stream(name).unwrap());
        for _ in 0..3 {
            graphs[0].replay(&streams[0]).unwrap();
            graphs[1].replay(&streams[1]).unwrap();
        }
        assert_eq!(outputs[0].download().unwrap(), [13, 14, 15, 16], "{seed}");
        assert_eq!(outputs[1].download().unwrap(), [23, 24, 25, 26], "{seed}");
    }
}

#[test]
fn one_graph_on_two_streams_does_not_overlap_itself() {
    for seed in 0..100 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let y = device.persistent::<u32>("y", LEN).unwrap();
        let (graph, ()) = device
            .capture::<_, Error>(CaptureOptions::new("count").arena(SMALL), |cap| {
                let main = cap.origin();
                let a = main.scratch::<u32>("a", LEN)?;
                main.launch(
                    &kernels.plus,
                    plus {
                        input: &y,
                        output: &a,
                        more: 1,
                        len: N,
                    },
                )?;
                main.copy(&y, &a)
            })
            .unwrap();
        let streams = ["one", "two"].map(|name| device.stream(name).unwrap());
        for _ in 0..4 {
            for stream in &streams {
                graph.replay(stream).unwrap();
            }
        }
        assert_eq!(y.download().unwrap(), [8; LEN], "{seed}");
    }
}

#[test]
fn an_event_asked_for_between_replays_does_not_stand_for_the_later_one() {
    for seed in 0..100 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let group = device.replay_group("counts", SMALL);
        let y = device.persistent::<u32>("y", LEN).unwrap();
        // Two graphs, because the driver keeps launches of one apart by itself.
        let [first, second] = ["first", "second"].map(|name| {
            device
                .capture::<_, Error>(CaptureOptions::new(name).group(&group), |cap| {
                    let main = cap.origin();
                    let a = main.scratch::<u32>("a", LEN)?;
                    main.launch(
                        &kernels.plus,
                        plus {
                            input: &y,
                            output: &a,
                            more: 1,
                            len: N,
                        },
                    )?;
                    main.copy(&y, &a)
                })
                .unwrap()
                .0
        });
        let [one, two] = ["one", "two"].map(|name| device.stream(name).unwrap());
        first.replay(&one).unwrap();
        group.synchronize().unwrap();
        first.replay(&one).unwrap();
        second.replay(&two).unwrap();
        assert_eq!(y.download().unwrap(), [3; LEN], "{seed}");
    }
}

#[test]
fn writers_of_one_persistent_buffer_take_turns() {
    for seed in 0..200 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let y = device.persistent::<u32>("y", LEN).unwrap();
        // Read, then written: an overlap loses an update.
        let counter = |name: &str, by: u32| {
            device
                .capture::<_, Error>(CaptureOptions::new(name).arena(SMALL), |cap| {
                    let main = cap.origin();
                    let a = main.scratch::<u32>("a", LEN)?;
                    main.launch(
                        &kernels.plus,
                        plus {
                            input: &y,
                            output: &a,
                            more: by,
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
                    )
                })
                .unwrap()
                .0
        };
        let graphs = [counter("ones", 1), counter("tens", 10)];
        assert!(graphs[0].footprint().conflicts(graphs[1].footprint()));
        let streams = ["one", "two"].map(|name| device.stream(name).unwrap());
        for _ in 0..4 {
            for (graph, stream) in graphs.iter().zip(&streams) {
                graph.replay(stream).unwrap();
            }
        }
        assert_eq!(y.download().unwrap(), [44; LEN], "{seed}");
    }
}

#[test]
fn only_conflicts_wait() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let outputs = [0, 1].map(|_| device.persistent::<u32>("y", LEN).unwrap());
    let groups = ["one", "two"].map(|name| device.replay_group(name, SMALL));
    let graphs = [0, 1].map(|i| bucket(&device, &kernels, &groups[i], (&x, &outputs[i])));
    let streams = ["one", "two"].map(|name| device.stream(name).unwrap());

    fault.disarm();
    for _ in 0..3 {
        graphs[0].replay(&streams[0]).unwrap();
        graphs[1].replay(&streams[1]).unwrap();
    }
    let readers = fault.trace();
    assert_eq!(readers, ["exec_launch"; 6], "readers of `x` do not wait");

    fault.disarm();
    graphs[0].replay(&streams[1]).unwrap();
    let moved = fault.trace();
    assert_eq!(
        moved,
        ["event_create", "event_record", "stream_wait", "exec_launch"],
        "on another stream it waits for its own last launch"
    );
    assert_eq!(outputs[0].download().unwrap(), [4, 5, 6, 7]);
}

#[test]
fn a_group_reserves_what_its_largest_graph_needs() {
    let device = Device::sim(1);
    let group = device.replay_group("buckets", SMALL);
    let capture = |bytes: usize| {
        let options = CaptureOptions::new("bucket").group(&group);
        device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let a = main.scratch::<u8>("a", bytes)?;
                main.fill(&a, 0)
            })
            .unwrap()
            .0
    };
    let large = capture(64 << 10);
    let reserved = group.reserved();
    assert!(reserved >= 64 << 10);
    let smaller: Vec<_> = [1, 2, 4, 8, 16, 32].map(|k| capture(k << 10)).into();
    assert_eq!(group.reserved(), reserved, "the sum is not reserved");
    assert_eq!(group.trim(), 0, "graphs use it");
    drop((large, smaller));
    device.synchronize().unwrap();
    assert_eq!(group.trim(), reserved);
    assert_eq!(group.reserved(), 0);
}

/// A graph that computes `y = x + 2` over scratch, in a group of its own.
fn plus_two(device: &Device, kernels: &Kernels, x: &Persistent<u32>, y: &Persistent<u32>) -> Graph {
    device
        .capture::<_, Error>(CaptureOptions::new("plus two").arena(SMALL), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: x,
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
        .unwrap()
        .0
}

#[test]
fn a_graph_dropped_in_flight_is_waited_for_by_later_captures() {
    for seed in 0..50 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent_from("x", &[1_u32; LEN]).unwrap();
        let [y, z] = ["y", "z"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
        let streams = ["one", "two"].map(|name| device.stream(name).unwrap());
        let first = plus_two(&device, &kernels, &x, &y);
        first.replay(&streams[0]).unwrap();
        drop(first);
        let second = plus_two(&device, &kernels, &y, &z);
        second.replay(&streams[1]).unwrap();
        assert_eq!(z.download().unwrap(), [5; LEN], "{seed}");
    }
}

#[test]
fn eager_runs_and_replays_take_turns() {
    for seed in 0..50 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent_from("x", &[1_u32; LEN]).unwrap();
        let [y, z, w] = ["y", "z", "w"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
        let streams = ["one", "two"].map(|name| device.stream(name).unwrap());
        let first = plus_two(&device, &kernels, &x, &y);
        let last = plus_two(&device, &kernels, &z, &w);
        first.replay(&streams[0]).unwrap();
        device
            .eager::<_, Error>("eager", |cap| {
                cap.origin().launch(
                    &kernels.plus,
                    plus {
                        input: &y,
                        output: &z,
                        more: 1,
                        len: N,
                    },
                )
            })
            .unwrap();
        last.replay(&streams[1]).unwrap();
        assert_eq!(w.download().unwrap(), [6; LEN], "{seed}");
    }
}

#[test]
fn a_replay_waits_for_an_eager_run_that_failed() {
    for seed in 0..50 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let x = device.persistent_from("x", &[1_u32; LEN]).unwrap();
        let [y, z] = ["y", "z"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
        let stream = device.stream("replay").unwrap();
        let graph = plus_two(&device, &kernels, &y, &z);
        let error = device
            .eager::<_, Error>("eager", |cap| {
                let side = cap.fork(&cap.origin(), "side")?;
                side.launch(
                    &kernels.plus,
                    plus {
                        input: &x,
                        output: &y,
                        more: 1,
                        len: N,
                    },
                )
            })
            .unwrap_err();
        assert!(matches!(error, Error::Unjoined { .. }), "{error}");
        graph.replay(&stream).unwrap();
        assert_eq!(z.download().unwrap(), [4; LEN], "{seed}");
    }
}
