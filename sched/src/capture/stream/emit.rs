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

    /// Sends a command to the device and records it, see [`Core::emit`].
    pub(super) fn emit(
        &self,
        state: &mut State,
        mark: Mark,
        what: What,
        line: &'static Location<'static>,
    ) -> Result<()> {
        self.core.emit(state, self.spot(line), mark, what)
    }

    /// Enters a command, see [`Core::record`].
    pub(super) fn record(
        &self,
        state: &mut State,
        what: What,
        line: &'static Location<'static>,
    ) -> Result<()> {
        self.core.record(state, self.spot(line), what)
    }

    pub(super) fn spot(&self, line: &'static Location<'static>) -> Spot {
        Spot {
            stream: self.id,
            scope: self.scope.as_ref().map(|(id, _)| *id),
            line,
        }
    }
}

/// Where a command stands.
#[derive(Clone, Copy)]
pub(in crate::capture) struct Spot {
    pub(in crate::capture) stream: StreamId,
    pub(in crate::capture) scope: Option<ScopeId>,
    pub(in crate::capture) line: &'static Location<'static>,
}

impl Core {
    /// Sends a command to the device and records it. In a planned capture it is
    /// only recorded, for it has no addresses yet.
    pub(in crate::capture) fn emit(
        &self,
        state: &mut State,
        spot: Spot,
        mark: Mark,
        what: What,
    ) -> Result<()> {
        if !self.emits_at_once() {
            return self.record(state, spot, what);
        }
        let sent = send(
            &what,
            &mut state.recording.param_bytes,
            self.external(),
            &state.strands[spot.stream.index()].stream,
        );
        if let Err(source) = sent {
            let error = Error::Driver {
                during: self.during(state, &what, spot.stream, spot.scope),
                source,
            };
            state.recording.take_back(mark);
            state.break_with(&error);
            return Err(error);
        }
        if self.captures() {
            let looked = state.look(spot.stream);
            let looked = looked.during(|| self.during(state, &what, spot.stream, spot.scope));
            if let Err(error) = looked {
                state.break_with(&error);
                return Err(error);
            }
            if state.looked.len() != 1 {
                let error = Error::Unattributed {
                    what: self.during(state, &what, spot.stream, spot.scope),
                    stream: state.name(spot.stream).to_string(),
                    found: state.looked.len(),
                };
                state.break_with(&error);
                return Err(error);
            }
        }
        self.record(state, spot, what)
    }

    /// Enters a command whose frontier in the driver has just been looked at,
    /// and the taps on what it has touched.
    pub(in crate::capture) fn record(
        &self,
        state: &mut State,
        spot: Spot,
        what: What,
    ) -> Result<()> {
        let recorded = self
            .session
            .pools
            .record(spot.stream, &state.recording.touched);
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
        } = &mut *state;
        let strand = &mut strands[spot.stream.index()];
        let waits = recording.waits.len() as u32;
        recording.waits.extend(&strand.frontier);
        let handles = recording.handles.len() as u32;
        if self.captures() && self.emits_at_once() {
            recording.handles.extend(&*looked);
        }
        let index = recording.commands.len() as u32;
        let command = Command {
            what,
            stream: spot.stream,
            scope: spot.scope,
            line: spot.line,
            after: waits..recording.waits.len() as u32,
            handles: handles..recording.handles.len() as u32,
        };
        strand.frontier.clear();
        strand.frontier.push(index);
        recording.commands.push(command);
        self.tap(state, spot, index)
    }

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
            What::Fill { bytes, poison, .. } => match poison {
                false => format!("filling {bytes} bytes"),
                true => format!("poisoning {bytes} bytes"),
            },
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
