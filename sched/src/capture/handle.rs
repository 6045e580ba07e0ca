//! The handle of a capture: streams, forks and joins.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use streamweir_alloc::PoolReport;

use super::buffer::Joined;
use super::lane::{Dyn, Lane, lane_of};
use super::path;
use super::recorder::Recorder;
use super::strand::ORIGIN;
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::graph::Graph;

/// A capture in progress.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// let capture = device.begin("step")?;
/// let main = capture.origin();
/// let side = capture.fork(&main, "side")?;
/// let scores = side.scratch::<u32>("scores", 4)?;
/// side.fill(&scores, 7)?;
/// // Work of `main` that is recorded here runs beside that of `side`.
/// let seen = capture.join(&main, side)?;
/// // A buffer of the other stream is seen through the token of the join.
/// main.copy(&out, seen.see(&scores))?;
/// let graph = capture.end()?; // read back from the driver, proved, instantiated
/// assert!(graph.certificate().is_some());
/// # Ok(())
/// # }
/// ```
pub struct Capture {
    pub(super) recorder: Rc<Recorder>,
}

impl Capture {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self {
            recorder: Rc::new(recorder),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.recorder.name()
    }

    /// The stream that the capture began on, and on which it ends.
    pub fn origin(&self) -> Stream {
        Stream::new(&self.recorder, ORIGIN, 0, false)
    }

    /// The origin stream, as lane `L`.
    ///
    /// # Errors
    /// When `L` stands for another stream of this capture.
    pub fn origin_as<L: Lane>(&self) -> Result<Stream<L>> {
        let ended = || format!("stream \"{}\"", self.recorder.stream_name(ORIGIN));
        let mut open = self.recorder.unended(ended)?;
        open.recorded.check_lane::<L>(Some(ORIGIN))?;
        let origin = open.recorded.strands.get_mut(ORIGIN);
        origin.lane = lane_of::<L>().or(origin.lane);
        Ok(Stream::new(&self.recorder, ORIGIN, 0, false))
    }

    /// Forks a captured stream off `parent`: an event record and a wait. It has
    /// its own scratch pool, whose tag is `name`. A stream that was joined may
    /// be forked again by its name, and continues its chain.
    ///
    /// # Errors
    /// When a stream of that name is forked and not joined, `parent` is of
    /// another capture, or the driver refuses.
    #[track_caller]
    pub fn fork(&self, parent: &Stream, name: &str) -> Result<Stream> {
        self.forked::<Dyn, Dyn>(parent, name, Location::caller())
    }

    /// Forks a captured stream of lane `L`, and returns the token with which it
    /// sees its parent's buffers.
    ///
    /// # Errors
    /// As [`fork`](Self::fork), and when `L` stands for another stream.
    #[track_caller]
    pub fn fork_as<L: Lane, P: Lane>(
        &self,
        parent: &Stream<P>,
        name: &str,
    ) -> Result<(Stream<L>, Joined<L, P>)> {
        let stream = self.forked(parent, name, Location::caller())?;
        Ok((stream, Joined::new()))
    }

    /// Forks when `on`; otherwise returns an alias of `parent`, whose join does
    /// nothing. One code path serves overlap on and off.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    #[track_caller]
    pub fn fork_if(&self, on: bool, parent: &Stream, name: &str) -> Result<Stream> {
        self.forked_if::<Dyn, Dyn>(on, parent, name, Location::caller())
    }

    /// [`fork_if`](Self::fork_if) for a captured stream of lane `L`, with the token with
    /// which it sees its parent's buffers. With the overlap off the alias is of that lane
    /// too, so that the code is the same.
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// use streamweir::{Device, Error};
    ///
    /// streamweir::lanes! { Main; Side; }
    ///
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// # let out = device.persistent::<u32>("out", 4)?;
    /// for overlap in [false, true] {
    ///     let (graph, ()) = device.capture::<_, Error>("step", |cap| {
    ///         let main = cap.origin_as::<Main>()?;
    ///         let (side, _) = cap.fork_if_as::<Side, Main>(overlap, &main, "side")?;
    ///         let scores = side.scratch::<u32>("scores", 4)?;
    ///         side.fill(&scores, 7)?;
    ///         let seen = cap.join(&main, side)?;
    ///         main.copy(&out, seen.see(&scores))
    ///     })?;
    ///     assert!(graph.certificate().is_some());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`fork_as`](Self::fork_as).
    #[track_caller]
    pub fn fork_if_as<L: Lane, P: Lane>(
        &self,
        on: bool,
        parent: &Stream<P>,
        name: &str,
    ) -> Result<(Stream<L>, Joined<L, P>)> {
        let stream = self.forked_if(on, parent, name, Location::caller())?;
        Ok((stream, Joined::new()))
    }

    fn forked_if<L: Lane, P: Lane>(
        &self,
        on: bool,
        parent: &Stream<P>,
        name: &str,
        line: &'static Location<'static>,
    ) -> Result<Stream<L>> {
        if on {
            return self.forked(parent, name, line);
        }
        self.same_capture(parent)?;
        parent.check_live()?;
        Ok(parent.alias())
    }

    fn forked<L: Lane, P: Lane>(
        &self,
        parent: &Stream<P>,
        name: &str,
        line: &'static Location<'static>,
    ) -> Result<Stream<L>> {
        self.same_capture(parent)?;
        let (parent, times) = parent.key();
        let (id, generation) = self.recorder.fork::<L>(parent, times, name, line)?;
        Ok(Stream::new(&self.recorder, id, generation, false))
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
            self.recorder.join(into.key(), from.key())?;
        } else if into.id != from.id {
            // The work is on the parent, which goes on.
            self.recorder.follow(into.key(), from.key())?;
        }
        Ok(Joined::new())
    }

    /// The use of the scratch pools so far.
    pub fn pools(&self) -> PoolReport {
        self.recorder.pools.pools.report()
    }

    /// Ends the capture: reads the driver's graph back, verifies it against
    /// what was recorded, and instantiates it.
    ///
    /// # Errors
    /// When a forked stream is not joined; when there are hazards and the
    /// capture refuses them; when the driver fails; from within a foreign call of
    /// the capture. All is left as before then.
    pub fn end(self) -> Result<Graph> {
        path::into_graph(&self.recorder)
    }

    /// Ends the capture as [`end`](Self::end) does, up to the proof, and makes `graph` do
    /// what was captured. See [`Device::recapture`](crate::Device::recapture).
    ///
    /// # Errors
    /// As [`end`](Self::end); when the driver refuses the update; for a graph of another
    /// device. The graph is as before then.
    pub fn end_into(self, graph: &mut Graph) -> Result<()> {
        graph.check_on(&self.recorder.device)?;
        path::into_update(&self.recorder, graph)
    }

    fn same_capture<L: Lane>(&self, stream: &Stream<L>) -> Result<()> {
        if Rc::ptr_eq(&stream.recorder, &self.recorder) {
            return Ok(());
        }
        Err(Error::OtherCapture {
            what: format!("stream \"{}\"", stream.name()),
            made_in: stream.recorder.name().to_string(),
            used_in: self.recorder.name().to_string(),
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Whatever has ended well finds nothing here.
        path::abandon(&self.recorder);
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("name", self.recorder.name())
            .field("policy", &self.recorder.pools.pools.policy())
            .finish_non_exhaustive()
    }
}
