//! Work that others enqueue: libraries, and events of the world outside.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::ALIGNMENT;
use streamweir_trace::PdlWait;

use super::Stream;
use crate::capture::args::touch;
use crate::capture::lane::Lane;
use crate::capture::place::{Touch, writes};
use crate::capture::planned::{Deferred, ForeignAddresses, ForeignCall};
use crate::capture::record::What;
use crate::capture::scratch::Scratch;
use crate::capture::session::State;
use crate::device::Event;
use crate::driver::StreamHandle;
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
        self.enter(state)?;
        let mark = state.recording.mark();
        let inner = event.inner.clone();
        let what = if record {
            What::EventRecord(inner)
        } else {
            What::EventWait(inner)
        };
        self.emit(state, mark, what, line)
    }

    /// Records what a library enqueues: `call` gets the driver's stream and
    /// the addresses of the touched buffers, in their order. The nodes that it
    /// adds are this call's.
    ///
    /// # Errors
    /// What `call` returns, or as [`launch`](Self::launch). A failed call
    /// breaks the capture, for nobody knows what it has recorded.
    /// [`Error::Unplannable`] in a planned capture, which has neither a stream
    /// nor addresses at this moment: there a library's work is a
    /// [`foreign_call`](Self::foreign_call).
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
        // SAFETY: the caller's promise.
        unsafe { self.foreign_at(Location::caller(), name, PdlWait::None, touches, keep, call) }
    }

    /// [`foreign`](Self::foreign), called at `line`.
    ///
    /// # Safety
    /// As there.
    unsafe fn foreign_at<R, E: From<Error>>(
        &self,
        line: &'static Location<'static>,
        name: &str,
        pdl: PdlWait,
        touches: &[Touch<'_, L>],
        keep: Option<Arc<dyn Any + Send + Sync>>,
        call: impl FnOnce(StreamHandle, &[u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let raw = {
            let mut guard = self.core.state.borrow_mut();
            let state = &mut *guard;
            self.enter(state)?;
            if !self.core.emits_at_once() {
                return Err(self.too_early(state, name).into());
            }
            state.keep.foreign.extend(keep);
            let during = || format!("looking where foreign call \"{name}\" begins");
            if self.core.captures() {
                self.core
                    .drive(state, during, |state| state.look(self.id))?;
            }
            state.strands[self.id.index()].stream.handle()
        };
        let entry = self.core.state.borrow().looked.clone();
        let addresses: Vec<u64> = touches
            .iter()
            .map(|touch| touch.place.address())
            .collect::<Result<_>>()?;
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
                self.may_have_begun(state, name, touches, line);
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
                pdl,
            },
            line,
        )?;
        Ok(result)
    }

    /// Enters a call that failed: part of its work may be under way, or in an
    /// engine's capture, so what it touches stays and others take turns with it.
    #[cold]
    fn may_have_begun(
        &self,
        state: &mut State,
        name: &str,
        touches: &[Touch<'_, L>],
        line: &'static Location<'static>,
    ) {
        let mark = state.recording.mark();
        if self.touch_all(state, touches).is_err() {
            state.recording.take_back(mark);
            return;
        }
        let what = What::Foreign {
            name: name.to_owned(),
            entry: 0..0,
            pdl: PdlWait::None,
        };
        // The capture is broken; a second failure says nothing new.
        let _ = self.record(state, what, line);
    }

    #[cold]
    fn too_early(&self, state: &State, name: &str) -> Error {
        Error::Unplannable {
            what: format!(
                "foreign call \"{name}\" on stream \"{}\" at the time of recording",
                state.name(self.id)
            ),
            capture: self.core.name(),
            instead: "nothing is emitted before all is placed: use `foreign_call`, which serves \
                      every kind of capture",
        }
    }

    /// Records what a library will enqueue. A live capture and an eager run
    /// make the call at once; a planned one makes it when it is emitted, under
    /// the driver's capture: then it may not allocate, synchronise or read
    /// device memory, and what it needs is declared by `call`.
    ///
    /// # Errors
    /// As [`launch`](Self::launch). [`Error::Foreign`] with what `enqueue`
    /// returns, from here or, in a planned capture, from its end; the capture is
    /// broken then. [`Error::TooLarge`] for a workspace that no address space
    /// holds.
    ///
    /// # Safety
    /// As for [`foreign`](Self::foreign), with the workspace as one more buffer
    /// that is touched.
    #[track_caller]
    pub unsafe fn foreign_call(
        &self,
        call: ForeignCall<'_, L>,
        enqueue: impl FnOnce(
            StreamHandle,
            ForeignAddresses<'_>,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
        + 'static,
    ) -> Result<()> {
        let line = Location::caller();
        let workspace = match call.workspace {
            None => None,
            Some((bytes, alignment)) => {
                Some(self.aligned_scratch(call.name, bytes, alignment, line)?)
            }
        };
        let mut touches = call.touches.to_vec();
        // A library writes its workspace before it reads it: what an earlier
        // call has left there is nobody's.
        let of_workspace = workspace.as_ref().map(|(scratch, _)| writes(scratch));
        touches.extend(of_workspace);
        if self.core.emits_at_once() {
            let alignment = workspace.as_ref().map(|(_, alignment)| *alignment);
            let enqueue = |raw, addresses: &[u64]| {
                let (touched, workspace) = match (alignment, addresses) {
                    (Some(alignment), [touched @ .., workspace]) => {
                        (touched, Some(workspace.next_multiple_of(alignment)))
                    }
                    _ => (addresses, None),
                };
                let addresses = ForeignAddresses { touched, workspace };
                enqueue(raw, addresses).map_err(|source| Error::Foreign {
                    during: format!(
                        "foreign call \"{}\" of capture \"{}\"",
                        call.name, self.core.session.name
                    ),
                    source,
                })
            };
            // SAFETY: the caller's promise.
            return unsafe {
                self.foreign_at(line, call.name, call.pdl, &touches, call.keep, enqueue)
            };
        }
        self.put_aside(
            line,
            &call,
            &touches,
            workspace.as_ref().map(|w| w.1),
            enqueue,
        )
    }

    /// Scratch in which `bytes` bytes begin at a multiple of `alignment`.
    fn aligned_scratch(
        &self,
        call: &str,
        bytes: usize,
        alignment: usize,
        line: &'static Location<'static>,
    ) -> Result<(Scratch<u8, L>, u64)> {
        let name = format!("workspace of {call}");
        let alignment = alignment.max(1);
        // Blocks are aligned to a power of two, which serves its divisors.
        let slack = match ALIGNMENT.is_multiple_of(alignment as u64) {
            true => 0,
            false => alignment - 1,
        };
        let Some(padded) = bytes.checked_add(slack) else {
            return Err(Error::TooLarge {
                buffer: name,
                elements: bytes,
                element_size: 1,
            });
        };
        let scratch = self.take::<u8>(name.into(), padded, false, line)?;
        self.core.is_private(scratch.block());
        Ok((scratch, alignment as u64))
    }

    /// Records a call that is made when the capture is emitted.
    fn put_aside(
        &self,
        line: &'static Location<'static>,
        call: &ForeignCall<'_, L>,
        touches: &[Touch<'_, L>],
        alignment: Option<u64>,
        enqueue: impl FnOnce(
            StreamHandle,
            ForeignAddresses<'_>,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
        + 'static,
    ) -> Result<()> {
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
        let mark = state.recording.mark();
        let mut touched = Vec::with_capacity(touches.len());
        for t in touches {
            match touch(&self.core, &mut state.recording, &t.place, t.mode) {
                Ok(buffer) => touched.push((buffer, t.place.pointer)),
                Err(error) => {
                    state.recording.take_back(mark);
                    return Err(error);
                }
            }
        }
        let workspace = alignment.and_then(|alignment| Some((touched.pop()?.0, alignment)));
        state.keep.foreign.extend(call.keep.clone());
        let command = state.recording.commands.len() as u32;
        let what = What::Foreign {
            name: call.name.to_owned(),
            entry: 0..0,
            pdl: call.pdl,
        };
        self.record(state, what, line)?;
        let deferred = Deferred {
            enqueue: Box::new(enqueue),
            touched,
            workspace,
            keeps_order: call.keeps_order,
        };
        state.recording.deferred.insert(command, deferred);
        Ok(())
    }
}
