//! What can be recorded on a captured stream.

#[cfg(feature = "cuda")]
mod cudarc_op;
mod foreign;
mod host;
mod in_call;
mod launch;
mod transfer;

#[cfg(feature = "cuda")]
pub use cudarc_op::{CudarcOp, CudarcSlice, CudarcSliceMut};

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefMut;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use streamweir_trace::{ScopeId, StreamId};

use super::buffer::Buffer;
use super::lane::{Dyn, Lane, VisibleOn};
use super::open::Open;
use super::recorder::Recorder;
use super::recording::Spot;
use super::rewrite::{ElementKind, Holder, Taken};
use super::scratch::Scratch;
use crate::error::{Error, Result};
use crate::kernel::Element;

/// A captured stream of lane `L`.
///
/// Work recorded here runs, at every replay, after the work recorded here
/// before and after what the stream was forked from or has joined; it is
/// concurrent with everything else.
///
/// Reports name the line of your code that recorded a piece of work. Where helpers of
/// yours record, that line is the helper's: mark them `#[track_caller]`, and theirs, and
/// reports name who called them.
///
/// ```
/// # use streamweir_sched as streamweir;
/// # use streamweir::{Device, Error, Persistent, Stream};
/// #[track_caller] // without it every report would name the line below
/// fn clear(stream: &Stream, buffer: &Persistent<u32>) -> Result<(), Error> {
///     stream.fill(buffer, 0)
/// }
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// let (graph, line) = device.capture::<_, Error>("step", |cap| {
///     clear(&cap.origin(), &out)?;
///     Ok(line!() - 1)
/// })?;
/// assert_eq!(graph.trace().nodes[0].launch.as_ref().map(|at| at.line), Some(line));
/// # Ok(())
/// # }
/// ```
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4).unwrap();
/// let refused = device.capture::<_, Error>("step", |cap| {
///     let main = cap.origin();
///     let side = cap.fork(&main, "side")?.scope("layer 0/side");
///     side.fill(&out, 1)?;
///     main.fill(&out, 2)?; // nothing orders the two
///     cap.join(&main, side).map(drop)
/// });
/// let error = refused.unwrap_err();
/// assert!(error.report().is_some());
/// assert!(error.to_string().contains("layer 0/side"));
/// # }
/// ```
pub struct Stream<L = Dyn> {
    pub(super) recorder: Rc<Recorder>,
    pub(super) id: StreamId,
    generation: u32,
    /// An alias stands for its parent while the overlap is off.
    pub(super) alias: bool,
    scope: Option<Scope>,
    lane: PhantomData<fn(L)>,
}

/// A path that reports print.
#[derive(Clone)]
struct Scope {
    /// None when the capture had ended before it was entered.
    id: Option<ScopeId>,
    path: Rc<str>,
}

impl<L: Lane> Stream<L> {
    pub(super) fn new(recorder: &Rc<Recorder>, id: StreamId, generation: u32, alias: bool) -> Self {
        Self {
            recorder: recorder.clone(),
            id,
            generation,
            alias,
            scope: None,
            lane: PhantomData,
        }
    }

    /// The name, which also is the tag of its pool.
    pub fn name(&self) -> String {
        self.recorder.stream_name(self.id).to_string()
    }

    /// The same stream, with `path` added to the scope that reports print for
    /// whatever is recorded through it.
    #[must_use]
    pub fn scope(&self, path: &str) -> Self {
        let path: Rc<str> = match &self.scope {
            None => path.into(),
            Some(outer) => format!("{}/{path}", outer.path).into(),
        };
        let open = self.recorder.unended(String::new);
        let id = open
            .ok()
            .map(|mut open| open.recorded.recording.scope(&path));
        Self {
            scope: Some(Scope { id, path }),
            ..Self::new(&self.recorder, self.id, self.generation, self.alias)
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
        self.take(name.into(), len, Holder::User, Location::caller())
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
        self.take(name.into(), bytes, Holder::Library, Location::caller())
    }

    fn take<T: Element>(
        &self,
        name: Cow<'static, str>,
        len: usize,
        holder: Holder,
        line: &'static Location<'static>,
    ) -> Result<Scratch<T, L>> {
        drop(self.enter()?);
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            return Err(Error::TooLarge {
                buffer: name.into_owned(),
                elements: len,
                element_size: size_of::<T>(),
            });
        };
        // The arena may grow, for which memory of others is released: nothing is
        // borrowed here.
        let pools = &self.recorder.pools;
        let block = match holder {
            Holder::User | Holder::Call => pools.pools.alloc(self.id, bytes as u64, name)?,
            Holder::Library => pools.pools.workspace(self.id, bytes as u64, name)?,
        };
        let scratch = Scratch::new(pools.clone(), block, len);
        let taken = Taken {
            block,
            spot: self.spot(line),
            element: ElementKind::of::<T>(),
            holder,
        };
        self.open()?.taken(taken)?;
        Ok(scratch)
    }

    /// A second handle that stands for this stream. It begins without a scope, as a
    /// forked stream does, so that work has one name with the overlap on and off.
    pub(super) fn alias<A: Lane>(&self) -> Stream<A> {
        Stream::new(&self.recorder, self.id, self.generation, true)
    }

    /// Refuses a handle whose stream was joined, or whose capture is over.
    pub(super) fn check_live(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// The handle as the recorder knows it.
    pub(super) fn key(&self) -> (StreamId, u32) {
        (self.id, self.generation)
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
        self.open()?.recorded.asked.push(keep);
        Ok(())
    }

    fn spot(&self, line: &'static Location<'static>) -> Spot {
        Spot {
            stream: self.id,
            scope: self.scope.as_ref().and_then(|scope| scope.id),
            line,
        }
    }

    fn open(&self) -> Result<RefMut<'_, Open>> {
        self.recorder.open(self.id, self.generation)
    }

    /// Opens the stream for a call that records.
    fn enter(&self) -> Result<RefMut<'_, Open>> {
        self.recorder.enter(self.id, self.generation)
    }
}

impl<L> fmt::Debug for Stream<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("capture", self.recorder.name())
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
