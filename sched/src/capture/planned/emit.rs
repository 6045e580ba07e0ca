//! The steps of a schedule under a capture of the driver.

use std::sync::Arc;

use streamweir_trace::{ByteRange, StreamId};

use super::deferred::ForeignAddresses;
use super::order::{Schedule, Step};
use crate::capture::record::What;
use crate::capture::send::send;
use crate::capture::session::{Core, State};
use crate::driver::{CaptureMode, EventScope};
use crate::error::{During, Error, Result};
use crate::owned::OwnedEvent;

impl Core {
    /// Begins the driver's capture and emits everything into it.
    pub(super) fn emit_all(&self, schedule: &Schedule) -> Result<()> {
        // What emission needs of the driver is there before the capture begins.
        let mut events = Vec::with_capacity(schedule.slots);
        for _ in 0..schedule.slots {
            events.push(self.device.take_event()?);
        }
        let ranges = {
            let state = self.state.borrow();
            let origin = &state.strands[0].stream;
            // SAFETY: the capture's end, or its drop, ends it before streams go.
            unsafe { origin.begin_capture(CaptureMode::ThreadLocal) }
                .during(|| format!("beginning capture \"{}\"", self.session.name))?;
            state.placed().map(|placed| placed.ranges.clone())
        };
        let ranges = ranges.unwrap_or_default();
        for &step in &schedule.steps {
            self.emit_step(step, &events, &ranges)?;
        }
        Ok(())
    }

    fn emit_step(
        &self,
        step: Step,
        events: &[OwnedEvent],
        ranges: &Arc<[ByteRange]>,
    ) -> Result<()> {
        match step {
            Step::Wait { stream, slot } => self.emit_order(stream, |state| {
                events[slot].order(&state.strands[stream.index()].stream, EventScope::Internal)
            }),
            Step::Record { stream, slot } => self.emit_order(stream, |state| {
                events[slot].record(&state.strands[stream.index()].stream, EventScope::Internal)
            }),
            Step::Send { command } => {
                let deferred = self.state.borrow_mut().recording.deferred.remove(&command);
                match deferred {
                    None => self.emit_command(command),
                    Some(deferred) => {
                        let (touched, workspace) =
                            deferred.addresses(&self.state.borrow().recording, ranges);
                        let addresses = ForeignAddresses {
                            touched: &touched,
                            workspace,
                        };
                        self.emit_foreign(command, |raw| (deferred.enqueue)(raw, addresses))
                    }
                }
            }
        }
    }

    fn emit_order(
        &self,
        stream: StreamId,
        call: impl FnOnce(&mut State) -> crate::driver::DriverResult<()>,
    ) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let during = format!(
            "ordering stream \"{}\" in capture \"{}\"",
            state.name(stream),
            self.session.name
        );
        self.drive(state, || during, call)
    }

    fn emit_command(&self, command: u32) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let at = &state.recording.commands[command as usize];
        let stream = at.stream;
        let sent = send(
            &at.what,
            &mut state.recording.param_bytes,
            self.external(),
            &state.strands[stream.index()].stream,
        );
        let looked = sent.and_then(|()| state.look(stream));
        let found = state.looked.len();
        let outcome = match looked {
            Err(source) => Err(Error::Driver {
                during: self.during_command(state, command),
                source,
            }),
            Ok(_) if found != 1 => Err(Error::Unattributed {
                what: self.during_command(state, command),
                stream: state.name(stream).to_string(),
                found,
            }),
            Ok(_) => {
                let handles = state.keep_looked();
                state.recording.commands[command as usize].handles = handles;
                Ok(())
            }
        };
        outcome.inspect_err(|error| state.break_with(error))
    }

    fn emit_foreign(
        &self,
        command: u32,
        enqueue: impl FnOnce(
            crate::driver::StreamHandle,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<()> {
        let (raw, entered) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            let stream = state.recording.commands[command as usize].stream;
            let during = self.during_command(state, command);
            self.drive(state, || during, |state| state.look(stream))?;
            (
                state.strands[stream.index()].stream.handle(),
                state.keep_looked(),
            )
        };
        // The state is not borrowed here: the call may drop what it owns.
        let called = enqueue(raw);
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let during = self.during_command(state, command);
        if let Err(source) = called {
            let error = Error::Foreign { during, source };
            state.break_with(&error);
            return Err(error);
        }
        let stream = state.recording.commands[command as usize].stream;
        self.drive(state, || during, |state| state.look(stream))?;
        // A call that enqueued nothing ends where it began, and so do those who
        // wait for it.
        let left = state.keep_looked();
        let at = &mut state.recording.commands[command as usize];
        at.handles = left;
        if let What::Foreign { entry, .. } = &mut at.what {
            *entry = entered;
        }
        Ok(())
    }
}
