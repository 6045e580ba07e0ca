//! An engine's capture, into which each command goes when it is recorded. The
//! engine began it and ends it, and replays the graph when it likes.

use std::sync::{Arc, Weak};

use streamweir_hal::driver::{CaptureStatus, DriverResult};
use streamweir_hal::owned::{GraphView, OwnedEvent, OwnedStream, Reclaim};
use streamweir_trace::StreamId;

use super::contract::{Frontier, Made, Sink};
use super::emit::{Emitter, SendError};
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::What;
use crate::capture::strand::ORIGIN;
use crate::device::OfEngine;
use crate::error::{During, EngineError, Error, Result};
use crate::graph::{GroupInner, Keep};

pub(in crate::capture) struct Attached {
    emitter: Emitter,
    /// Carries every fork and join.
    event: OwnedEvent,
}

impl Attached {
    /// On the engine's stream, which is capturing.
    pub(in crate::capture) fn new(origin: Arc<OwnedStream>, event: OwnedEvent) -> Self {
        Self {
            emitter: Emitter::capturing(origin),
            event,
        }
    }
}

impl Sink for Attached {
    fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    fn begin(&mut self, _recorded: &mut Recorded) -> Result<()> {
        Ok(())
    }

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

    fn check_end(&mut self, recorded: &Recorded) -> Result<()> {
        let origin = &recorded.strands.get(ORIGIN).name;
        let (info, _) = self
            .emitter
            .origin_info()
            .during(|| format!("looking at the capture of stream \"{origin}\""))?;
        if info.status == CaptureStatus::Invalidated {
            return Err(recorded.device.engine_capture_broken(origin));
        }
        Ok(())
    }

    fn end(&mut self, recorded: &mut Recorded) -> Result<Made> {
        let origin = &recorded.strands.get(ORIGIN).name;
        let (info, frontier) = self
            .emitter
            .origin_info()
            .during(|| format!("looking at the capture of stream \"{origin}\""))?;
        match (info.status, info.graph) {
            (CaptureStatus::Active, Some(graph)) => Ok(Made::Part {
                graph,
                frontier: frontier.to_vec(),
            }),
            _ => Err(Error::Engine(EngineError::NotCapturing {
                stream: origin.to_string(),
            })),
        }
    }

    fn abandon(&mut self, recorded: &mut Recorded) {
        let mut keep = recorded.keeps();
        // Pools that have ended already hold nothing any more.
        keep.lease = recorded.pools.pools.finish().ok();
        // An invalidated capture has no graph, and nothing of it will run: then
        // `keep` goes at once. A graph that cannot be tied to is not ours to end,
        // and the failure that brought us here has been told.
        if let Ok((info, _)) = self.emitter.origin_info()
            && let Some(graph) = info.graph
        {
            // SAFETY: the engine's capture is in progress and cannot end here.
            let graph = unsafe { GraphView::of_capture(&recorded.device.reclaim, graph) };
            let _ = tie(recorded, graph, keep);
        }
    }
}

/// Ties what our nodes refer to to the life of the engine's graph.
pub(in crate::capture) fn tie(recorded: &Recorded, graph: GraphView<'_>, keep: Keep) -> Result<()> {
    // The engine's replays take no turns, so the host cannot wait for them.
    let of_engine = keep.pinned.iter().map(OfEngine::of).collect();
    let keep = Tied {
        reclaim: Arc::downgrade(&recorded.device.reclaim),
        kept: Some((keep, of_engine, recorded.home.clone())),
    };
    graph.retain(Box::new(keep)).during(|| {
        format!(
            "tying the buffers of \"{}\" to the engine's graph",
            recorded.name()
        )
    })
}

/// What the driver holds for an engine's graph.
///
/// The driver may drop it on a thread where no driver call is allowed, so it
/// only moves what it kept to the reclaimer. When the device is gone by then,
/// nobody is left who could release it, and it is leaked rather than released
/// where that is forbidden.
struct Tied {
    reclaim: Weak<Reclaim>,
    kept: Option<(Keep, Vec<OfEngine>, Arc<GroupInner>)>,
}

impl Drop for Tied {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        match self.reclaim.upgrade() {
            Some(reclaim) => reclaim.retire(Vec::new(), Box::new(kept)),
            None => std::mem::forget(kept),
        }
    }
}
