//! Launches beyond the plain one: clusters, dynamic shared memory, priorities; functions
//! of the host; and the driver's handles of a graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{ErrorClass, GraphCalls, LaunchShape, StreamCalls};
use streamweir::trace::{NodeKind, Promised};
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    CaptureOptions, Device, Error, FeedError, HostTouch, KernelError, Placement, Poison, Verify,
};

use crate::common::{Kernels, LEN, N, NOTHING, bump, live, sim};

/// A launch of `bump` in any shape.
fn shaped(device: &Device, kernels: &Kernels, shape: LaunchShape) -> Result<NodeKind, Error> {
    let data = device.persistent::<u32>("data", LEN)?;
    let (graph, ()) = device.capture::<_, Error>("shaped", |cap| {
        let args = bump {
            data: &data,
            len: N,
        };
        // SAFETY: blocks from `len` on do nothing.
        unsafe {
            cap.origin()
                .launch_unchecked(&kernels.bump, shape, args, &[])
        }
    })?;
    assert_eq!(graph.report().verdict, Verdict::Safe);
    graph.replay(&device.stream("replay")?)?;
    assert_eq!(data.download()?, [1; LEN]);
    Ok(graph.trace().nodes[0].kind.clone())
}

#[test]
fn a_cluster_is_launched_and_in_the_trace() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let shape = LaunchShape::from((4, 1)).cluster([2, 1, 1]).priority(-1);
    let NodeKind::Kernel(kernel) = shaped(&device, &kernels, shape).unwrap() else {
        panic!("no kernel");
    };
    assert_eq!(kernel.cluster, [2, 1, 1]);
    for (grid, cluster) in [(4, [3, 1, 1]), (4, [2, 0, 1]), (5, [2, 1, 1])] {
        let shape = LaunchShape::from((grid, 1)).cluster(cluster);
        let error = shaped(&device, &kernels, shape).unwrap_err();
        assert!(
            matches!(&error, Error::Kernel(KernelError::Cluster { kernel, .. }) if kernel == "bump"),
            "{error}"
        );
    }
}

/// Refused before the driver sees it, so the capture goes on.
#[test]
fn a_launch_that_is_refused_for_its_shape_breaks_no_capture() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let data = device.persistent::<u32>("data", LEN).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("shaped", |cap| {
            let main = cap.origin();
            let args = || bump {
                data: &data,
                len: N,
            };
            let odd = LaunchShape::from((4, 1)).cluster([3, 1, 1]);
            let large = LaunchShape::from((4, 1)).shared(1 << 20);
            for shape in [odd, large] {
                // SAFETY: refused.
                unsafe { main.launch_unchecked(&kernels.bump, shape, args(), &[]) }.unwrap_err();
            }
            main.launch(&kernels.bump, args())
        })
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 1);
}

#[test]
fn dynamic_shared_memory_is_asked_for_by_the_launch_itself() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let kernels = Kernels::load(&device).unwrap();
    let limits = |fault: &FaultDriver| {
        let trace = fault.trace();
        trace
            .iter()
            .filter(|call| **call == "function_shared_limit")
            .count()
    };
    for (bytes, asks) in [(48 << 10, 0), (100 << 10, 1), (80 << 10, 0), (101 << 10, 1)] {
        fault.disarm();
        let shape = LaunchShape::from((4, 1)).shared(bytes);
        let NodeKind::Kernel(kernel) = shaped(&device, &kernels, shape).unwrap() else {
            panic!("no kernel");
        };
        assert_eq!(kernel.shared_bytes, bytes);
        assert_eq!(limits(&fault), asks, "{bytes}");
    }
    let error = shaped(&device, &kernels, LaunchShape::from((4, 1)).shared(1 << 20)).unwrap_err();
    assert_eq!(error.driver_class(), Some(ErrorClass::InvalidValue));
    assert!(error.to_string().contains("`bump`"), "{error}");
}

/// ```text
/// main   fill x ── download ── host: y = x + 1 ── upload ──
/// ```
#[test]
fn a_function_of_the_host_runs_in_the_order_of_the_graph() {
    for seed in 0..40 {
        for (placement, poison) in [
            (Placement::Live, Poison::Off),
            (Placement::Planned, Poison::Off),
            (Placement::Live, Poison::Every),
        ] {
            let device = Device::sim(seed);
            let kernels = Kernels::load(&device).unwrap();
            let out = device.persistent::<u32>("out", LEN).unwrap();
            let [mut x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
            let options = CaptureOptions::new("step")
                .placement(placement)
                .poison(poison)
                .verify(Verify::Prove);
            let (graph, ()) = device
                .capture::<_, Error>(options, |cap| {
                    let main = cap.origin();
                    let data = main.scratch::<u32>("data", LEN)?;
                    main.copy(&data, &out)?;
                    main.launch(
                        &kernels.bump,
                        bump {
                            data: &data,
                            len: N,
                        },
                    )?;
                    main.download(&mut x, &data)?;
                    let side = cap.fork(&main, "side")?;
                    side.host_call("plus one", &x, &mut y, |x, y| {
                        for (x, y) in x.iter().zip(y) {
                            *y = x + 1;
                        }
                    })?;
                    cap.join(&main, side)?;
                    main.upload(&out, &y)
                })
                .unwrap();
            assert_eq!(graph.report().verdict, Verdict::Safe);
            let streams = ["a", "b"].map(|name| device.stream(name).unwrap());
            for replay in 0..4 {
                graph.replay(&streams[replay % 2]).unwrap();
            }
            assert_eq!(out.download().unwrap(), [8; LEN], "{seed}");
            assert_eq!(y.hold().unwrap()[..], [8; LEN]);
        }
    }
}

#[test]
fn a_function_of_the_host_runs_in_an_eager_run() {
    let device = Device::sim(3);
    let data = device.persistent_from("data", &[5_u32; LEN]).unwrap();
    let [mut x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
    device
        .eager::<_, Error>("run", |run| {
            let main = run.origin();
            main.download(&mut x, &data)?;
            main.host_call("copy", &x, &mut y, |x, y| y.copy_from_slice(x))
        })
        .unwrap();
    assert_eq!(y.hold().unwrap()[..], [5; LEN]);
}

/// Whatever the capture was asked to do with hazards: memory that is lent to the host is
/// nobody else's.
#[test]
fn a_function_of_the_host_beside_a_copy_of_its_memory_is_refused() {
    for verify in [Verify::Refuse, Verify::Report] {
        let device = Device::sim(1);
        let data = device.persistent::<u32>("data", LEN).unwrap();
        let [mut x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
        let error = device
            .capture::<_, Error>(CaptureOptions::new("step").verify(verify), |cap| {
                let main = cap.origin();
                let side = cap.fork(&main, "side")?;
                side.host_call("read", &x, &mut y, |_, _| {})?;
                main.download(&mut x, &data)?;
                cap.join(&main, side).map(drop)
            })
            .unwrap_err();
        let report = error.report().unwrap();
        assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
        assert_eq!(report.hazards[0].first.name, "read", "{report}");
        assert_eq!(report.hazards[0].buffers[0].name, "x", "{report}");
    }
}

/// An eager run is judged when it is over.
#[test]
fn a_function_of_the_host_runs_beside_nothing_in_an_eager_run() {
    let device = Device::sim(1);
    let [x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
    device
        .eager::<_, Error>("run", |run| {
            let main = run.origin();
            let side = run.fork(&main, "side")?;
            let error = main.host_call("call", &x, &mut y, |_, _| {}).unwrap_err();
            assert!(
                matches!(&error, Error::Feed(FeedError::HostBeside { call, run, stream })
                    if call == "call" && run == "run" && stream == "side"),
                "{error}"
            );
            run.join(&main, side)?;
            main.host_call("call", &x, &mut y, |_, y| y.fill(3))
        })
        .unwrap();
    assert_eq!(y.hold().unwrap()[..], [3; LEN]);
}

#[test]
fn what_a_vouched_function_touches_is_a_promise() {
    let (device, driver) = sim(1);
    let mut x = device.pinned::<u32>("x", LEN).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let (graph, ()) = device
        .capture::<_, Error>("step", |cap| {
            let touches = [HostTouch::updates(&mut x)];
            // SAFETY: it touches nothing but its counter.
            unsafe {
                cap.origin()
                    .host_call_unchecked("count", &touches, move || {
                        counter.fetch_add(1, Ordering::SeqCst);
                    })
            }
        })
        .unwrap();
    let promises = &graph.trace().promises;
    assert!(
        matches!(promises[..], [ref promise] if promise.of == "count" && matches!(promise.what, Promised::Touches))
    );
    let stream = device.stream("replay").unwrap();
    for _ in 0..3 {
        graph.replay(&stream).unwrap();
    }
    // In flight, and the graph is let go of.
    drop((graph, x));
    assert_eq!(
        Arc::strong_count(&calls),
        2,
        "the graph's function is there"
    );
    device.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(
        Arc::strong_count(&calls),
        1,
        "and is gone with its last call"
    );
    drop(stream);
    assert_eq!(live(&driver), NOTHING);
}

#[test]
fn a_function_that_panics_poisons_what_it_touches() {
    let device = Device::sim(1);
    let [x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
    let (graph, ()) = device
        .capture::<_, Error>("step", |cap| {
            cap.origin().host_call("sampler", &x, &mut y, |_, y| {
                y[0] = 1;
                panic!("no token");
            })
        })
        .unwrap();
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    let error = y.hold().map(drop).unwrap_err();
    assert!(
        matches!(&error, Error::Feed(FeedError::Poisoned { buffer, why }) if buffer == "y" && why.contains("\"sampler\"") && why.contains("no token")),
        "{error}"
    );
    let error = graph.replay(&stream).unwrap_err();
    assert!(
        matches!(error, Error::Feed(FeedError::Poisoned { .. })),
        "{error}"
    );
    drop(graph);
    device.synchronize().unwrap();
    y.as_mut_slice().unwrap().fill(0);
    y.hold().unwrap().fill(1);
}

/// A real driver may hang or refuse; the simulated one refuses.
#[test]
fn a_function_that_calls_the_driver_is_refused_there() {
    let (device, driver) = sim(1);
    let [x, mut y] = ["x", "y"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
    let inner = driver.clone();
    device
        .eager::<_, Error>("run", |run| {
            run.origin().host_call("asks", &x, &mut y, move |_, y| {
                let asked = inner.stream_create(0);
                y[0] = asked.map_or_else(|error| error.code, |_| 0);
            })
        })
        .unwrap();
    assert_eq!(y.hold().unwrap()[0], ErrorClass::NotPermitted.code());
}

mod stray {
    use streamweir::kernel;
    use streamweir::kernel::Out;

    kernel! {
        /// Touches what is behind its buffer.
        pub(super) fn astray(output: Out<u32>);
    }
}

/// The line of the twin that has touched what it may not.
#[test]
fn a_fault_of_the_simulated_device_names_its_place() {
    use streamweir::driver::ModuleImage;
    use streamweir::kernel::{Ptr, twin};

    let device = Device::sim(1);
    let line = line!() + 2;
    let twin = twin::<stray::astray>(|block, (output,): (Ptr<u32>,)| {
        block.read::<u32>(output.at(1 << 20), 1).map(drop)
    });
    let module = device.load(&ModuleImage::Sim(vec![twin])).unwrap();
    // SAFETY: the code is the declaration's twin.
    let kernel = unsafe { module.kernel::<stray::astray>() }.unwrap();
    let out = device.persistent::<u32>("out", LEN).unwrap();
    let stream = device.stream("replay").unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("step", |cap| {
            let args = stray::astray { output: &out };
            // SAFETY: the simulated device stops it.
            unsafe { cap.origin().launch_unchecked(&kernel, (1, 1), args, &[]) }
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    let error = stream.synchronize().unwrap_err().to_string();
    let place = format!("astray (at tests/all/launches.rs:{line}");
    assert!(error.contains(&place), "{error}");
}

#[path = "../../examples/own_kernel.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

#[test]
fn the_example_runs() {
    example::run(&Device::sim(1)).unwrap();
}

/// An instance of a template, say.
#[test]
fn a_kernel_is_found_by_a_symbol_of_its_own() {
    use streamweir::driver::ModuleImage;

    let device = Device::sim(1);
    let ModuleImage::Sim(mut twins) = crate::common::image() else {
        panic!("the simulated device runs twins");
    };
    twins.retain(|twin| twin.symbol == "bump");
    twins[0].symbol = "_Z4bumpILi4EEvPjj";
    let module = device.load(&ModuleImage::Sim(twins)).unwrap();
    // SAFETY: the code is the declaration's twin.
    let [by_name, named] = unsafe {
        [
            module.kernel::<bump>(),
            module.kernel_named::<bump>("_Z4bumpILi4EEvPjj"),
        ]
    };
    assert!(by_name.is_err());
    let (named, data) = (
        named.unwrap(),
        device.persistent::<u32>("data", LEN).unwrap(),
    );
    let options = CaptureOptions::new("step").verify(Verify::Prove);
    let (graph, ()) = device
        .capture::<_, Error>(options, |cap| {
            let args = bump {
                data: &data,
                len: N,
            };
            cap.origin().launch(&named, args)
        })
        .unwrap();
    let node = &graph.trace().nodes[0];
    assert_eq!(node.name, "bump");
    assert!(matches!(&node.kind, NodeKind::Kernel(kernel) if kernel.function.starts_with("_Z")));
}

#[test]
fn raw_handles_are_those_of_the_driver() {
    let (device, driver) = sim(1);
    let data = device.persistent::<u32>("data", LEN).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("step", |cap| cap.origin().fill(&data, 1))
        .unwrap();
    let stream = device.stream("replay").unwrap();
    // SAFETY: the graph is there, nobody else replays it, and it is waited for.
    unsafe {
        assert_eq!(driver.graph_nodes(graph.raw_graph()).unwrap().len(), 1);
        driver.exec_launch(graph.raw_exec(), stream.raw()).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(data.download().unwrap(), [0x0101_0101; LEN]);
}
