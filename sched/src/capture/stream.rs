//! What can be recorded on a captured stream.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use streamweir_trace::{AccessMode, ByteRange, ScopeId, StreamId};

use super::args::{Args, Binder, touch};
use super::lane::{Dyn, Lane, VisibleOn};
use super::place::{Buffer, Place, Touch};
use super::record::{Command, Mark, What};
use super::scratch::Scratch;
use super::session::{Core, Mode, State};
use crate::device::{Event, LoadedKernel, Pinned};
use crate::driver::{DriverResult, EventScope, LaunchShape, StreamHandle};
use crate::error::{During, Error, Result};
use crate::kernel::{Element, Kernel};

/// A captured stream of lane `L`.
///
/// Work recorded here runs, at every replay, after the work recorded here
/// before and after what the stream was forked from or has joined; it is
/// concurrent with everything else.
pub struct Stream<L = Dyn> {
    pub(super) core: Rc<Core>,
    pub(super) id: StreamId,
    generation: u32,
    /// An alias stands for its parent while the overlap is off.
    pub(super) alias: bool,
    scope: Option<(ScopeId, Rc<str>)>,
    lane: PhantomData<fn(L)>,
}

impl<L: Lane> Stream<L> {
    pub(super) fn new(core: &Rc<Core>, id: StreamId, generation: u32, alias: bool) -> Self {
        Self {
            core: core.clone(),
            id,
            generation,
            alias,
            scope: None,
            lane: PhantomData,
        }
    }

    /// The name, which also is the tag of its pool.
    pub fn name(&self) -> String {
        self.core.state.borrow().name(self.id).to_string()
    }

    /// The same stream, with `path` added to the scope that reports print for
    /// whatever is recorded through it.
    #[must_use]
    pub fn scope(&self, path: &str) -> Self {
        let path: Rc<str> = match &self.scope {
            None => path.into(),
            Some((_, outer)) => format!("{outer}/{path}").into(),
        };
        let id = self.core.state.borrow_mut().recording.scope(&path);
        let scope = Some((id, path));
        Self {
            scope,
            ..Self::new(&self.core, self.id, self.generation, self.alias)
        }
    }

    /// Takes a scratch buffer of `len` elements from the stream's pool. Work
    /// ordered after this point may use it.
    ///
    /// # Errors
    /// When the arena cannot grow, or the capture has ended or is broken.
    pub fn scratch<T: Element>(
        &self,
        name: impl Into<Cow<'static, str>>,
        len: usize,
    ) -> Result<Scratch<T, L>> {
        self.take(name.into(), len, false)
    }

    /// Takes scratch that a library holds on this stream across its calls, to
    /// the end of the capture; no other stream may use it.
    ///
    /// # Errors
    /// As [`scratch`](Self::scratch).
    pub fn workspace(
        &self,
        name: impl Into<Cow<'static, str>>,
        bytes: usize,
    ) -> Result<Scratch<u8, L>> {
        self.take(name.into(), bytes, true)
    }

    fn take<T: Element>(
        &self,
        name: Cow<'static, str>,
        len: usize,
        workspace: bool,
    ) -> Result<Scratch<T, L>> {
        let mut state = self.core.state.borrow_mut();
        self.open(&state)?;
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            return Err(Error::TooLarge {
                buffer: name.into_owned(),
                elements: len,
                element_size: size_of::<T>(),
            });
        };
        let pools = &self.core.session.pools;
        let block = if workspace {
            pools.workspace(self.id, bytes as u64, name)?
        } else {
            pools.alloc(self.id, bytes as u64, name)?
        };
        let state = &mut *state;
        let recording = &mut state.recording;
        let start = recording.alloc_frontiers.len() as u32;
        recording
            .alloc_frontiers
            .extend(&state.strands[self.id.index()].frontier);
        recording
            .allocs
            .push(start..recording.alloc_frontiers.len() as u32);
        Ok(Scratch::new(self.core.session.clone(), block, len))
    }

    /// Records the launch of a kernel.
    ///
    /// # Errors
    /// When an argument is of another capture or device, the driver refuses, or
    /// the capture has ended or is broken.
    #[track_caller]
    pub fn launch<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        shape: impl Into<LaunchShape>,
        args: A,
    ) -> Result<()> {
        self.launch_also(kernel, shape, args, &[])
    }

    /// Records the launch of a kernel that touches more memory than its
    /// parameters point to: what it reaches through a table.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_also<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        shape: impl Into<LaunchShape>,
        args: A,
        also: &[Touch<'_, L>],
    ) -> Result<()> {
        let line = Location::caller();
        let shape = shape.into();
        let info = &kernel.info;
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        if !info.function.module().is_on(&self.core.device.reclaim) {
            return Err(Error::OtherDevice {
                what: format!("kernel `{}`", K::SYMBOL),
                used_on: self.core.device.reclaim.driver().info().name.clone(),
            });
        }
        let mark = state.recording.mark();
        let mut binder = Binder {
            core: &self.core,
            base: state.recording.param_bytes.len(),
            recording: &mut state.recording,
            slots: &info.slots,
            next: 0,
        };
        let bound = args
            .bind(&mut binder)
            .and_then(|()| self.touch_all(state, also));
        if let Err(error) = bound {
            state.recording.take_back(mark);
            return Err(error);
        }
        let params = state.recording.params_since(mark);
        let what = What::Kernel {
            info: info.clone(),
            shape,
            params: params.clone(),
            pointers: state.recording.pointers_since(mark),
        };
        self.emit(state, mark, what, line, |state| {
            let base = state.recording.param_bytes[params.start as usize..].as_mut_ptr();
            let mut pointers: Vec<*mut c_void> = info
                .slots
                .iter()
                // SAFETY: `Binder` has written each slot of the declaration into
                // this launch's part of the buffer, so the offset is inside it.
                .map(|slot| unsafe { base.add(slot.offset as usize) }.cast())
                .collect();
            // SAFETY: `Module::kernel` has checked that the function takes these
            // slots; the bytes are the recording's; and the memory the pointers
            // among them point to is kept by the graph: persistent buffers and
            // arena lease by `Keep`.
            unsafe {
                state.strands[self.id.index()]
                    .stream
                    .launch(&info.function, shape, &mut pointers)
            }
        })
    }

    /// Records a copy between two buffers of the same length.
    ///
    /// # Errors
    /// When the lengths differ; otherwise as [`launch`](Self::launch).
    #[track_caller]
    pub fn copy<T: Element>(
        &self,
        to: impl Buffer<Item = T> + VisibleOn<L>,
        from: impl Buffer<Item = T> + VisibleOn<L>,
    ) -> Result<()> {
        let line = Location::caller();
        let [to, from] = [to.place(), from.place()];
        if to.bytes.len() != from.bytes.len() {
            return Err(Error::Length {
                buffer: to.memory.name(),
                has: to.bytes.len() as usize / size_of::<T>().max(1),
                what: format!(
                    "a copy of {} elements from \"{}\" does not fit",
                    from.bytes.len() as usize / size_of::<T>().max(1),
                    from.memory.name()
                ),
            });
        }
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(
            state,
            mark,
            &[(to, AccessMode::Write), (from, AccessMode::Read)],
        )?;
        self.emit_copy(
            state,
            mark,
            address(&to),
            address(&from),
            to.bytes.len(),
            line,
        )
    }

    /// Records an upload from page-locked host memory, which is read at each
    /// replay.
    ///
    /// # Errors
    /// When the lengths differ; otherwise as [`launch`](Self::launch).
    #[track_caller]
    pub fn upload<T: Element>(
        &self,
        to: impl Buffer<Item = T> + VisibleOn<L>,
        from: &Pinned<T>,
    ) -> Result<()> {
        let line = Location::caller();
        let to = to.place();
        if to.bytes.len() != (from.len() * size_of::<T>()) as u64 {
            return Err(Error::Length {
                buffer: to.memory.name(),
                has: to.bytes.len() as usize / size_of::<T>().max(1),
                what: format!("\"{}\" has {}", from.name(), from.len()),
            });
        }
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(state, mark, &[(to, AccessMode::Write)])?;
        state.recording.pinned.push(from.memory.clone());
        self.emit_copy(
            state,
            mark,
            address(&to),
            from.memory.address(),
            to.bytes.len(),
            line,
        )
    }

    fn emit_copy(
        &self,
        state: &mut State,
        mark: Mark,
        to: u64,
        from: u64,
        bytes: u64,
        line: &'static Location<'static>,
    ) -> Result<()> {
        if bytes == 0 {
            state.recording.take_back(mark);
            return Ok(());
        }
        self.emit(state, mark, What::Copy { to, from, bytes }, line, |state| {
            // SAFETY: both ranges are of memory that the graph keeps.
            unsafe { state.strands[self.id.index()].stream.copy(to, from, bytes) }
        })
    }

    /// Records a fill of a buffer's bytes with `value`.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn fill(&self, to: impl Buffer + VisibleOn<L>, value: u8) -> Result<()> {
        let line = Location::caller();
        let place = to.place();
        let (to, bytes) = (address(&place), place.bytes.len());
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(state, mark, &[(place, AccessMode::Write)])?;
        if bytes == 0 {
            state.recording.take_back(mark);
            return Ok(());
        }
        self.emit(
            state,
            mark,
            What::Fill { to, bytes, value },
            line,
            |state| {
                // SAFETY: the range is of memory that the graph keeps.
                unsafe { state.strands[self.id.index()].stream.fill(to, value, bytes) }
            },
        )
    }

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
        let addresses: Vec<u64> = touches.iter().map(|t| address(&t.place)).collect();
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

    /// A second handle that stands for this stream.
    pub(super) fn alias(&self) -> Self {
        Self {
            scope: self.scope.clone(),
            ..Self::new(&self.core, self.id, self.generation, true)
        }
    }

    /// Refuses a handle whose stream was joined, or whose capture is over.
    pub(super) fn check_live(&self) -> Result<()> {
        self.open(&self.core.state.borrow())
    }

    /// The device address of the first byte of a buffer, for foreign calls
    /// that need it before they are made.
    pub fn address_of(&self, buffer: impl Buffer + VisibleOn<L>) -> u64 {
        address(&buffer.place())
    }

    /// Keeps `keep` alive as long as the graph.
    ///
    /// # Errors
    /// When the capture has ended or is broken.
    pub fn keep(&self, keep: Arc<dyn Any + Send + Sync>) -> Result<()> {
        let mut state = self.core.state.borrow_mut();
        self.open(&state)?;
        state.keep.foreign.push(keep);
        Ok(())
    }

    fn open(&self, state: &State) -> Result<()> {
        self.core
            .open(state, || format!("stream \"{}\"", state.name(self.id)))?;
        let strand = &state.strands[self.id.index()];
        if strand.generation == self.generation && strand.active {
            return Ok(());
        }
        Err(Error::CaptureEnded {
            what: format!("this handle of stream \"{}\", joined since,", strand.name),
            capture: self.core.name(),
        })
    }

    fn touch_all(&self, state: &mut State, touches: &[Touch<'_, L>]) -> Result<()> {
        for t in touches {
            touch(&self.core, &mut state.recording, &t.place, t.mode)?;
        }
        Ok(())
    }

    fn touch_each(
        &self,
        state: &mut State,
        mark: Mark,
        places: &[(Place<'_>, AccessMode)],
    ) -> Result<()> {
        for (place, mode) in places {
            if let Err(error) = touch(&self.core, &mut state.recording, place, *mode) {
                state.recording.take_back(mark);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a command to the device and records it.
    fn emit(
        &self,
        state: &mut State,
        mark: Mark,
        what: What,
        line: &'static Location<'static>,
        send: impl FnOnce(&mut State) -> DriverResult<()>,
    ) -> Result<()> {
        let sent = send(state);
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
    fn record(
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
        if self.core.captures() {
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

    fn during(&self, state: &State, what: &What) -> String {
        let what = match what {
            What::Kernel { info, .. } => format!("launching `{}`", info.signature.symbol),
            What::Copy { bytes, .. } => format!("copying {bytes} bytes"),
            What::Fill { bytes, .. } => format!("filling {bytes} bytes"),
            What::EventRecord(event) => format!("recording event \"{}\"", event.name),
            What::EventWait(event) => format!("waiting for event \"{}\"", event.name),
            What::Foreign { name, .. } => format!("foreign call \"{name}\""),
        };
        let scope = self
            .scope
            .as_ref()
            .map(|(_, path)| format!(" in \"{path}\""))
            .unwrap_or_default();
        format!(
            "{what} on stream \"{}\"{scope} of capture \"{}\"",
            state.name(self.id),
            self.core.session.name
        )
    }
}

fn address(place: &Place<'_>) -> u64 {
    let range: ByteRange = place.memory.range();
    range.start + place.bytes.start
}

impl<L> fmt::Debug for Stream<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("capture", &self.core.session.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
