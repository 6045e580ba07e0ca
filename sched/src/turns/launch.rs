//! One launch, and how others are ordered after it.

use std::sync::Arc;

use streamweir_hal::driver::{DriverResult, EventScope};
use streamweir_hal::owned::{Fence, OwnedEvent, OwnedStream, Shared};

use super::late::Late;

/// A launch that may still be in flight.
///
/// On a stream of ours the event is recorded only when somebody asks, for a
/// replay on the same stream needs none, and an event costs as much host time
/// as a good part of a launch. Recorded late it stands for later work of the
/// stream as well, which orders more, never less. An engine's stream may be
/// captured by the engine between two replays, when nothing can be recorded on
/// it; there the event is recorded at once.
pub(crate) struct Launch {
    pub(crate) stream: Arc<OwnedStream>,
    /// The number of the graph; 0 for an eager run.
    graph: u64,
    event: Late<Arc<OwnedEvent>>,
}

impl Launch {
    /// The launch that has just been enqueued on `stream`.
    pub(crate) fn new(stream: &Arc<OwnedStream>) -> Arc<Self> {
        Self::of_graph(0, stream)
    }

    /// The launch of graph number `graph`.
    pub(crate) fn of_graph(graph: u64, stream: &Arc<OwnedStream>) -> Arc<Self> {
        Arc::new(Self {
            stream: stream.clone(),
            graph,
            event: Late::new(),
        })
    }

    /// Whether it is of this graph on this stream of ours.
    #[inline]
    pub(crate) fn is(&self, graph: u64, stream: &Arc<OwnedStream>) -> bool {
        self.graph == graph && Arc::ptr_eq(&self.stream, stream) && stream.is_ours()
    }

    /// Whether it is on this stream.
    pub(crate) fn is_on(&self, stream: &Arc<OwnedStream>) -> bool {
        Arc::ptr_eq(&self.stream, stream) || self.stream.handle() == stream.handle()
    }

    /// Whether this launch may stand for a later one on the same stream of ours,
    /// which has been enqueued: nobody has asked for its event, so it will be recorded
    /// after both.
    #[inline]
    pub(crate) fn stands_for_later(&self) -> bool {
        !self.event.is_asked_for()
    }

    /// Records the event now, where that may not be put off.
    pub(crate) fn record_where_due(&self, reclaim: &Shared) -> DriverResult<()> {
        if self.stream.is_ours() {
            Ok(())
        } else {
            self.event(reclaim).map(drop)
        }
    }

    /// What passes when the launch has ended.
    pub(crate) fn fence(&self, reclaim: &Shared) -> Fence {
        match self.event(reclaim) {
            Ok(event) => event.into(),
            Err(_) => self.stream.clone().into(),
        }
    }

    /// The event that passes when the launch has ended.
    pub(crate) fn event(&self, reclaim: &Shared) -> DriverResult<Arc<OwnedEvent>> {
        self.event.get(|| {
            let event = Arc::new(OwnedEvent::new(reclaim, false)?);
            event.record(&self.stream, EventScope::Internal)?;
            Ok(event)
        })
    }

    /// Waits for the launch on the host, by `event` where none has been recorded for it.
    pub(crate) fn wait(
        &self,
        reclaim: &Shared,
        event: &mut Option<OwnedEvent>,
    ) -> DriverResult<()> {
        if let Some(recorded) = self.event.made() {
            return recorded.wait();
        }
        let event = match event {
            Some(event) => event,
            none => none.insert(OwnedEvent::new(reclaim, false)?),
        };
        event.record(&self.stream, EventScope::Internal)?;
        event.wait()
    }

    /// Orders what `stream` does next after this launch.
    pub(crate) fn before(&self, reclaim: &Shared, stream: &Arc<OwnedStream>) -> DriverResult<()> {
        if self.is_on(stream) {
            return Ok(());
        }
        self.event(reclaim)?.order(stream, EventScope::Internal)
    }
}
