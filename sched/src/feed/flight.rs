//! The ring of steps: what is in flight, and until when.

use std::any::Any;
use std::sync::Arc;

use streamweir_hal::driver::{DriverResult, EventScope};
use streamweir_hal::owned::{Fences, OwnedEvent, OwnedStream, Shared};

/// What a copy in flight refers to.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// The latest steps of a feed, as many as its ring has places.
pub(super) struct Flights {
    ring: Vec<Flight>,
}

/// One place of the ring.
struct Flight {
    event: Arc<OwnedEvent>,
    until: Until,
    kept: Vec<Kept>,
}

/// What has to pass before the copies of a step have ended.
enum Until {
    /// Nothing: there are none.
    Now,
    /// The stream, for no event has been recorded behind them.
    Stream(Arc<OwnedStream>),
    /// The event of the place.
    Event,
}

impl Flights {
    pub(super) fn new(reclaim: &Shared, depth: usize) -> DriverResult<Self> {
        let place = || {
            Ok(Flight {
                event: Arc::new(OwnedEvent::new(reclaim, false)?),
                until: Until::Now,
                kept: Vec::new(),
            })
        };
        Ok(Self {
            ring: (0..depth).map(|_| place()).collect::<DriverResult<_>>()?,
        })
    }

    /// How many steps the ring has places for.
    pub(super) fn depth(&self) -> usize {
        self.ring.len()
    }

    /// The place of step number `step`.
    fn place(&self, step: u64) -> usize {
        (step % self.ring.len() as u64) as usize
    }

    /// Notes that a copy that is about to be enqueued on `stream` refers to `kept`.
    /// All copies of one step are on one stream.
    pub(super) fn hold(&mut self, step: u64, stream: &Arc<OwnedStream>, kept: [Kept; 2]) {
        let place = self.place(step);
        let flight = &mut self.ring[place];
        flight.kept.extend(kept);
        if !matches!(flight.until, Until::Stream(_)) {
            flight.until = Until::Stream(stream.clone());
        }
    }

    /// Records the event behind the copies of a step. Where that fails, the end of
    /// the stream stands for it.
    pub(super) fn end(&mut self, step: u64) -> DriverResult<()> {
        let place = self.place(step);
        let flight = &mut self.ring[place];
        if let Until::Stream(stream) = &flight.until {
            flight.event.record(stream, EventScope::Internal)?;
            flight.until = Until::Event;
        }
        Ok(())
    }

    /// Waits for the copies of whichever step has the place of `step`, and lets go of
    /// what they referred to.
    pub(super) fn wait(&mut self, step: u64) -> DriverResult<()> {
        let place = self.place(step);
        let flight = &mut self.ring[place];
        match &flight.until {
            Until::Now => return Ok(()),
            Until::Stream(stream) => stream.synchronize()?,
            Until::Event => flight.event.wait()?,
        }
        flight.until = Until::Now;
        flight.kept.clear();
        Ok(())
    }

    /// What passes when all copies have ended, and what they refer to until then.
    pub(super) fn leave(&mut self) -> (Fences, Vec<Kept>) {
        let (mut fences, mut kept) = (Fences::new(), Vec::new());
        for flight in self.ring.drain(..) {
            match flight.until {
                Until::Now => {}
                Until::Stream(stream) => fences.push(stream.into()),
                Until::Event => fences.push(flight.event.into()),
            }
            kept.extend(flight.kept);
        }
        (fences, kept)
    }
}
