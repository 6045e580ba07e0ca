//! Streams, and the events that order them.

use super::{DriverResult, EventHandle, EventScope, HostCall, StreamHandle};

/// Streams, and the events that order them.
///
/// # Safety
/// An implementation keeps the meaning of every method. Above all, work on one stream
/// runs in order, and a wait orders what the event recorded before what the stream does
/// next.
pub unsafe trait StreamCalls {
    /// Creates a stream that does not synchronise with the legacy default
    /// stream. A lower number is a higher priority; out of range is clamped.
    fn stream_create(&self, priority: i32) -> DriverResult<StreamHandle>;

    /// Destroys a stream; its enqueued work still runs.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and takes part in no capture.
    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()>;

    /// Waits for all work of the stream.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()>;

    /// Whether all work of the stream has ended.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool>;

    /// Creates an event.
    fn event_create(&self, timing: bool) -> DriverResult<EventHandle>;

    /// Destroys an event. Waits already enqueued stay valid.
    ///
    /// # Safety
    /// The handle is live and not used afterwards, by a captured graph neither.
    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()>;

    /// Records an event on a stream. Under capture this records the stream's
    /// frontier and makes no node; with [`EventScope::External`] it makes an
    /// event-record node.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()>;

    /// Makes the stream's next work wait for an event. Waiting for an event
    /// that a capture recorded takes the stream into that capture; with
    /// [`EventScope::External`] the wait becomes an event-wait node.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()>;

    /// Whether all that the event recorded has ended.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool>;

    /// Waits for all that the event recorded.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()>;

    /// Milliseconds between two recorded timing events. A device without a
    /// clock answers with [`ErrorClass::NotSupported`](super::ErrorClass::NotSupported).
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32>;

    /// Enqueues a call of a function of the host: it is made when the stream comes to
    /// it, and at every replay of a graph that captures it, on a thread of the driver.
    ///
    /// # Safety
    /// The handle is live. Until the call, and every replay of a graph that captures it,
    /// has ended, the function may be called with its data on any thread; it does not
    /// unwind, and calls no driver.
    unsafe fn host_call(&self, stream: StreamHandle, call: HostCall) -> DriverResult<()>;
}
