//! Feeds, and their steps.

use std::fmt;
use std::sync::Arc;

use super::flight::Flights;
use super::route::{Direction, Routes};
use crate::device::{Device, DeviceInner, DeviceStream, Persistent};
use crate::error::{During, Error, FeedError, Name, Result};
use crate::kernel::Element;
use streamweir_hal::driver::CaptureStatus;
use streamweir_hal::owned::HostMemory;

/// A ring of steps that feed a graph and read it back.
///
/// A step is opened on a stream, sends and receives, and ends with one event for all of
/// its copies. The feed keeps as many steps in flight as its ring has places; opening
/// one more waits for the event of the oldest, and never polls.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// let input = device.persistent::<u32>("input", 4)?;
/// let output = device.persistent::<u32>("output", 4)?;
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().copy(&output, &input))?;
/// let stream = device.stream("replay")?;
///
/// let mut feed = device.feed("decode", 2)?;
/// let mut ids = feed.staging::<u32>("ids", 4)?;
/// let mut tokens = feed.readback::<u32>("tokens", 4)?;
/// for token in 0..3 {
///     let mut step = feed.step(&stream)?;
///     ids.write(&step)?.fill(token);
///     ids.send(&mut step, &input, 0..4)?; // one driver call each
///     graph.replay(&stream)?;
///     tokens.receive(&mut step, &output, 0..4)?;
///     let done = step.end()?; // one event
///     assert_eq!(tokens.read(&mut feed, done)?, [token; 4]); // waits for that event
/// }
/// # Ok(())
/// # }
/// ```
pub struct Feed {
    device: Arc<DeviceInner>,
    name: Name,
    number: u64,
    next: u64,
    flights: Flights,
    routes: Routes,
}

/// Which step of which feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepId {
    pub(super) feed: u64,
    pub(super) number: u64,
}

/// The bytes of a slot that a copy takes, and those of its buffer.
pub(super) struct Span {
    pub(super) host: u64,
    pub(super) device: u64,
    pub(super) bytes: u64,
}

/// A step that is open: what it sends and receives is enqueued on its stream.
///
/// Dropped, it ends, too. When its event cannot be recorded, the end of the stream
/// stands for it, so that nothing is let go too early.
#[must_use = "a step that sends nothing feeds nothing"]
pub struct Step<'feed> {
    feed: &'feed mut Feed,
    stream: &'feed DeviceStream,
    id: StepId,
}

impl Device {
    /// A feed that keeps up to `depth` steps in flight, at least one.
    ///
    /// # Errors
    /// When the driver has no more events, or inside a capture.
    pub fn feed(&self, name: &str, depth: usize) -> Result<Feed> {
        self.inner.outside("Device::feed")?;
        let flights = Flights::new(&self.inner.reclaim, depth.max(1))
            .during(|| format!("creating the events of feed \"{name}\""))?;
        Ok(Feed {
            device: self.inner.clone(),
            name: name.into(),
            number: self.inner.next_number(),
            next: 0,
            flights,
            routes: Routes::default(),
        })
    }
}

impl Feed {
    /// Opens a step on `stream`. Waits until the step has ended that has used its slots
    /// before.
    ///
    /// # Errors
    /// For a stream of another device or one that an engine is capturing, when the work
    /// of that step failed, or inside a capture.
    pub fn step<'feed>(&'feed mut self, stream: &'feed DeviceStream) -> Result<Step<'feed>> {
        self.device.outside("Feed::step")?;
        if !Arc::ptr_eq(&stream.device, &self.device) {
            return Err(Error::OtherDevice {
                what: format!("feed \"{}\"", self.name),
                used_on: format!("stream \"{}\"", stream.name()),
            });
        }
        // A stream of ours is captured by nobody.
        if !stream.stream.is_ours() && stream.capture_status()? != CaptureStatus::None {
            return Err(Error::Feed(FeedError::StreamCaptures {
                feed: self.name.to_string(),
                stream: stream.name().to_owned(),
            }));
        }
        self.wait(self.next)?;
        let id = StepId {
            feed: self.number,
            number: self.next,
        };
        self.next += 1;
        Ok(Step {
            feed: self,
            stream,
            id,
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many steps it keeps in flight.
    pub fn depth(&self) -> usize {
        self.flights.depth()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn device(&self) -> &DeviceInner {
        &self.device
    }

    /// Waits for the copies of a step, unless they have been waited for already.
    pub(super) fn finish(&mut self, step: StepId) -> Result<()> {
        self.device.outside("Readback::read")?;
        self.wait(step.number)
    }

    fn wait(&mut self, step: u64) -> Result<()> {
        self.flights
            .wait(step)
            .during(|| format!("waiting for a step of feed \"{}\"", self.name))
    }
}

impl Step<'_> {
    /// Ends the step with an event behind its copies, and says which step it was.
    ///
    /// # Errors
    /// When the driver refuses the event. The copies are waited for all the same.
    pub fn end(self) -> Result<StepId> {
        let (feed, stream) = (&mut *self.feed, self.stream);
        feed.flights.end(self.id.number).during(|| {
            format!(
                "recording the event of feed \"{}\" on stream \"{}\"",
                feed.name,
                stream.name()
            )
        })?;
        Ok(self.id)
    }

    /// Which step it is.
    pub fn id(&self) -> StepId {
        self.id
    }

    /// Enqueues a copy between a slot and a buffer in turn.
    pub(super) fn copy<T: Element>(
        &mut self,
        slots: &str,
        slot: &Arc<HostMemory>,
        buffer: &Persistent<T>,
        span: &Span,
        direction: Direction,
    ) -> Result<()> {
        let (feed, stream) = (&mut *self.feed, self.stream);
        feed.device.outside(match direction {
            Direction::Send => "Staging::send",
            Direction::Receive => "Readback::receive",
        })?;
        if !buffer.inner.is_on(&feed.device) {
            return Err(Error::OtherDevice {
                what: format!("buffer \"{}\"", buffer.name()),
                used_on: format!("stream \"{}\"", stream.name()),
            });
        }
        if span.bytes == 0 {
            return Ok(());
        }
        feed.flights.hold(
            self.id.number,
            &stream.stream,
            [slot.clone(), buffer.inner.clone()],
        );
        let (to, from, verb) = match direction {
            Direction::Send => (span.device, span.host, "sending"),
            Direction::Receive => (span.host, span.device, "receiving"),
        };
        feed.routes
            .enqueue(
                &feed.device,
                &buffer.inner,
                direction,
                &stream.stream,
                // SAFETY: slot and buffer are long enough and held by `flights` until the
                // event behind this copy, or the stream, has been waited for.
                || unsafe { stream.stream.copy(to, from, span.bytes) },
            )
            .during(|| {
                format!(
                    "{verb} \"{slots}\" and buffer \"{}\" on stream \"{}\"",
                    buffer.name(),
                    stream.name()
                )
            })
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        // Refused, the end of the stream stands for the event: nothing is let go too
        // early, and `end` has told whoever called it.
        let _ = self.feed.flights.end(self.id.number);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let (fences, kept) = self.flights.leave();
        // The routes are asked for conflicts as long as the copies are in flight.
        let routes = std::mem::take(&mut self.routes);
        self.device.reclaim.retire(fences, Box::new((kept, routes)));
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("name", &self.name)
            .field("depth", &self.depth())
            .field("steps", &self.next)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("feed", &self.feed.name)
            .field("stream", &self.stream.name())
            .field("number", &self.id.number)
            .finish()
    }
}
