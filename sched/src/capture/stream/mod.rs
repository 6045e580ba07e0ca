//! What can be recorded on a captured stream.

mod emit;
mod foreign;
mod launch;
mod transfer;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use streamweir_trace::{ScopeId, StreamId};

pub(super) use self::emit::Spot;
use super::instruments::ElementKind;
use super::lane::{Dyn, Lane, VisibleOn};
use super::place::Buffer;
use super::scratch::Scratch;
use super::session::{Core, State};
use crate::error::{Error, Result};
use crate::kernel::Element;

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
    #[track_caller]
    pub fn scratch<T: Element>(
        &self,
        name: impl Into<Cow<'static, str>>,
        len: usize,
    ) -> Result<Scratch<T, L>> {
        self.take(name.into(), len, false, Location::caller())
    }

    /// Takes scratch that a library holds on this stream across its calls, to
    /// the end of the capture; no other stream may use it.
    ///
    /// # Errors
    /// As [`scratch`](Self::scratch).
    #[track_caller]
    pub fn workspace(
        &self,
        name: impl Into<Cow<'static, str>>,
        bytes: usize,
    ) -> Result<Scratch<u8, L>> {
        self.take(name.into(), bytes, true, Location::caller())
    }

    fn take<T: Element>(
        &self,
        name: Cow<'static, str>,
        len: usize,
        workspace: bool,
        line: &'static Location<'static>,
    ) -> Result<Scratch<T, L>> {
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
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
        let recording = &mut state.recording;
        let start = recording.alloc_frontiers.len() as u32;
        recording
            .alloc_frontiers
            .extend(&state.strands[self.id.index()].frontier);
        recording
            .allocs
            .push(start..recording.alloc_frontiers.len() as u32);
        let scratch = Scratch::new(self.core.session.clone(), block, len);
        let element = ElementKind::of::<T>();
        self.core
            .taken(state, self.spot(line), block, element, workspace)?;
        Ok(scratch)
    }

    /// A second handle that stands for this stream. It begins without a scope, as a
    /// forked stream does, so that work has one name with the overlap on and off.
    pub(super) fn alias(&self) -> Self {
        Self::new(&self.core, self.id, self.generation, true)
    }

    /// Refuses a handle whose stream was joined, or whose capture is over.
    pub(super) fn check_live(&self) -> Result<()> {
        self.open(&self.core.state.borrow())
    }

    /// The device address that a kernel would be given for a buffer, for
    /// foreign calls that need it before they are made.
    ///
    /// # Errors
    /// [`Error::Unplannable`] for a scratch buffer of a planned capture, which
    /// has no address yet.
    pub fn address_of(&self, buffer: impl Buffer + VisibleOn<L>) -> Result<u64> {
        buffer.place().address()
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

    /// Opens the stream for a call that records: what the host has dropped before
    /// it comes before it.
    fn enter(&self, state: &mut State) -> Result<()> {
        self.open(state)?;
        self.core.settle_drops(state)
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
}

impl<L> fmt::Debug for Stream<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("capture", &self.core.session.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
