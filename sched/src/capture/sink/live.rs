//! A capture of our own, into which each command goes when it is recorded.

use std::sync::Arc;

use streamweir_hal::driver::{CaptureMode, DriverResult};
use streamweir_hal::owned::{OwnedEvent, OwnedStream};
use streamweir_trace::StreamId;

use super::contract::{Frontier, Made, Sink};
use super::emit::{Emitter, SendError};
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::What;
use crate::capture::strand::ORIGIN;
use crate::error::{During, Result};

pub(in crate::capture) struct Live {
    emitter: Emitter,
    /// Carries every fork and join: a wait looks at what was recorded last, so
    /// one event does for all.
    event: OwnedEvent,
}

impl Live {
    pub(in crate::capture) fn new(origin: Arc<OwnedStream>, event: OwnedEvent) -> Self {
        Self {
            emitter: Emitter::capturing(origin),
            event,
        }
    }
}

impl Sink for Live {
    fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    fn begin(&mut self, recorded: &mut Recorded) -> Result<()> {
        let origin = self.emitter.stream(ORIGIN);
        // SAFETY: `end` or `abandon` ends it before the streams go.
        let begun = unsafe { origin.begin_capture(CaptureMode::ThreadLocal) };
        begun.during(|| format!("beginning capture \"{}\"", recorded.name()))
    }

    #[inline]
    fn send(
        &mut self,
        what: &What,
        params: &mut [u8],
        stream: StreamId,
    ) -> Result<Sent, SendError> {
        self.emitter.emit(what, params, stream).map(Sent::Node)
    }

    fn order(&mut self, later: StreamId, earlier: StreamId) -> DriverResult<()> {
        self.emitter.order(&self.event, later, earlier)
    }

    fn frontier(&mut self, stream: StreamId) -> DriverResult<Frontier> {
        self.emitter.frontier(stream).map(Frontier::Nodes)
    }

    fn end(&mut self, recorded: &mut Recorded) -> Result<Made> {
        let ended = self.emitter.stream(ORIGIN).end_capture();
        ended
            .during(|| format!("ending capture \"{}\"", recorded.name()))
            .map(Made::Graph)
    }

    fn abandon(&mut self, _recorded: &mut Recorded) {
        self.emitter.end_failed_capture();
    }
}
