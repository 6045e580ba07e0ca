//! The device: where memory, code and graphs come from.
//!
//! A [`Device`] is a cheap handle. What it gives out keeps what it needs alive
//! by itself; the device may be dropped first.

#[cfg(feature = "cuda")]
mod adopt;
mod code;
mod guard;
mod persistent;
mod pinned;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_alloc::{Arena, ArenaConfig, Registry};

pub(crate) use code::KernelInfo;
pub use code::{LoadedKernel, Module};
pub use guard::{Damage, GuardReport, Side};
use guard::{GuardedBacking, Guards};
pub use persistent::Persistent;
pub(crate) use persistent::PersistentInner;
pub use pinned::Pinned;
pub(crate) use stream::EventInner;
pub use stream::{DeviceStream, Event};
use streamweir_base::Backing;
use streamweir_base::inside::inside;
use streamweir_base::sync::Mutex;
use streamweir_base::sync::atomic::{AtomicU64, Ordering};

use crate::driver::sim::SimDriver;
use crate::driver::{DeviceInfo, DriverError, DynDriver, ModuleImage};
use crate::error::{During, Error, Name, Result};
use crate::graph::{GroupInner, ranks};
use crate::kernel::Element;
use crate::owned::{DeviceBacking, OwnedEvent, OwnedStream, Reclaim, Shared};

/// A device that graphs are captured on: a CUDA device or the simulated one.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
    /// Whether what is made through this handle has guards.
    pub(crate) guarded: bool,
}

pub(crate) struct DeviceInner {
    pub(crate) reclaim: Shared,
    pub(crate) registry: Registry,
    pub(crate) groups: Mutex<Vec<Weak<GroupInner>>>,
    /// Every stream that streamweir enqueues uncaptured work on.
    streams: Mutex<Vec<Weak<OwnedStream>>>,
    /// Streams and events for captures, kept for the next one.
    spare: Mutex<Spare>,
    pub(crate) guards: Arc<Guards>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Spare {
    streams: HashMap<i32, Vec<OwnedStream>>,
    events: Vec<OwnedEvent>,
}

impl Device {
    /// The simulated device. The seed decides how replays interleave work
    /// that nothing orders.
    pub fn sim(seed: u64) -> Self {
        Self::with_driver(SimDriver::new(seed))
    }

    /// CUDA device number `ordinal`, on its primary context.
    ///
    /// # Errors
    /// When there is no CUDA driver, no such device, or the driver is too old;
    /// the error says what was looked for and what to do.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Ok(Self::with_driver(crate::driver::cuda::CudaDriver::open(
            ordinal,
        )?))
    }

    /// A device over any driver: a wrapper, or a backend of your own.
    pub fn with_driver(driver: DynDriver) -> Self {
        Self {
            inner: Arc::new(DeviceInner {
                reclaim: Reclaim::new(driver),
                registry: Registry::new(),
                groups: Mutex::ranked(ranks::GROUPS, Vec::new()),
                streams: Mutex::new(Vec::new()),
                spare: Mutex::new(Spare::default()),
                guards: Arc::new(Guards::default()),
                numbers: AtomicU64::new(1),
            }),
            guarded: false,
        }
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.inner.reclaim.info()
    }

    /// The simulated device, where this is one: what it does differently from a
    /// card, such as interleaving by another seed, is asked of it.
    pub fn simulated(&self) -> Option<&SimDriver> {
        self.inner.reclaim.simulated()
    }

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

    /// Registers `len` elements of new, zeroed device memory that outlives the
    /// graphs captured with it: weights, caches, inputs, outputs.
    ///
    /// # Errors
    /// When memory runs out, or inside a capture.
    pub fn persistent<T: Element>(&self, name: &str, len: usize) -> Result<Persistent<T>> {
        self.inner.outside("Device::persistent")?;
        self.collect();
        Persistent::new(self, name, len)
    }

    /// Registers new device memory that holds `values`.
    ///
    /// # Errors
    /// As [`persistent`](Self::persistent).
    pub fn persistent_from<T: Element>(&self, name: &str, values: &[T]) -> Result<Persistent<T>> {
        let buffer = self.persistent(name, values.len())?;
        buffer.upload(values)?;
        Ok(buffer)
    }

    /// Page-locked host memory of `len` elements, zeroed, for copies on a
    /// stream.
    ///
    /// # Errors
    /// When memory runs out, or inside a capture.
    pub fn pinned<T: Element>(&self, name: &str, len: usize) -> Result<Pinned<T>> {
        self.inner.outside("Device::pinned")?;
        Pinned::new(self, name, len)
    }

    /// Loads code.
    ///
    /// # Errors
    /// When the driver refuses it, or inside a capture: loading is what a
    /// capture must find done.
    pub fn load(&self, image: &ModuleImage) -> Result<Module> {
        self.inner.outside("Device::load")?;
        Module::load(self, image)
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

    /// A group of graphs that never are in flight together and share one
    /// arena: the buckets of one model, say.
    pub fn replay_group(&self, name: &str, arena: ArenaConfig) -> crate::ReplayGroup {
        crate::ReplayGroup::new(self, name, arena)
    }

    /// Waits until all work has ended that streamweir has enqueued on this
    /// device, and releases what was waiting for it.
    ///
    /// # Errors
    /// When that work failed, or inside a capture.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.outside("Device::synchronize")?;
        self.inner.settle()?;
        self.collect();
        Ok(())
    }

    /// Releases what was dropped while it was in use, as far as it no longer
    /// is. Called by itself before memory is taken and when a capture begins.
    /// Does nothing inside a capture.
    pub fn collect(&self) {
        if inside().is_none() {
            self.inner.reclaim.collect();
        }
    }

    /// Dropped objects that are not released yet.
    pub fn retired(&self) -> usize {
        self.inner.reclaim.pending()
    }

    /// What the driver said against releases since the last call. A drop
    /// cannot return it.
    pub fn release_failures(&self) -> Vec<DriverError> {
        self.inner.reclaim.take_failures()
    }
}

impl DeviceInner {
    /// Refuses `call` when the calling thread is inside a capture.
    pub(crate) fn outside(&self, call: &'static str) -> Result<()> {
        match inside() {
            None => Ok(()),
            Some(capture) => Err(Error::InsideCapture {
                call,
                capture: capture.to_string(),
            }),
        }
    }

    /// The error for a capture of the engine's that is broken.
    pub(crate) fn engine_capture_broken(&self, stream: &str) -> Error {
        #[cfg(feature = "cuda")]
        let slices = crate::owned::Adopter::new(&self.reclaim)
            .map(|adopter| adopter.tracked_slices())
            .unwrap_or_default();
        #[cfg(not(feature = "cuda"))]
        let slices = Vec::new();
        Error::EngineCaptureBroken {
            stream: stream.to_owned(),
            slices,
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn arena(
        &self,
        name: impl Into<Name>,
        config: ArenaConfig,
        guarded: bool,
    ) -> Arc<Arena> {
        let name = name.into();
        let backing = DeviceBacking::new(self.reclaim.clone());
        let backing: Arc<dyn Backing> = match guarded {
            false => Arc::new(backing),
            true => Arc::new(GuardedBacking::new(backing, &self.guards, name.clone())),
        };
        Arena::new(name, backing, config)
    }

    /// Makes [`settle`](Self::settle) wait for a stream, too.
    pub(crate) fn watch(&self, stream: &Arc<OwnedStream>) {
        let mut streams = self.streams.lock();
        streams.retain(|s| s.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Waits for all uncaptured work of streamweir.
    pub(crate) fn settle(&self) -> Result<()> {
        let streams: Vec<_> = self
            .streams
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut frontier = Vec::new();
        for stream in streams {
            // An engine may be capturing on its stream; nothing of ours runs
            // there then, and asking would break the capture.
            let status = stream
                .capture_info(&mut frontier)
                .during(|| "looking whether a stream captures".into())?
                .status;
            if status == crate::driver::CaptureStatus::None {
                stream
                    .synchronize()
                    .during(|| "waiting for a stream".into())?;
            }
        }
        Ok(())
    }

    pub(crate) fn take_stream(&self, priority: i32) -> Result<OwnedStream> {
        let spare = self
            .spare
            .lock()
            .streams
            .get_mut(&priority)
            .and_then(Vec::pop);
        match spare {
            Some(stream) => Ok(stream),
            None => OwnedStream::new(&self.reclaim, priority)
                .during(|| "creating a stream for a capture".into()),
        }
    }

    pub(crate) fn give_stream(&self, stream: OwnedStream) {
        self.spare
            .lock()
            .streams
            .entry(stream.priority())
            .or_default()
            .push(stream);
    }

    pub(crate) fn take_event(&self) -> Result<OwnedEvent> {
        let spare = self.spare.lock().events.pop();
        match spare {
            Some(event) => Ok(event),
            None => OwnedEvent::new(&self.reclaim, false)
                .during(|| "creating an event for a capture".into()),
        }
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        drop(std::mem::take(self.spare.get_mut()));
        self.reclaim.finish();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("info", self.info())
            .finish_non_exhaustive()
    }
}
