//! The device itself: each command runs when it is recorded.

use std::convert::Infallible;
use std::sync::Arc;

use streamweir_hal::driver::DriverResult;
use streamweir_hal::owned::{Fence, OwnedEvent, OwnedStream};
use streamweir_trace::{StreamId, Trace};

use super::contract::{Frontier, Made, Sink};
use super::emit::{Emitter, SendError};
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::What;
use crate::capture::strand::ORIGIN;
use crate::capture::trace;
use crate::device::DeviceInner;
use crate::error::{During, Result};
use crate::graph::Keep;
use crate::turns::{Footprint, Launch, in_turn};

pub(in crate::capture) struct Eager {
    emitter: Emitter,
    /// Carries every fork and join.
    event: OwnedEvent,
    device: Arc<DeviceInner>,
}

impl Eager {
    pub(in crate::capture) fn new(
        device: &Arc<DeviceInner>,
        origin: Arc<OwnedStream>,
        event: OwnedEvent,
    ) -> Self {
        device.watch(&origin);
        Self {
            emitter: Emitter::running(origin),
            event,
            device: device.clone(),
        }
    }
}

impl Sink for Eager {
    fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    /// Orders the run after all that is in flight: what it will touch is not
    /// known yet.
    fn begin(&mut self, recorded: &mut Recorded) -> Result<()> {
        let origin = self.emitter.stream(ORIGIN);
        for last in self.device.groups.latest_launches() {
            last.before(&self.device.reclaim, origin)
                .during(|| format!("ordering eager run \"{}\"", recorded.name()))?;
        }
        Ok(())
    }

    fn add_stream(&mut self, stream: Arc<OwnedStream>) {
        self.device.watch(&stream);
        self.emitter.add(stream);
    }

    fn send(
        &mut self,
        what: &What,
        params: &mut [u8],
        stream: StreamId,
    ) -> Result<Sent, SendError> {
        self.emitter.call(what, params, stream)?;
        Ok(Sent::Unseen)
    }

    fn order(&mut self, later: StreamId, earlier: StreamId) -> DriverResult<()> {
        self.emitter.order(&self.event, later, earlier)
    }

    fn frontier(&mut self, _stream: StreamId) -> DriverResult<Frontier> {
        Ok(Frontier::Running)
    }

    fn end(&mut self, _recorded: &mut Recorded) -> Result<Made> {
        Ok(Made::Work(self.emitter.streams().to_vec()))
    }

    /// What a failed run has enqueued goes on.
    fn abandon(&mut self, recorded: &mut Recorded) {
        let trace = trace::declared(recorded);
        let mut keep = recorded.keeps();
        // Ending the pools well, and not aborting them, holds the memory until
        // the work has ended. Pools that have ended already hold nothing.
        keep.lease = recorded.pools.pools.finish().ok();
        // The caller gets the failure that ended the run.
        let _ = hand_over(recorded, self.emitter.streams(), &trace, keep);
    }
}

/// Makes the run the latest launch of its own group and of all that conflict
/// with it, whatever fails: what it enqueued runs all the same. What it refers to
/// is released behind it. Returns the first failure.
pub(in crate::capture) fn hand_over(
    recorded: &Recorded,
    streams: &[Arc<OwnedStream>],
    trace: &Trace,
    keep: Keep,
) -> DriverResult<()> {
    let reclaim = &recorded.device.reclaim;
    let origin = &streams[ORIGIN.index()];
    let mut done = Ok(());
    // The event that others wait for is recorded on the origin, and a run that
    // failed may have streams out.
    let strands = recorded.strands.all().iter().zip(streams).skip(1);
    for (_, stream) in strands.filter(|(strand, _)| strand.active) {
        done = done.and(Launch::new(stream).before(reclaim, origin));
    }
    let footprint = Arc::new(Footprint::of(trace));
    let turns = recorded
        .device
        .groups
        .enroll(&recorded.home.turns, &footprint);
    let entered: std::result::Result<_, Infallible> = in_turn(
        &turns,
        |last| {
            let after = last.before(reclaim, origin);
            done = std::mem::replace(&mut done, Ok(())).and(after);
            Ok(())
        },
        || Ok(Launch::new(origin)),
    );
    let Ok(_) = entered;
    let fences: Vec<Fence> = streams
        .iter()
        .map(|stream| Launch::new(stream).fence(reclaim))
        .collect();
    // The group is asked for conflicts as long as the run is under way.
    let used = (keep, streams.to_vec(), recorded.home.clone(), footprint);
    reclaim.retire(fences, Box::new(used));
    done
}
