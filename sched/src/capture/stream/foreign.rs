//! Work that others enqueue: libraries, and events of the world outside.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use super::Stream;
use super::emit::pointer;
use crate::capture::lane::Lane;
use crate::capture::place::Touch;
use crate::capture::record::What;
use crate::capture::session::Mode;
use crate::device::Event;
use crate::driver::{EventScope, StreamHandle};
use crate::error::{Error, Result};

impl<L: Lane> Stream<L> {
    /// Records `event` for work outside the graph to wait for, at every replay.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn record_external(&self, event: &Event) -> Result<()> {
        self.external(event, true, Location::caller())
    }

    /// Makes the stream wait, at every replay, for what `event` records outside
    /// the graph.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn wait_external(&self, event: &Event) -> Result<()> {
        self.external(event, false, Location::caller())
    }

    fn external(
        &self,
        event: &Event,
        record: bool,
        line: &'static Location<'static>,
    ) -> Result<()> {
        event.same_device(&self.core.device)?;
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        let mark = state.recording.mark();
        let inner = event.inner.clone();
        // Outside a capture the driver has no external events: any is.
        let scope = match self.core.mode {
            Mode::Eager => EventScope::Internal,
            Mode::Captured | Mode::Attached => EventScope::External,
        };
        let what = if record {
            What::EventRecord(inner)
        } else {
            What::EventWait(inner)
        };
        self.emit(state, mark, what, line, |state| {
            let stream = &state.strands[self.id.index()].stream;
            if record {
                event.inner.event.record(stream, scope)
            } else {
                event.inner.event.order(stream, scope)
            }
        })
    }

    /// Records what a library enqueues: `call` gets the driver's stream and
    /// the addresses of the touched buffers, in their order. The nodes that it
    /// adds are this call's.
    ///
    /// # Errors
    /// What `call` returns, or as [`launch`](Self::launch). A failed call
    /// breaks the capture, for nobody knows what it has recorded.
    ///
    /// # Safety
    /// The work that `call` enqueues on the stream touches no other device
    /// memory than `touches` say and what `keep` holds alive, and `call` leaves
    /// the stream's capture as it is: it neither ends it nor forks without
    /// joining.
    #[track_caller]
    pub unsafe fn foreign<R, E: From<Error>>(
        &self,
        name: &str,
        touches: &[Touch<'_, L>],
        keep: Option<Arc<dyn Any + Send + Sync>>,
        call: impl FnOnce(StreamHandle, &[u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let line = Location::caller();
        let raw = {
            let mut guard = self.core.state.borrow_mut();
            let state = &mut *guard;
            self.open(state)?;
            state.keep.foreign.extend(keep);
            let during = || format!("looking where foreign call \"{name}\" begins");
            if self.core.captures() {
                self.core
                    .drive(state, during, |state| state.look(self.id))?;
            }
            state.strands[self.id.index()].stream.handle()
        };
        let entry = self.core.state.borrow().looked.clone();
        let addresses: Vec<u64> = touches.iter().map(|t| pointer(&t.place)).collect();
        // The state is not borrowed here: the call may drop scratch buffers, or
        // record on other streams.
        let result = call(raw, &addresses);
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                state
                    .broken
                    .get_or_insert_with(|| format!("foreign call \"{name}\" failed"));
                return Err(error);
            }
        };
        let mark = state.recording.mark();
        if let Err(error) = self.touch_all(state, touches) {
            state.break_with(&error);
            return Err(error.into());
        }
        if self.core.captures() {
            let during = || format!("looking where foreign call \"{name}\" ends");
            self.core
                .drive(state, during, |state| state.look(self.id))?;
            if state.looked == entry {
                state.recording.take_back(mark);
                return Ok(result);
            }
        }
        let start = state.recording.handles.len() as u32;
        if self.core.captures() {
            state.recording.handles.extend(&entry);
        }
        let entry = start..state.recording.handles.len() as u32;
        self.record(
            state,
            What::Foreign {
                name: name.to_owned(),
                entry,
            },
            line,
        )?;
        Ok(result)
    }
}
