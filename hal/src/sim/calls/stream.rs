//! Streams and events.

use super::super::SimDriver;
use super::super::objects::{Event, Stream};
use super::super::work::Work;
use crate::driver::{
    DriverResult, ErrorClass, EventHandle, EventScope, HostCall, StreamCalls, StreamHandle,
};

// SAFETY: streams and waits become dependencies of tasks.
unsafe impl StreamCalls for SimDriver {
    fn stream_create(&self, _priority: i32) -> DriverResult<StreamHandle> {
        self.call("cuStreamCreateWithPriority", |device| {
            let handle = StreamHandle(device.handle());
            device.streams.insert(handle, Stream::default());
            Ok(handle)
        })
    }

    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()> {
        self.release("cuStreamDestroy", |device| device.stream_destroy(stream))
    }

    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuStreamSynchronize", |device| {
            let tail = device.stream_tail(stream)?;
            device.potentially_unsafe()?;
            device.finish(&tail)
        })
    }

    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool> {
        self.call("cuStreamQuery", |device| {
            let tail = device.stream_tail(stream)?;
            device.potentially_unsafe()?;
            device.poll(&tail)
        })
    }

    fn event_create(&self, _timing: bool) -> DriverResult<EventHandle> {
        self.call("cuEventCreate", |device| {
            let handle = EventHandle(device.handle());
            device.events.insert(handle, Event::Unrecorded);
            Ok(handle)
        })
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()> {
        self.release("cuEventDestroy", |device| {
            match device.events.remove(&event) {
                Some(_) => Ok(()),
                None => Err(device.unknown(event)),
            }
        })
    }

    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        self.call("cuEventRecordWithFlags", |device| {
            device.event(event)?;
            match (scope, device.capture_of(stream)?) {
                (EventScope::Internal, _) => device.record_event(event, stream),
                (EventScope::External, Some(_)) => device.record(stream, Work::EventRecord(event)),
                (EventScope::External, None) => Err(device
                    .fail(ErrorClass::IllegalState)
                    .with("an external record needs a capturing stream")),
            }
        })
    }

    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        self.call("cuStreamWaitEvent", |device| {
            device.event(event)?;
            match (scope, device.capture_of(stream)?) {
                (EventScope::Internal, _) => device.wait_event(stream, event),
                (EventScope::External, Some(_)) => device.record(stream, Work::EventWait(event)),
                (EventScope::External, None) => Err(device
                    .fail(ErrorClass::IllegalState)
                    .with("an external wait needs a capturing stream")),
            }
        })
    }

    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool> {
        self.call("cuEventQuery", |device| {
            let tail = device.event_tail(event)?;
            device.poll(&tail)
        })
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()> {
        self.call("cuEventSynchronize", |device| {
            let tail = device.event_tail(event)?;
            device.finish(&tail)
        })
    }

    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        self.call("cuEventElapsedTime", |device| device.elapsed(start, end))
    }

    unsafe fn host_call(&self, stream: StreamHandle, call: HostCall) -> DriverResult<()> {
        self.call("cuLaunchHostFunc", |device| {
            device.submit(stream, Work::Host(call))
        })
    }
}
