//! Streams and events outside captures.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;
use streamweir_hal::driver::{CaptureStatus, EventScope, StreamHandle};
use streamweir_hal::owned::{OwnedEvent, OwnedStream};

use super::handle::Device;
use super::inner::DeviceInner;
use crate::error::{During, EngineError, Error, Name, Result};
use crate::turns::TurnGroup;

/// A stream outside any capture, to replay graphs on: one of ours, or one that
/// an engine already has.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// # let (first, ()) = device.capture::<_, Error>("first", |cap| cap.origin().fill(&out, 1))?;
/// # let (second, ()) = device.capture::<_, Error>("second", |cap| cap.origin().fill(&out, 2))?;
/// let [a, b] = [device.stream("a")?, device.stream("b")?];
/// let done = device.event("first is done")?;
/// first.replay(&a)?;
/// a.record(&done)?;
/// b.wait(&done)?;
/// second.replay(&b)?;
/// b.synchronize()?;
/// assert_eq!(out.download()?, [0x0202_0202; 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeviceStream {
    pub(crate) device: Arc<DeviceInner>,
    pub(crate) stream: Arc<OwnedStream>,
    pub(crate) name: Name,
}

impl Device {
    /// A stream to replay graphs on.
    ///
    /// # Errors
    /// When the driver has no more streams, or inside a capture.
    pub fn stream(&self, name: &str) -> Result<DeviceStream> {
        self.inner.outside("Device::stream")?;
        DeviceStream::new(self, name)
    }

    /// An event that orders work outside a graph against work inside it.
    ///
    /// # Errors
    /// When the driver has no more events, or inside a capture.
    pub fn event(&self, name: &str) -> Result<Event> {
        self.inner.outside("Device::event")?;
        Event::new(self, name)
    }

    /// Runs `warm` with a stream that is not captured, and waits for what it
    /// enqueued: the place to warm libraries up that allocate, load code or
    /// tune themselves on their first call.
    ///
    /// # Errors
    /// What `warm` returns, a failure of the stream, or inside a capture.
    pub fn prepare<R, E: From<Error>>(
        &self,
        warm: impl FnOnce(&DeviceStream) -> Result<R, E>,
    ) -> Result<R, E> {
        self.inner.outside("Device::prepare")?;
        let stream = DeviceStream::new(self, "prepare")?;
        let result = warm(&stream)?;
        stream.synchronize()?;
        Ok(result)
    }
}

impl DeviceStream {
    pub(super) fn new(device: &Device, name: &str) -> Result<Self> {
        let stream = OwnedStream::new(&device.inner.reclaim, 0)
            .during(|| format!("creating stream \"{name}\""))?;
        Ok(Self::of(&device.inner, stream, name))
    }

    pub(super) fn of(device: &Arc<DeviceInner>, stream: OwnedStream, name: &str) -> Self {
        let stream = Arc::new(stream);
        device.watch(&stream);
        Self {
            device: device.clone(),
            stream,
            name: name.into(),
        }
    }

    /// Takes part in a stream that an engine already has. `keep` is held as
    /// long as streamweir may use it.
    ///
    /// # Errors
    /// When it is the legacy default stream, by its null handle or by CUDA's
    /// number for it.
    ///
    /// # Safety
    /// `raw` is a live stream of the device's context and stays so while `keep`
    /// lives.
    pub unsafe fn from_raw(
        device: &Device,
        name: &str,
        raw: StreamHandle,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        // CU_STREAM_LEGACY is 1. The per-thread default stream, 2, is another
        // stream in every thread and so has no identity to attach to either.
        if raw.0 <= 2 {
            return Err(Error::Engine(EngineError::LegacyStream {
                stream: name.to_owned(),
            }));
        }
        // SAFETY: the caller's promise.
        let stream = unsafe { OwnedStream::adopt(&device.inner.reclaim, raw, keep) };
        Ok(Self::of(&device.inner, stream, name))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver's handle, for foreign calls.
    pub fn raw(&self) -> StreamHandle {
        self.stream.handle()
    }

    /// Waits for the work of the stream.
    ///
    /// # Errors
    /// When that work failed, or inside a capture.
    pub fn synchronize(&self) -> Result<()> {
        self.device.outside("DeviceStream::synchronize")?;
        self.stream
            .synchronize()
            .during(|| format!("waiting for stream \"{}\"", self.name))
    }

    /// Whether the stream has nothing left to do.
    ///
    /// # Errors
    /// When its work failed, or inside a capture.
    pub fn is_idle(&self) -> Result<bool> {
        self.device.outside("DeviceStream::is_idle")?;
        self.stream
            .is_idle()
            .during(|| format!("asking stream \"{}\"", self.name))
    }

    /// Records `event` here.
    ///
    /// # Errors
    /// When a live graph records it, or the driver refuses.
    pub fn record(&self, event: &Event) -> Result<()> {
        event.same_device(&self.device)?;
        event.inner.by_hand(&self.name)?;
        event
            .inner
            .event
            .record(&self.stream, EventScope::Internal)
            .during(|| format!("recording event \"{}\" on \"{}\"", event.name(), self.name))
    }

    /// Makes the next work of this stream wait for `event`.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn wait(&self, event: &Event) -> Result<()> {
        event.same_device(&self.device)?;
        event
            .inner
            .event
            .order(&self.stream, EventScope::Internal)
            .during(|| format!("stream \"{}\" waiting for \"{}\"", self.name, event.name()))
    }

    pub(crate) fn capture_status(&self) -> Result<CaptureStatus> {
        let mut frontier = Vec::new();
        Ok(self
            .stream
            .capture_info(&mut frontier)
            .during(|| format!("looking whether stream \"{}\" captures", self.name))?
            .status)
    }
}

impl fmt::Debug for DeviceStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceStream")
            .field("name", &self.name)
            .field("raw", &self.raw())
            .finish()
    }
}

/// An event between work inside a graph and work outside it.
///
/// A graph that records or waits for one keeps it alive. Who waits for an event waits
/// for its latest record, so one that two graphs record, or a graph and the host, says
/// of neither that it has got there: an event that a live graph records is recorded by
/// no graph outside of its replay group, whose graphs take turns, and by nobody on a
/// [stream](DeviceStream::record). An eager run may record it, for it comes after the
/// replays that were enqueued before. Any number may wait for it.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let input = device.persistent_from("input", &[1_u32, 2])?;
/// # let out = device.persistent::<u32>("out", 2)?;
/// let ready = device.event("the inputs are there")?;
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| {
///     let main = cap.origin();
///     main.wait_external(&ready)?;
///     main.copy(&out, &input)
/// })?;
/// let [uploads, replays] = [device.stream("uploads")?, device.stream("replays")?];
/// // A replay waits for the record that was enqueued before it, and for no later one.
/// uploads.record(&ready)?;
/// graph.replay(&replays)?;
/// assert_eq!(out.download()?, [1, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Event {
    pub(crate) inner: Arc<EventInner>,
}

pub(crate) struct EventInner {
    pub(crate) device: Weak<DeviceInner>,
    pub(crate) event: OwnedEvent,
    pub(crate) name: Name,
    recorders: Mutex<Recorders>,
}

/// Who records an event.
#[derive(Default)]
struct Recorders {
    /// All of one replay group.
    graphs: Vec<Weak<Claim>>,
    by_hand: bool,
}

/// That a capture, and then its graph, records events. As long as this lives, nobody
/// outside of its replay group does: the graphs of one take turns, so that the latest
/// record stands for those before.
pub(crate) struct Claim {
    capture: Name,
    group: Arc<TurnGroup>,
}

impl Claim {
    pub(crate) fn of(capture: &Name, group: &Arc<TurnGroup>) -> Arc<Self> {
        Arc::new(Self {
            capture: capture.clone(),
            group: group.clone(),
        })
    }
}

impl EventInner {
    /// Makes a capture one that records the event.
    ///
    /// # Errors
    /// When a live graph of another group does, or somebody has recorded it by hand.
    pub(crate) fn claim(&self, claim: &Arc<Claim>) -> Result<()> {
        let mut recorders = self.recorders.lock();
        if recorders.by_hand {
            return Err(self.taken("by hand".to_owned(), &claim.capture));
        }
        self.refuse_others(&recorders, Some(&claim.group), &claim.capture)?;
        recorders.graphs.retain(|known| known.strong_count() > 0);
        recorders.graphs.push(Arc::downgrade(claim));
        Ok(())
    }

    /// Whether a live graph records the event.
    pub(crate) fn is_recorded_by_a_graph(&self) -> bool {
        let recorders = self.recorders.lock();
        recorders
            .graphs
            .iter()
            .any(|claim| claim.strong_count() > 0)
    }

    /// Notes that somebody records the event by hand, on stream `by`.
    ///
    /// # Errors
    /// When a live graph does.
    fn by_hand(&self, by: &str) -> Result<()> {
        let mut recorders = self.recorders.lock();
        self.refuse_others(&recorders, None, by)?;
        recorders.by_hand = true;
        Ok(())
    }

    /// Refuses when a live graph that is not of this group records the event.
    fn refuse_others(
        &self,
        recorders: &Recorders,
        group: Option<&Arc<TurnGroup>>,
        by: &str,
    ) -> Result<()> {
        let live = recorders.graphs.iter().filter_map(Weak::upgrade);
        let ours = |other: &Claim| group.is_some_and(|group| Arc::ptr_eq(group, &other.group));
        match live.into_iter().find(|other| !ours(other)) {
            Some(other) => Err(self.taken(format!("by graph \"{}\"", other.capture), by)),
            None => Ok(()),
        }
    }

    fn taken(&self, recorded: String, by: &str) -> Error {
        Error::EventTaken {
            event: self.name.to_string(),
            recorded,
            by: by.to_owned(),
        }
    }
}

impl Event {
    pub(super) fn new(device: &Device, name: &str) -> Result<Self> {
        let event = OwnedEvent::new(&device.inner.reclaim, true)
            .during(|| format!("creating event \"{name}\""))?;
        Ok(Self {
            inner: Arc::new(EventInner {
                device: Arc::downgrade(&device.inner),
                event,
                name: name.into(),
                recorders: Mutex::new(Recorders::default()),
            }),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Waits for what was recorded.
    ///
    /// # Errors
    /// When that work failed, or inside a capture.
    pub fn synchronize(&self) -> Result<()> {
        if let Some(device) = self.inner.device.upgrade() {
            device.outside("Event::synchronize")?;
        }
        self.inner
            .event
            .wait()
            .during(|| format!("waiting for event \"{}\"", self.name()))
    }

    /// Milliseconds on the device's clock from this event to `end`.
    ///
    /// # Errors
    /// When one of them is not recorded or not passed; on the simulated
    /// device, which has no clock.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        self.inner
            .event
            .elapsed_ms(&end.inner.event)
            .during(|| format!("timing \"{}\" to \"{}\"", self.name(), end.name()))
    }

    pub(crate) fn same_device(&self, device: &Arc<DeviceInner>) -> Result<()> {
        if std::ptr::eq(self.inner.device.as_ptr(), Arc::as_ptr(device)) {
            return Ok(());
        }
        Err(Error::OtherDevice {
            what: format!("event \"{}\"", self.name()),
            used_on: device.reclaim.info().name.clone(),
        })
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}
