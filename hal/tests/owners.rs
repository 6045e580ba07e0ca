//! What owners refuse by themselves, whoever holds them.

use streamweir_base::Backing;
use streamweir_hal::driver::{CaptureMode, DriverError, ErrorClass, EventScope};
use streamweir_hal::owned::{
    DeviceBacking, DeviceMemory, HostMemory, OwnedEvent, OwnedGraph, OwnedStream, Reclaim, Shared,
};
use streamweir_hal::sim::SimDriver;
use streamweir_trace::ByteRange;

fn empty_graph(device: &Shared) -> OwnedGraph {
    let stream = OwnedStream::new(device, 0).unwrap();
    // SAFETY: the capture ends here.
    unsafe { stream.begin_capture(CaptureMode::ThreadLocal) }.unwrap();
    stream.end_capture().unwrap()
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, DriverError>) {
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::InvalidHandle, "{error}");
    assert!(error.to_string().contains("another device"), "{error}");
}

/// Handles of two devices are the same numbers here, so a call that let one
/// through would succeed.
#[test]
fn an_object_of_another_device_is_refused() {
    let [here, there] = [1, 2].map(|seed| Reclaim::new(SimDriver::with_clock(seed)));
    let [ours, theirs] = [&here, &there].map(|device| OwnedStream::new(device, 0).unwrap());
    assert_eq!(ours.handle(), theirs.handle());
    let event = OwnedEvent::new(&here, true).unwrap();
    let other = OwnedEvent::new(&there, true).unwrap();
    for scope in [EventScope::Internal, EventScope::External] {
        is_refused(event.record(&theirs, scope));
        is_refused(event.order(&theirs, scope));
    }
    event.record(&ours, EventScope::Internal).unwrap();
    other.record(&theirs, EventScope::Internal).unwrap();
    event.wait().unwrap();
    other.wait().unwrap();
    is_refused(event.elapsed_ms(&other));
    event.elapsed_ms(&event).unwrap();
    let (mut graph, strange) = (empty_graph(&here), empty_graph(&there));
    // SAFETY: no nodes are named.
    is_refused(unsafe { graph.then(&[], &strange) });
    is_refused(ours.upload_graph(&strange.instantiate().unwrap()));
    ours.upload_graph(&graph.instantiate().unwrap()).unwrap();
}

#[test]
fn a_backing_takes_back_what_it_gave_out_and_once() {
    let sim = SimDriver::new(1);
    let device = Reclaim::new(sim.clone());
    let backing = DeviceBacking::new(device.clone());
    let memory = DeviceMemory::new(&device, 4096).unwrap();
    let piece = backing.reserve(4096).unwrap();
    let live = sim.live();
    let halves = ByteRange::new(piece.start, piece.start + piece.len() / 2);
    for range in [memory.range(), halves, ByteRange::new(64, 128)] {
        backing.release(range);
        device.collect();
        assert_eq!(sim.live(), live, "{range} was given back");
        let told = device.take_failures();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].to_string().contains("not given out"), "{told:?}");
    }
    backing.release(piece);
    device.collect();
    assert!(device.take_failures().is_empty());
    assert_eq!(sim.live().allocations, 1);
    backing.release(piece);
    device.collect();
    assert_eq!(device.take_failures().len(), 1);
    drop((backing, memory));
    device.collect();
    assert!(device.take_failures().is_empty());
    assert_eq!(sim.live().allocations, 0);
}

#[test]
fn host_memory_of_no_bytes_is_refused() {
    let device = Reclaim::new(SimDriver::new(1));
    let error = HostMemory::zeroed(&device, 0).unwrap_err();
    assert_eq!(error.class, ErrorClass::InvalidValue);
}
