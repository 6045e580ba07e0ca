//! From a command to the device and into the recording.
//!
//! A command is sent first and recorded when the driver has taken it. Its node
//! is then the whole frontier of the stream in the driver's eyes, which is how
//! it is known which node is whose: by asking, and not by counting.

use std::panic::Location;

use streamweir_trace::{ScopeId, StreamId};

use super::Stream;
use crate::capture::args::touch;
use crate::capture::lane::Lane;
use crate::capture::place::Touch;
use crate::capture::record::{Command, Mark, What};
use crate::capture::send::send;
use crate::capture::session::{Core, State};
use crate::error::{During, Error, Result};

impl<L: Lane> Stream<L> {
    pub(super) fn touch_all(&self, state: &mut State, touches: &[Touch<'_, L>]) -> Result<()> {
        for t in touches {
            touch(&self.core, &mut state.recording, &t.place, t.mode)?;
        }
        Ok(())
    }

    /// Sends a command to the device and records it. In a planned capture it is
    /// only recorded, for it has no addresses yet.
    pub(super) fn emit(
        &self,
        state: &mut State,
        mark: Mark,
        what: What,
        line: &'static Location<'static>,
    ) -> Result<()> {
        if !self.core.emits_at_once() {
            return self.record(state, what, line);
        }
        let sent = send(
            &what,
            &mut state.recording.param_bytes,
            self.core.external(),
            &state.strands[self.id.index()].stream,
        );
        if let Err(source) = sent {
            let error = Error::Driver {
                during: self.during(state, &what),
                source,
            };
            state.recording.take_back(mark);
            state.break_with(&error);
            return Err(error);
        }
        if self.core.captures() {
            let looked = state.look(self.id);
            let looked = looked.during(|| self.during(state, &what));
            if let Err(error) = looked {
                state.break_with(&error);
                return Err(error);
            }
            if state.looked.len() != 1 {
                let error = Error::Unattributed {
                    what: self.during(state, &what),
                    stream: state.name(self.id).to_string(),
                    found: state.looked.len(),
                };
                state.break_with(&error);
                return Err(error);
            }
        }
        self.record(state, what, line)
    }

    /// Enters a command whose frontier in the driver has just been looked at.
    pub(super) fn record(
        &self,
        state: &mut State,
        what: What,
        line: &'static Location<'static>,
    ) -> Result<()> {
        let scope = self.scope.as_ref().map(|(id, _)| *id);
        let recorded = self
            .core
            .session
            .pools
            .record(self.id, &state.recording.touched);
        if let Err(error) = recorded {
            let error = Error::from(error);
            state.break_with(&error);
            return Err(error);
        }
        let State {
            recording,
            strands,
            looked,
            ..
        } = state;
        let strand = &mut strands[self.id.index()];
        let waits = recording.waits.len() as u32;
        recording.waits.extend(&strand.frontier);
        let handles = recording.handles.len() as u32;
        if self.core.captures() && self.core.emits_at_once() {
            recording.handles.extend(&*looked);
        }
        let command = Command {
            what,
            stream: self.id,
            scope,
            line,
            after: waits..recording.waits.len() as u32,
            handles: handles..recording.handles.len() as u32,
        };
        strand.frontier.clear();
        strand.frontier.push(recording.commands.len() as u32);
        recording.commands.push(command);
        Ok(())
    }

    pub(super) fn during(&self, state: &State, what: &What) -> String {
        let scope = self.scope.as_ref().map(|(id, _)| *id);
        self.core.during(state, what, self.id, scope)
    }
}

impl Core {
    /// What is being done when a recorded command is emitted.
    pub(in crate::capture) fn during_command(&self, state: &State, command: u32) -> String {
        let command = &state.recording.commands[command as usize];
        self.during(state, &command.what, command.stream, command.scope)
    }

    fn during(
        &self,
        state: &State,
        what: &What,
        stream: StreamId,
        scope: Option<ScopeId>,
    ) -> String {
        let what = match what {
            What::Kernel { info, .. } => format!("launching `{}`", info.signature.symbol),
            What::Copy { bytes, .. } => format!("copying {bytes} bytes"),
            What::Fill { bytes, .. } => format!("filling {bytes} bytes"),
            What::EventRecord(event) => format!("recording event \"{}\"", event.name),
            What::EventWait(event) => format!("waiting for event \"{}\"", event.name),
            What::Foreign { name, .. } => format!("foreign call \"{name}\""),
        };
        let scope = scope
            .map(|id| format!(" in \"{}\"", state.recording.scopes[id.index()]))
            .unwrap_or_default();
        format!(
            "{what} on stream \"{}\"{scope} of capture \"{}\"",
            state.name(stream),
            self.session.name
        )
    }
}
