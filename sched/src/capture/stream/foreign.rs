//! Work that others enqueue: libraries, and events of the world outside.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::ALIGNMENT;
use streamweir_hal::driver::StreamHandle;

use super::Stream;
use super::in_call::{Declared, InCall};
use crate::capture::buffer::{Touch, writes};
use crate::capture::call::{Deferred, ForeignAddresses, ForeignCall, LibraryError};
use crate::capture::lane::Lane;
use crate::capture::nodes::Sent;
use crate::capture::recording::{BufferKey, CallSaid, What};
use crate::capture::rewrite::Holder;
use crate::capture::scratch::Scratch;
use crate::device::Event;
use crate::error::{Error, Result};

impl<L: Lane> Stream<L> {
    /// Records `event` for work outside the graph to wait for, at every replay.
    ///
    /// # Errors
    /// [`Error::EventTaken`] when a live graph of another replay group records it or
    /// somebody has recorded it by hand; otherwise as [`launch`](Self::launch).
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
        event.same_device(&self.recorder.device)?;
        let mut open = self.enter()?;
        let inner = event.inner.clone();
        // An eager run records it once, after all replays that were enqueued before.
        if record && open.sink.captures() {
            open.recorded.claim(&inner)?;
        }
        drop(open);
        let what = match record {
            true => What::EventRecord(inner),
            false => What::EventWait(inner),
        };
        let draft = self.recorder.draft();
        self.recorder
            .perform(self.spot(line), self.generation, |_| what, draft)
    }

    /// Records what a library enqueues: `call` gets the driver's stream and
    /// the addresses of the touched buffers, in their order. The nodes that it
    /// adds are this call's. It may use the capture's handles meanwhile, except to
    /// end the capture.
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
        let declared = Declared {
            name,
            touches,
            keep: keep.as_slice(),
            said: CallSaid::default(),
            line: Location::caller(),
        };
        match self.begin_call(&declared)? {
            Some(begun) => make(begun, call),
            None => Err(self.too_early(name).into()),
        }
    }

    /// [`foreign`](Self::foreign) with all that a [`ForeignCall`] can say: memory that
    /// it [keeps](ForeignCall::keeps), words that are [left over](ForeignCall::left_over),
    /// a workspace.
    ///
    /// # Errors
    /// As [`foreign`](Self::foreign).
    ///
    /// # Safety
    /// As for [`foreign_call`](Self::foreign_call).
    #[track_caller]
    pub unsafe fn foreign_with<R, E: From<Error>>(
        &self,
        call: ForeignCall<'_, L>,
        enqueue: impl FnOnce(StreamHandle, ForeignAddresses<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let line = Location::caller();
        let taken = self.workspace_of(&call, line)?;
        let touches = taken.touches(call.touches);
        match self.begin_call(&call.declared(&touches, line))? {
            Some(begun) => make(begun, |stream, addresses: &[u64]| {
                enqueue(stream, taken.addresses(addresses))
            }),
            None => Err(self.too_early(call.name).into()),
        }
    }

    #[cold]
    fn too_early(&self, name: &str) -> Error {
        Error::Unplannable {
            what: format!(
                "foreign call \"{name}\" on stream \"{}\" at the time of recording",
                self.name()
            ),
            capture: self.recorder.name().to_string(),
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
        enqueue: impl FnOnce(StreamHandle, ForeignAddresses<'_>) -> Result<(), LibraryError> + 'static,
    ) -> Result<()> {
        let line = Location::caller();
        let taken = self.workspace_of(&call, line)?;
        let touches = taken.touches(call.touches);
        let declared = call.declared(&touches, line);
        let Some(begun) = self.begin_call(&declared)? else {
            let enqueue = Box::new(enqueue);
            let alignment = taken.alignment();
            let later = |touched| Deferred::new(enqueue, touched, alignment, call.keeps_order);
            return self.put_aside(&declared, later);
        };
        make(begun, |stream, addresses: &[u64]| {
            enqueue(stream, taken.addresses(addresses)).map_err(|source| Error::Foreign {
                during: format!(
                    "foreign call \"{}\" of capture \"{}\"",
                    call.name,
                    self.recorder.name()
                ),
                source,
            })
        })
    }

    /// The workspace that a call declares.
    fn workspace_of(
        &self,
        call: &ForeignCall<'_, L>,
        line: &'static Location<'static>,
    ) -> Result<Taken<L>> {
        let taken = call
            .workspace
            .map(|(bytes, alignment)| self.aligned_scratch(call.name, bytes, alignment, line));
        Ok(Taken(taken.transpose()?))
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
        let scratch = self.take::<u8>(name.into(), padded, Holder::Call, line)?;
        Ok((scratch, alignment as u64))
    }

    /// Records a call that is made when the commands are sent.
    fn put_aside(
        &self,
        call: &Declared<'_, '_, L>,
        deferred: impl FnOnce(Vec<(BufferKey, u64)>) -> Deferred,
    ) -> Result<()> {
        let mut open = self.enter()?;
        let mut draft = self.recorder.draft();
        let mut touched = Vec::with_capacity(call.touches.len());
        for touch in call.touches {
            let buffer = open.recorded.touch(&mut draft, &touch.place, touch.mode)?;
            touched.push((buffer, touch.place.pointer));
        }
        open.recorded.asked.extend_from_slice(call.keep);
        let what = What::Foreign {
            name: call.name.to_owned(),
            said: call.said.clone(),
        };
        let command = open.performed(self.spot(call.line), what, &mut draft, Sent::Unseen)?;
        if let Some(planned) = open.sink.planned() {
            planned.defer(command, deferred(touched));
        }
        Ok(())
    }
}

/// The workspace of a call, and what its address is a multiple of.
struct Taken<L>(Option<(Scratch<u8, L>, u64)>);

impl<L> Taken<L> {
    /// What the call touches, its workspace last.
    fn touches<'a>(&'a self, touches: &[Touch<'a, L>]) -> Vec<Touch<'a, L>>
    where
        L: Lane,
    {
        // A library writes its workspace before it reads it: what an earlier
        // call has left there is nobody's.
        let workspace = self.0.as_ref().map(|(scratch, _)| writes(scratch));
        touches.iter().copied().chain(workspace).collect()
    }

    fn alignment(&self) -> Option<u64> {
        self.0.as_ref().map(|(_, alignment)| *alignment)
    }

    /// The addresses of what the call touches, as it is given them.
    fn addresses<'a>(&self, all: &'a [u64]) -> ForeignAddresses<'a> {
        match (self.alignment(), all) {
            (Some(alignment), [touched @ .., workspace]) => ForeignAddresses {
                touched,
                workspace: Some(workspace.next_multiple_of(alignment)),
            },
            _ => ForeignAddresses {
                touched: all,
                workspace: None,
            },
        }
    }
}

impl<'a, L> ForeignCall<'a, L> {
    /// What is said of the call, which touches `touches`.
    fn declared<'d, 'b>(
        &'d self,
        touches: &'d [Touch<'b, L>],
        line: &'static Location<'static>,
    ) -> Declared<'d, 'b, L> {
        Declared {
            name: self.name,
            touches,
            keep: &self.keep,
            said: self.said.clone(),
            line,
        }
    }
}

/// Makes a call that has begun.
fn make<R, E: From<Error>>(
    begun: InCall<'_>,
    call: impl FnOnce(StreamHandle, &[u64]) -> Result<R, E>,
) -> Result<R, E> {
    // Nothing is borrowed here: the call may do with handles what it likes.
    match call(begun.stream(), &begun.addresses) {
        Ok(result) => {
            begun.end()?;
            Ok(result)
        }
        Err(error) => {
            begun.fail();
            Err(error)
        }
    }
}
