//! The device itself: each command runs when it is recorded.

use std::convert::Infallible;
use std::sync::Arc;

use streamweir_hal::driver::DriverResult;
use streamweir_hal::owned::{Fence, OwnedStream};
use streamweir_trace::StreamId;

use super::contract::{Frontier, Made, Sink};
use super::emit::{Emitter, SendError};
use super::home::{Home, Proved};
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::{Draft, What};
use crate::capture::strand::ORIGIN;
use crate::capture::trace;
use crate::device::{DeviceInner, PersistentInner};
use crate::error::{During, Result};
use crate::graph::Keep;
use crate::turns::{Enrolled, Footprint, Launch, in_turn};

pub(in crate::capture) struct Eager {
    emitter: Emitter,
    device: Arc<DeviceInner>,
    /// None when the run has ended well, and has left it.
    home: Option<Box<Home>>,
}

impl Eager {
    /// A run whose origin has this priority.
    pub(in crate::capture) fn new(
        device: &Arc<DeviceInner>,
        mut home: Box<Home>,
        priority: i32,
    ) -> Result<Self> {
        let origin = home.take_stream(device, priority)?;
        Ok(Self {
            emitter: Emitter::running(origin),
            device: device.clone(),
            home: Some(home),
        })
    }

    /// The home of the run, until it has ended well.
    pub(in crate::capture) fn home(&mut self) -> Option<&mut Home> {
        self.home.as_deref_mut()
    }

    /// Orders a stream for what it is about to be given: after the launches in flight
    /// that conflict; with `all`, after every one.
    #[inline]
    pub(in crate::capture) fn before(
        &mut self,
        persistents: &[Arc<PersistentInner>],
        draft: &Draft,
        stream: StreamId,
        all: bool,
    ) -> DriverResult<()> {
        let Some(home) = &mut self.home else {
            return Ok(());
        };
        let on = (stream, self.emitter.stream(stream));
        home.waits
            .touch(&self.device.reclaim, on, draft, persistents, all)
    }

    /// Makes a run that ended well the latest launch of its home, and of all that
    /// conflict with it. What it refers to is released behind it. The next run may have
    /// the home.
    pub(in crate::capture) fn end_well(
        &mut self,
        recorded: &Recorded,
        proved: &Arc<Proved>,
        keep: Keep,
    ) -> DriverResult<()> {
        let Some(mut home) = self.home.take() else {
            return Ok(());
        };
        home.waits.end(ORIGIN);
        let footprint = Arc::new(proved.footprint.clone());
        let enrolled = home.enroll(&self.device, recorded.name(), proved, &footprint);
        let origin = self.emitter.stream(ORIGIN);
        let (launch, done) = take_turn(recorded, &enrolled, origin, |last| {
            home.waits.has_passed(last)
        });
        // All streams are joined into the origin.
        let fence = launch.fence(&recorded.device.reclaim);
        let used = (keep, recorded.home.clone(), footprint);
        recorded.device.reclaim.retire(vec![fence], Box::new(used));
        if done.is_ok() {
            home.leave(&self.device, self.emitter.streams());
        }
        done
    }
}

impl Sink for Eager {
    fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    /// Orders the run after the run before. What else it comes after is seen when it
    /// touches something.
    fn begin(&mut self, recorded: &mut Recorded) -> Result<()> {
        let Some(home) = &mut self.home else {
            return Ok(());
        };
        let origin = self.emitter.stream(ORIGIN);
        home.waits
            .begin(&self.device, &recorded.home.turns, origin)
            .during(|| format!("ordering eager run \"{}\"", recorded.name()))
    }

    fn add_stream(&mut self, device: &DeviceInner, priority: i32) -> Result<()> {
        let stream = match &mut self.home {
            Some(home) => home.take_stream(device, priority)?,
            None => Arc::new(device.take_stream(priority)?),
        };
        self.emitter.add(stream);
        Ok(())
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
        let Some(home) = &mut self.home else {
            return Ok(());
        };
        self.emitter.order(&home.event, later, earlier)?;
        home.waits.order(later, earlier);
        Ok(())
    }

    fn frontier(&mut self, _stream: StreamId) -> DriverResult<Frontier> {
        Ok(Frontier::Running)
    }

    fn end(&mut self, _recorded: &mut Recorded) -> Result<Made> {
        Ok(Made::Work)
    }

    /// What a failed run has enqueued goes on. Its home goes with it.
    fn abandon(&mut self, recorded: &mut Recorded) {
        let Some(home) = self.home.take() else { return };
        let trace = trace::declared(recorded);
        let mut keep = recorded.keeps();
        // Ending the pools well, and not aborting them, holds the memory until
        // the work has ended. Pools that have ended already hold nothing.
        keep.lease = recorded.pools.pools.finish().ok();
        // The caller gets the failure that ended the run.
        let _ = hand_over(recorded, home, self.emitter.streams(), &trace, keep);
    }
}

/// Makes a run that failed the latest launch of its home and of all that conflict
/// with it: what it enqueued runs all the same. What it refers to is released behind
/// it.
fn hand_over(
    recorded: &Recorded,
    home: Box<Home>,
    streams: &[Arc<OwnedStream>],
    trace: &streamweir_trace::Trace,
    keep: Keep,
) -> DriverResult<()> {
    let reclaim = &recorded.device.reclaim;
    let origin = &streams[ORIGIN.index()];
    let mut done = Ok(());
    // The event that others wait for is recorded on the origin, and the run may have
    // streams out.
    let strands = recorded.strands.all().iter().zip(streams).skip(1);
    for (_, stream) in strands.filter(|(strand, _)| strand.active) {
        done = done.and(Launch::new(stream).before(reclaim, origin));
    }
    let footprint = Arc::new(Footprint::of(trace));
    let groups = &recorded.device.groups;
    let enrolled = groups.enroll_again(&recorded.home.turns, &footprint, None);
    let (_, turn) = take_turn(recorded, &enrolled, origin, |_| false);
    let fences: Vec<Fence> = streams
        .iter()
        .map(|stream| Launch::new(stream).fence(reclaim))
        .collect();
    // The group is asked for conflicts as long as the run is under way.
    let used = (keep, streams.to_vec(), recorded.home.clone(), footprint);
    drop(home);
    reclaim.retire(fences, Box::new(used));
    done.and(turn)
}

/// Makes the run the latest launch in all its turns, whatever fails. Returns it with
/// the first failure.
fn take_turn(
    recorded: &Recorded,
    enrolled: &Enrolled,
    origin: &Arc<OwnedStream>,
    has_passed: impl Fn(&Arc<Launch>) -> bool,
) -> (Arc<Launch>, DriverResult<()>) {
    let mut done = Ok(());
    let entered: std::result::Result<_, Infallible> = in_turn(
        &enrolled.turns,
        |last| {
            if !has_passed(last) {
                let after = last.before(&recorded.device.reclaim, origin);
                done = std::mem::replace(&mut done, Ok(())).and(after);
            }
            Ok(())
        },
        || Ok(Launch::new(origin)),
    );
    let Ok(launch) = entered;
    (launch, done)
}
