//! Capture: recording work on several streams into one verified graph.
//!
//! ```text
//! record -> place -> emit under capture -> read back -> verify -> instantiate
//! ```
//!
//! In a live capture a command is emitted as soon as it is recorded, and a
//! scratch buffer is placed when it is taken; a planned one
//! ([`Placement::Planned`]) does both at the end, over the whole recording
//! (`planned`). The same closure runs captured either way
//! ([`Device::capture`]), straight on the device ([`Device::eager`]) or inside
//! a capture that an engine began ([`Device::attach`]).
//!
//! A capture belongs to the thread that began it, as CUDA's does: its handles
//! are not `Send`. Scratch buffers are, and may be dropped anywhere. A capture
//! that fails, for whatever reason, leaves the device, its streams and the
//! pools as they were (invariant 8).

mod args;
mod attach;
mod eager;
mod early;
mod finish;
mod instruments;
mod lane;
mod options;
mod place;
mod planned;
mod record;
mod scratch;
mod send;
mod session;
mod strand;
mod stream;
mod trace;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use streamweir_alloc::PoolReport;
use streamweir_base::inside::Inside;
use streamweir_trace::StreamId;

#[doc(hidden)]
pub use args::Binder;
pub use args::{Arg, Args};
pub use attach::{Attached, Detached};
pub use eager::EagerRun;
pub use instruments::{Difference, Differential, Poison, Readings, Taps};
pub use lane::{Dyn, Joined, Lane, Seen, VisibleOn};
pub use options::{CaptureOptions, Placement, Verify};
#[doc(hidden)]
pub use place::Place;
pub use place::{Buffer, Cast, Part, Touch, atomics, cast, narrow, part, reads, updates, writes};
pub use planned::{ForeignAddresses, ForeignCall};
pub use scratch::Scratch;
pub use stream::Stream;

use self::session::{Core, Mode};
use crate::device::Device;
use crate::driver::CaptureMode;
use crate::error::{During, Error, Result};
use crate::graph::Graph;

impl Device {
    /// Captures what `record` records into a graph, verifies it and
    /// instantiates it.
    ///
    /// # Errors
    /// What `record` returns; an unjoined stream; a hazard, with
    /// [`Verify::Refuse`]; a failure of the driver. All is left as before then.
    pub fn capture<R, E: From<Error>>(
        &self,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&Capture) -> Result<R, E>,
    ) -> Result<(Graph, R), E> {
        let capture = self.begin(options)?;
        let result = record(&capture)?;
        Ok((capture.end()?, result))
    }

    /// Begins a capture to be ended by [`Capture::end`]; dropped before, it is
    /// as if it had not been.
    ///
    /// # Errors
    /// When the driver refuses, or the calling thread is inside a capture.
    pub fn begin(&self, options: impl Into<CaptureOptions>) -> Result<Capture> {
        self.inner.outside("Device::begin")?;
        self.collect();
        let mut options = options.into();
        options.guarded = self.guarded;
        let inner = &self.inner;
        let origin = Arc::new(inner.take_stream(options.priorities.of(&options.origin))?);
        let mode = match options.placement {
            Placement::Live => Mode::Captured,
            Placement::Planned if options.policy.is_ordered_by_graph() => Mode::Planned,
            Placement::Planned => {
                return Err(Error::Unplannable {
                    what: "a pool in the order of host calls".into(),
                    capture: options.name,
                    instead: "a plan looks at the order of the graph alone: capture live, or \
                              choose Policy::ORDERED",
                });
            }
        };
        let core = Core::new(inner, &options, mode, origin.clone(), inner.take_event()?)?;
        // From here on the capture's own drop ends whatever has begun.
        let capture = Capture {
            core: Rc::new(core),
        };
        if capture.core.emits_at_once() {
            // SAFETY: the capture's end, or its drop, ends it before streams go.
            unsafe { origin.begin_capture(CaptureMode::ThreadLocal) }
                .during(|| format!("beginning capture \"{}\"", options.name))?;
        }
        let name = capture.core.session.name.clone();
        capture.core.state.borrow_mut().inside = Some(Inside::enter(name));
        Ok(capture)
    }
}

/// A capture in progress.
pub struct Capture {
    pub(crate) core: Rc<Core>,
}

impl Capture {
    /// The name.
    pub fn name(&self) -> &str {
        &self.core.session.name
    }

    /// The stream that the capture began on, and on which it ends.
    pub fn origin(&self) -> Stream {
        Stream::new(&self.core, StreamId(0), 0, false)
    }

    /// The origin stream, as lane `L`.
    ///
    /// # Errors
    /// When `L` stands for another stream of this capture.
    pub fn origin_as<L: Lane>(&self) -> Result<Stream<L>> {
        let mut state = self.core.state.borrow_mut();
        self.core.check_lane::<L>(&state, Some(StreamId(0)))?;
        state.strands[0].lane = session::lane_of::<L>().or(state.strands[0].lane);
        Ok(Stream::new(&self.core, StreamId(0), 0, false))
    }

    /// Forks a captured stream off `parent`: an event record and a wait. It has
    /// its own scratch pool, whose tag is `name`. A stream that was joined may
    /// be forked again by its name, and continues its chain.
    ///
    /// # Errors
    /// When a stream of that name is forked and not joined, `parent` is of
    /// another capture, or the driver refuses.
    pub fn fork(&self, parent: &Stream, name: &str) -> Result<Stream> {
        self.same_capture(parent)?;
        parent.check_live()?;
        let (id, generation) = self.core.fork::<Dyn>(parent.id, name)?;
        Ok(Stream::new(&self.core, id, generation, false))
    }

    /// Forks a captured stream of lane `L`, and returns the token with which it
    /// sees its parent's buffers.
    ///
    /// # Errors
    /// As [`fork`](Self::fork), and when `L` stands for another stream.
    pub fn fork_as<L: Lane, P: Lane>(
        &self,
        parent: &Stream<P>,
        name: &str,
    ) -> Result<(Stream<L>, Joined<L, P>)> {
        self.same_capture(parent)?;
        parent.check_live()?;
        let (id, generation) = self.core.fork::<L>(parent.id, name)?;
        Ok((
            Stream::new(&self.core, id, generation, false),
            Joined::new(),
        ))
    }

    /// Forks when `on`; otherwise returns an alias of `parent`, whose join does
    /// nothing. One code path serves overlap on and off.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    pub fn fork_if(&self, on: bool, parent: &Stream, name: &str) -> Result<Stream> {
        if on {
            return self.fork(parent, name);
        }
        self.same_capture(parent)?;
        parent.check_live()?;
        Ok(parent.alias())
    }

    /// Joins `from` into `into`: what `into` records from now on comes after
    /// all that `from` has recorded. The token makes buffers of `from` visible
    /// on `into`.
    ///
    /// # Errors
    /// When one of them is of another capture, `from` is the origin or `into`
    /// itself, or the driver refuses.
    pub fn join<I: Lane, F: Lane>(
        &self,
        into: &Stream<I>,
        from: Stream<F>,
    ) -> Result<Joined<I, F>> {
        self.same_capture(into)?;
        self.same_capture(&from)?;
        into.check_live()?;
        from.check_live()?;
        if !from.alias {
            self.core.join(into.id, from.id)?;
        } else if into.id != from.id {
            // The work is on the parent, which goes on.
            self.core.follow(into.id, from.id)?;
        }
        Ok(Joined::new())
    }

    /// The use of the scratch pools so far.
    pub fn pools(&self) -> PoolReport {
        self.core.pool_report()
    }

    fn same_capture<L: Lane>(&self, stream: &Stream<L>) -> Result<()> {
        if Rc::ptr_eq(&stream.core, &self.core) {
            return Ok(());
        }
        Err(Error::OtherCapture {
            what: format!("stream \"{}\"", stream.name()),
            made_in: stream.core.session.name.to_string(),
            used_in: self.core.session.name.to_string(),
        })
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("name", &self.core.session.name)
            .field("policy", &self.core.policy())
            .finish_non_exhaustive()
    }
}
