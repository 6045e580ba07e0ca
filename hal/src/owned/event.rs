//! Events.

use std::sync::Arc;

use super::reclaim::{Ends, Fence, Garbage, Relaxed, Shared};
use super::stream::OwnedStream;
use crate::driver::{DriverResult, EventHandle, EventScope};

/// An event of the driver.
#[derive(Debug)]
pub struct OwnedEvent {
    reclaim: Shared,
    handle: EventHandle,
}

impl OwnedEvent {
    /// A new event, which can be timed if `timing`.
    ///
    /// # Errors
    /// When the driver has no more.
    pub fn new(reclaim: &Shared, timing: bool) -> DriverResult<Self> {
        let handle = reclaim.driver().event_create(timing)?;
        Ok(Self {
            reclaim: reclaim.clone(),
            handle,
        })
    }

    /// Records what `stream` has enqueued so far.
    ///
    /// # Errors
    /// When the driver refuses, or the stream is of another device.
    pub fn record(&self, stream: &OwnedStream, scope: EventScope) -> DriverResult<()> {
        self.reclaim.same(stream.reclaim(), "event_record")?;
        // SAFETY: both handles have their owners here, so they are live.
        unsafe {
            self.reclaim
                .driver()
                .event_record(self.handle, stream.handle(), scope)
        }
    }

    /// Makes the next work of `stream` wait for what was recorded.
    ///
    /// # Errors
    /// When the driver refuses, or the stream is of another device.
    pub fn order(&self, stream: &OwnedStream, scope: EventScope) -> DriverResult<()> {
        self.reclaim.same(stream.reclaim(), "stream_wait")?;
        // SAFETY: as above.
        unsafe {
            self.reclaim
                .driver()
                .stream_wait(stream.handle(), self.handle, scope)
        }
    }

    /// Waits for what was recorded.
    ///
    /// # Errors
    /// When that work failed.
    pub fn wait(&self) -> DriverResult<()> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: as above.
        unsafe { self.reclaim.driver().event_synchronize(self.handle) }
    }

    /// Milliseconds on the device's clock from this event to `end`.
    ///
    /// # Errors
    /// When one of them is not recorded or not passed, or of another device; where
    /// there is no clock.
    pub fn elapsed_ms(&self, end: &Self) -> DriverResult<f32> {
        self.reclaim.same(&end.reclaim, "event_elapsed")?;
        // SAFETY: as above, for both events.
        unsafe { self.reclaim.driver().event_elapsed(self.handle, end.handle) }
    }
}

/// Asked by the reclaimer, which is in relaxed mode.
impl Ends for OwnedEvent {
    fn has_ended(&self) -> DriverResult<bool> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().event_query(self.handle) }
    }

    fn wait(&self) -> DriverResult<()> {
        self.wait()
    }
}

impl From<Arc<OwnedEvent>> for Fence {
    fn from(event: Arc<OwnedEvent>) -> Self {
        Self::of(event)
    }
}

impl Drop for OwnedEvent {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Event(self.handle));
    }
}
