//! What is refused when nodes are to be timed. The simulated device has no clock;
//! on a GPU the times are those of `decode --profile`.

use streamweir::driver::ErrorClass;
use streamweir::trace::NodeId;
use streamweir::{Device, Error, Graph};

use crate::common::{GRID, Kernels, LEN, N, NOTHING, live};
use streamweir::driver::sim::SimDriver;

fn graph(device: &Device) -> Graph {
    let kernels = Kernels::load(device).unwrap();
    let x = device.persistent::<u32>("x", LEN).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let capture = device.begin("timed").unwrap();
    let main = capture.origin();
    main.launch(&kernels.plus, GRID, (&x, &y, 1, N)).unwrap();
    main.copy(&x, &y).unwrap();
    main.fill(&y, 0).unwrap();
    drop(main);
    capture.end().unwrap()
}

#[test]
fn only_kernels_of_the_graph_are_timed() {
    let device = Device::with_driver(SimDriver::new(1));
    let (graph, stream) = (graph(&device), device.stream("timer").unwrap());
    // SAFETY: the kernel adds to what it reads, whatever that is.
    let time = |nodes: &[u32]| unsafe {
        let nodes: Vec<_> = nodes.iter().copied().map(NodeId).collect();
        graph.time_chain(&stream, &nodes, 3)
    };
    for (nodes, says) in [
        (&[][..], "no node of graph \"timed\""),
        (&[0, 1], "n1 `copy` of graph \"timed\""),
        (&[7], "n7 of graph \"timed\""),
    ] {
        let error = time(nodes).unwrap_err();
        assert!(matches!(error, Error::NotTimed { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // A fill may be part of what a library does in one call.
    let error = time(&[0, 2]).unwrap_err();
    assert_eq!(
        error.driver_class(),
        Some(ErrorClass::NotSupported),
        "{error}"
    );
}

#[test]
fn a_device_without_a_clock_says_so_and_keeps_nothing() {
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let (graph, stream) = (graph(&device), device.stream("timer").unwrap());
    let before = live(&driver);
    // SAFETY: as above.
    let error = unsafe { graph.time_chain(&stream, &[NodeId(0)], 3) }.unwrap_err();
    assert_eq!(
        error.driver_class(),
        Some(ErrorClass::NotSupported),
        "{error}"
    );
    device.synchronize().unwrap();
    device.collect();
    assert_eq!(live(&driver), before);
    drop((graph, stream));
    device.synchronize().unwrap();
    device.collect();
    assert_eq!(live(&driver), NOTHING);
}
