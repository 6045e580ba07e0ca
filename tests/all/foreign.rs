//! Foreign calls: nodes that a library enqueues are its own in the trace, and
//! what it touches is declared.

use std::sync::Arc;

use streamweir::driver::MemoryCalls;
use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::lying::{Lie, LyingDriver};
use streamweir::verify::{Rule, Verdict};
use streamweir::{Device, Error, ForeignCall, reads, updates, writes};

use crate::common::{Kernels, LEN, N, foreign, sim, sum};

#[test]
fn nodes_of_a_foreign_call_are_attributed() {
    let (device, driver) = sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let kept = Arc::new(());
    let (graph, addresses) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            assert_eq!(main.address_of(&a)?, a.range()?.start);
            // SAFETY: the call fills the two buffers it declares.
            let addresses = unsafe {
                main.scope("layer 0").foreign::<_, Error>(
                    "gemm",
                    &[writes(&a), writes(&y)],
                    Some(kept.clone()),
                    |raw, addresses| {
                        driver
                            .fill_async(raw, addresses[0], 1, 16)
                            .map_err(foreign)?;
                        driver
                            .fill_async(raw, addresses[1], 0, 16)
                            .map_err(foreign)?;
                        Ok(addresses.to_vec())
                    },
                )?
            };
            assert_eq!(addresses, [a.range()?.start, y.range().start]);
            main.launch(
                &kernels.sum,
                sum {
                    left: &a,
                    right: &a,
                    output: &y,
                    len: N,
                },
            )?;
            Ok(addresses)
        })
        .unwrap();
    assert_eq!(addresses.len(), 2);
    let trace = graph.trace();
    assert_eq!(trace.nodes.len(), 3);
    for node in &trace.nodes[..2] {
        assert!(node.name.contains("gemm"), "{}", node.name);
        assert_eq!(
            node.launch.as_ref().map(|l| l.file.ends_with("foreign.rs")),
            Some(true)
        );
    }
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
    assert_eq!(Arc::strong_count(&kept), 2, "the graph keeps it");
    let stream = device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [0x0202_0202; LEN]);
    drop(graph);
    device.synchronize().unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn what_a_foreign_call_touches_is_checked() {
    let (device, driver) = sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let error = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.fill(&y, 1)?;
            // SAFETY: the call fills the buffer it declares.
            unsafe {
                main.foreign::<_, Error>("library", &[updates(&y)], None, |raw, addresses| {
                    driver.fill_async(raw, addresses[0], 2, 16).map_err(foreign)
                })?;
            }
            cap.join(&main, side).map(drop)
        })
        .unwrap_err();
    let report = error.report().expect("the capture is refused");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
    assert!(report.to_string().contains("library"), "{report}");
}

/// A library may start its second kernel before its first has ended. That orders
/// nothing unless the caller says that it waits.
#[test]
fn a_library_that_starts_a_kernel_early_is_asked_whether_it_waits() {
    // The edge from the first node of the call to the second.
    let lying = LyingDriver::new(SimDriver::new(1), Some(Lie::LoosenEdge(0)));
    let device = Device::with_driver(lying.clone());
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let capture = |waits: bool| {
        let driver = lying.clone();
        device.capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let touches = [updates(&y)];
            let call = ForeignCall::new("split gemm", &touches);
            let call = if waits { call.waits() } else { call };
            // SAFETY: the call fills the buffer it declares, twice.
            unsafe {
                main.foreign_call(call, move |raw, at| {
                    driver.fill_async(raw, at.touched[0], 1, 16)?;
                    Ok(driver.fill_async(raw, at.touched[0], 2, 16)?)
                })
            }
        })
    };
    let error = capture(false).map(drop).unwrap_err();
    let report = error.report().expect("nothing orders the two");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
    let text = report.to_string();
    assert!(
        text.contains("if its kernel waits on all paths, declare that"),
        "{text}"
    );

    let (graph, ()) = capture(true).unwrap();
    let report = graph.report();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let assumed =
        |line: &String| line.contains("`split gemm`") && line.contains("waits on all paths");
    assert_eq!(
        report
            .assumptions
            .iter()
            .filter(|line| assumed(line))
            .count(),
        1,
        "{report}"
    );

    // Where no kernel starts early, nothing is assumed.
    lying.tell(None);
    let (graph, ()) = capture(true).unwrap();
    let waits = |line: &String| line.contains("waits");
    let report = graph.report();
    assert!(!report.assumptions.iter().any(waits), "{report}");
}

#[test]
fn a_call_that_enqueues_nothing_leaves_nothing() {
    let device = Device::sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            // SAFETY: the call does nothing.
            unsafe { main.foreign::<_, Error>("idle", &[reads(&y)], None, |_, _| Ok(()))? };
            main.fill(&y, 0)
        })
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 1);
    assert_eq!(graph.trace().accesses.len(), 1);
}

#[test]
fn a_foreign_call_that_fails_breaks_the_capture() {
    let device = Device::sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    #[derive(Debug)]
    enum Engine {
        Weir(Error),
        Library,
    }
    impl From<Error> for Engine {
        fn from(error: Error) -> Self {
            Self::Weir(error)
        }
    }
    let error = device
        .capture::<(), Engine>("decode", |cap| {
            let main = cap.origin();
            // SAFETY: the call does nothing.
            let failed = unsafe {
                main.foreign::<(), Engine>("library", &[writes(&y)], None, |_, _| {
                    Err(Engine::Library)
                })
            };
            assert!(matches!(failed, Err(Engine::Library)));
            main.fill(&y, 0)?;
            Ok(())
        })
        .unwrap_err();
    let Engine::Weir(Error::Broken { capture, first }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(capture, "decode");
    assert!(first.contains("library"), "{first}");
    device
        .capture::<_, Error>("next", |cap| cap.origin().fill(&y, 0))
        .unwrap();
}

#[test]
fn scratch_may_be_dropped_inside_a_foreign_call() {
    let (device, driver) = sim(1);
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            let b = main.scratch::<u32>("b", LEN)?;
            // SAFETY: the call fills the buffer it declares.
            unsafe {
                main.foreign::<_, Error>("library", &[writes(&a)], None, |raw, addresses| {
                    drop(b);
                    main.scratch::<u32>("inner", LEN).map(drop)?;
                    driver.fill_async(raw, addresses[0], 2, 16).map_err(foreign)
                })
            }
        })
        .unwrap();
    assert!(graph.certificate().is_some(), "{}", graph.report());
}
