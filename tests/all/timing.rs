//! What is refused when nodes are to be timed. The simulated device has no clock;
//! on a GPU the times are those of `decode --profile`.

use streamweir::driver::ErrorClass;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::trace::NodeId;
use streamweir::{Device, DeviceStream, Error, Graph, InstrumentError};

use crate::common::{Kernels, LEN, N, NOTHING, live, plus};
use streamweir::driver::sim::SimDriver;

fn graph(device: &Device) -> Graph {
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent::<u32>("x", LEN).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let capture = device.begin("timed").unwrap();
    let main = capture.origin();
    main.launch(
        &kernels.plus,
        plus {
            input: &x,
            output: &y,
            more: 1,
            len: N,
        },
    )
    .unwrap();
    main.copy(&x, &y).unwrap();
    main.fill(&y, 0).unwrap();
    drop(main);
    capture.end().unwrap()
}

#[test]
fn only_kernels_of_the_graph_are_timed() {
    let device = Device::with_driver(SimDriver::new(1));
    let (graph, stream) = (graph(&device), device.stream("timer").unwrap());
    let time = |nodes: &[u32]| {
        let nodes: Vec<_> = nodes.iter().copied().map(NodeId).collect();
        // SAFETY: the kernel adds to what it reads, whatever that is.
        unsafe { both(&graph, &stream, &nodes) }
    };
    for (nodes, says) in [
        (&[][..], "no node of graph \"timed\""),
        (&[0, 1], "n1 `copy` of graph \"timed\""),
        (&[7], "n7 of graph \"timed\""),
    ] {
        for error in time(nodes) {
            assert!(
                matches!(error, Error::Instrument(InstrumentError::NotTimed { .. })),
                "{error}"
            );
            assert!(error.to_string().contains(says), "{error}");
        }
    }
    // A fill may be part of what a library does in one call.
    for error in time(&[0, 2]) {
        assert_eq!(
            error.driver_class(),
            Some(ErrorClass::NotSupported),
            "{error}"
        );
    }
}

/// What a chain of nodes and the graph without them are refused with.
///
/// # Safety
/// As for both.
unsafe fn both(graph: &Graph, stream: &DeviceStream, nodes: &[NodeId]) -> [Error; 2] {
    // SAFETY: by the caller.
    unsafe {
        [
            graph.time_chain(stream, nodes, 3).unwrap_err(),
            graph.time_without(stream, nodes, 3).unwrap_err(),
        ]
    }
}

#[test]
fn a_device_without_a_clock_says_so_and_keeps_nothing() {
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let (graph, stream) = (graph(&device), device.stream("timer").unwrap());
    let before = live(&driver);
    // SAFETY: as above.
    for error in unsafe { both(&graph, &stream, &[NodeId(0)]) } {
        assert_eq!(
            error.driver_class(),
            Some(ErrorClass::NotSupported),
            "{error}"
        );
    }
    device.synchronize().unwrap();
    device.collect();
    assert_eq!(live(&driver), before);
    drop((graph, stream));
    device.synchronize().unwrap();
    device.collect();
    assert_eq!(live(&driver), NOTHING);
}

/// With a fault at each call of the driver's in turn, up to the clock that the
/// simulated device does not have, and the graph still does all that it did.
#[test]
fn a_fault_while_nodes_are_timed_leaves_the_graph_whole() {
    for without in [false, true] {
        let mut failed = Vec::new();
        for call in 0.. {
            let sim = SimDriver::new(1);
            let fault = FaultDriver::new(sim.clone());
            let device = Device::with_driver(fault.clone());
            let (graph, stream) = (graph(&device), device.stream("timer").unwrap());
            let before = live(&sim);
            fault.fail_call(call, ErrorClass::OutOfMemory);
            let nodes = [NodeId(0)];
            // SAFETY: as above.
            let timed = unsafe {
                match without {
                    false => graph.time_chain(&stream, &nodes, 1).map(drop),
                    true => graph.time_without(&stream, &nodes, 1).map(drop),
                }
            };
            timed.unwrap_err();
            let found = fault.failed();
            fault.disarm();
            device.synchronize().unwrap();
            device.collect();
            assert_eq!(live(&sim), before, "call {call}, {found:?}");
            graph.replay(&stream).unwrap();
            drop((graph, stream));
            device.synchronize().unwrap();
            device.collect();
            assert_eq!(live(&sim), NOTHING, "call {call}, {found:?}");
            match found {
                Some(name) => failed.push(name),
                None => break,
            }
        }
        let call = if without {
            "exec_enable"
        } else {
            "graph_add_child"
        };
        assert!(failed.contains(&"event_elapsed"), "{failed:?}");
        assert!(failed.contains(&call), "{failed:?}");
    }
}
