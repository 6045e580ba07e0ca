//! Events.

use super::{Garbage, OwnedStream, Relaxed, Shared};
use crate::driver::{DriverResult, EventHandle, EventScope};

/// An event of the driver.
pub(crate) struct OwnedEvent {
    reclaim: Shared,
    handle: EventHandle,
}

impl OwnedEvent {
    pub(crate) fn new(reclaim: &Shared, timing: bool) -> DriverResult<Self> {
        let handle = reclaim.driver().event_create(timing)?;
        Ok(Self {
            reclaim: reclaim.clone(),
            handle,
        })
    }

    pub(crate) fn record(&self, stream: &OwnedStream, scope: EventScope) -> DriverResult<()> {
        // SAFETY: both handles have their owners here, so they are live.
        unsafe {
            self.reclaim
                .driver()
                .event_record(self.handle, stream.handle(), scope)
        }
    }

    /// Makes the next work of `stream` wait for what was recorded.
    pub(crate) fn order(&self, stream: &OwnedStream, scope: EventScope) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe {
            self.reclaim
                .driver()
                .stream_wait(stream.handle(), self.handle, scope)
        }
    }

    pub(crate) fn wait(&self) -> DriverResult<()> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: as above.
        unsafe { self.reclaim.driver().event_synchronize(self.handle) }
    }

    /// Whether what was recorded has ended.
    pub(super) fn has_passed(&self) -> DriverResult<bool> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().event_query(self.handle) }
    }

    pub(crate) fn elapsed_ms(&self, end: &Self) -> DriverResult<f32> {
        // SAFETY: as above, for both events.
        unsafe { self.reclaim.driver().event_elapsed(self.handle, end.handle) }
    }
}

impl Drop for OwnedEvent {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Event(self.handle));
    }
}
