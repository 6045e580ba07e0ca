//! A capture of our own, into which the commands go when all of them have been
//! recorded and placed.
//!
//! While the capture records, nothing goes to the driver. At the end the
//! commands are sent in the order of a [schedule](crate::capture::plan). This
//! allocates nothing, synchronises with nothing and reads no device memory:
//! streams, events and the arena's bytes are there before the driver's capture
//! begins.

use std::collections::HashMap;
use std::sync::Arc;

use streamweir_alloc::{Lease, View};
use streamweir_hal::driver::{CaptureMode, DriverResult, EventScope};
use streamweir_hal::owned::{OwnedEvent, OwnedStream};
use streamweir_trace::StreamId;

use super::contract::{Frontier, Made, Sink};
use super::emit::{Emitter, SendError};
use crate::capture::call::{Deferred, ForeignAddresses};
use crate::capture::nodes::Sent;
use crate::capture::plan::{self, Step};
use crate::capture::recorded::Recorded;
use crate::capture::recording::{What, indices};
use crate::capture::strand::ORIGIN;
use crate::error::{During, Error, Result};

pub(in crate::capture) struct Planned {
    emitter: Emitter,
    /// The capture's part of the arena. The pools have none of it.
    view: View,
    /// The calls of libraries, by command.
    deferred: HashMap<u32, Deferred>,
    steps: Vec<Step>,
    /// How many events the steps need.
    slots: usize,
}

impl Planned {
    pub(in crate::capture) fn new(origin: Arc<OwnedStream>, view: View) -> Self {
        Self {
            emitter: Emitter::capturing(origin),
            view,
            deferred: HashMap::new(),
            steps: Vec::new(),
            slots: 0,
        }
    }

    /// Puts the call aside that a command stands for.
    pub(in crate::capture) fn defer(&mut self, command: u32, call: Deferred) {
        self.deferred.insert(command, call);
    }

    fn step(&mut self, step: Step, events: &[OwnedEvent], recorded: &mut Recorded) -> Result<()> {
        match step {
            Step::Wait { stream, slot } => events[slot]
                .order(self.emitter.stream(stream), EventScope::Internal)
                .during(|| ordering(stream, recorded)),
            Step::Record { stream, slot } => events[slot]
                .record(self.emitter.stream(stream), EventScope::Internal)
                .during(|| ordering(stream, recorded)),
            Step::Send { command } => match self.deferred.remove(&command) {
                None => self.send_command(command, recorded),
                Some(call) => self.make_call(command, call, recorded),
            },
        }
    }

    fn send_command(&mut self, at: u32, recorded: &mut Recorded) -> Result<()> {
        let recording = &mut recorded.recording;
        let command = &recording.commands[at as usize];
        let stream = command.spot.stream;
        let params = &mut recording.param_bytes[indices(&command.params)];
        let sent = self.emitter.emit(&command.what, params, stream);
        let node = sent.map_err(|error| {
            let name = &recorded.strands.get(stream).name;
            error.during(recorded.doing_command(at), name)
        })?;
        recorded.nodes.set(at, Sent::Node(node));
        Ok(())
    }

    fn make_call(&mut self, at: u32, call: Deferred, recorded: &mut Recorded) -> Result<()> {
        let stream = recorded.recording.commands[at as usize].spot.stream;
        let during = || recorded.doing_command(at);
        let before = self.emitter.frontier(stream).during(during)?;
        let ranges = recorded.placed.as_ref().map(|placed| &**placed.ranges());
        let (touched, workspace) = call.addresses(&recorded.recording, ranges.unwrap_or_default());
        let addresses = ForeignAddresses {
            touched: &touched,
            workspace,
        };
        // The capture is in no cell here: the call may do to its handles what it
        // likes, and finds it ended.
        let called = (call.enqueue)(self.emitter.stream(stream).handle(), addresses);
        called.map_err(|source| Error::Foreign {
            during: during(),
            source,
        })?;
        // A call that enqueued nothing ends where it began, and so do those who
        // wait for it.
        let after = self.emitter.frontier(stream).during(during)?;
        recorded.nodes.set(at, Sent::Call { before, after });
        Ok(())
    }
}

fn ordering(stream: StreamId, recorded: &Recorded) -> String {
    format!(
        "ordering stream \"{}\" in capture \"{}\"",
        recorded.strands.get(stream).name,
        recorded.name()
    )
}

impl Sink for Planned {
    fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    fn begin(&mut self, _recorded: &mut Recorded) -> Result<()> {
        Ok(())
    }

    fn send(
        &mut self,
        _what: &What,
        _params: &mut [u8],
        _stream: StreamId,
    ) -> Result<Sent, SendError> {
        Ok(Sent::Unseen)
    }

    fn order(&mut self, _later: StreamId, _earlier: StreamId) -> DriverResult<()> {
        Ok(())
    }

    fn frontier(&mut self, _stream: StreamId) -> DriverResult<Frontier> {
        Ok(Frontier::NotSent)
    }

    fn place(&mut self, recorded: &mut Recorded) -> Result<()> {
        let keeps_order = |command: u32| {
            let call = self.deferred.get(&command);
            call.is_some_and(|call| call.keeps_order)
        };
        let (schedule, placed) = plan::plan(
            recorded.name(),
            &recorded.recording,
            &recorded.strands,
            &recorded.pools.pools,
            &self.view,
            keeps_order,
        )?;
        (self.steps, self.slots) = (schedule.steps, schedule.slots);
        recorded.recording.relocate(placed.ranges());
        recorded.pools.set_placed(placed.ranges().clone());
        recorded.placed = Some(placed);
        Ok(())
    }

    fn end(&mut self, recorded: &mut Recorded) -> Result<Made> {
        // What sending needs of the driver is there before its capture begins.
        let mut events = Vec::with_capacity(self.slots);
        for _ in 0..self.slots {
            events.push(recorded.device.take_event()?);
        }
        let origin = self.emitter.stream(ORIGIN).clone();
        // SAFETY: it ends below or in `abandon`, before the streams go.
        let begun = unsafe { origin.begin_capture(CaptureMode::ThreadLocal) };
        begun.during(|| format!("beginning capture \"{}\"", recorded.name()))?;
        for step in std::mem::take(&mut self.steps) {
            self.step(step, &events, recorded)?;
        }
        let ended = origin.end_capture();
        ended
            .during(|| format!("ending capture \"{}\"", recorded.name()))
            .map(Made::Graph)
    }

    fn lease(&mut self, _of_pools: Lease) -> Result<Lease> {
        // That one is of no memory.
        Ok(self.view.finish()?)
    }

    fn abandon(&mut self, _recorded: &mut Recorded) {
        self.emitter.end_failed_capture();
    }
}
