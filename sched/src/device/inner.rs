//! What all handles of a device share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use streamweir_alloc::{Arena, ArenaConfig, Registry};
use streamweir_base::Backing;
use streamweir_base::inside::{inside, inside_on};
use streamweir_base::sync::Mutex;
use streamweir_base::sync::atomic::{AtomicU64, Ordering};
use streamweir_hal::driver::DynDriver;
use streamweir_hal::owned::{DeviceBacking, OwnedEvent, OwnedStream, Reclaim, Shared};

use super::guard::{GuardedBacking, Guards};
use super::store::Store;
use crate::error::{During, EngineError, Error, Name, Result};
use crate::turns::Groups;

pub(crate) struct DeviceInner {
    pub(crate) reclaim: Shared,
    pub(crate) registry: Registry,
    pub(crate) groups: Groups,
    /// Every stream that streamweir enqueues uncaptured work on.
    streams: Mutex<Vec<Weak<OwnedStream>>>,
    /// Streams and events for captures, kept for the next one.
    spare: Mutex<Spare>,
    /// What others keep for their next use.
    pub(crate) store: Store,
    pub(crate) guards: Arc<Guards>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Spare {
    streams: HashMap<i32, Vec<OwnedStream>>,
    events: Vec<OwnedEvent>,
}

impl DeviceInner {
    pub(super) fn new(driver: DynDriver) -> Arc<Self> {
        Arc::new(Self {
            reclaim: Reclaim::new(driver),
            registry: Registry::new(),
            groups: Groups::default(),
            streams: Mutex::new(Vec::new()),
            spare: Mutex::new(Spare::default()),
            store: Store::default(),
            guards: Arc::new(Guards::default()),
            numbers: AtomicU64::new(1),
        })
    }

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

    /// Refuses `call` when the calling thread is inside a capture of this very device.
    pub(crate) fn outside_own(self: &Arc<Self>, call: &'static str) -> Result<()> {
        match inside_on(self.mark()) {
            None => Ok(()),
            Some(capture) => Err(Error::InsideCapture {
                call,
                capture: capture.to_string(),
            }),
        }
    }

    /// The number that marks captures of this device: no other live device has it.
    pub(crate) fn mark(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// The error for a capture of the engine's that is broken.
    pub(crate) fn engine_capture_broken(&self, stream: &str) -> Error {
        #[cfg(feature = "cuda")]
        let slices = streamweir_hal::owned::Adopter::new(&self.reclaim)
            .map(|adopter| adopter.tracked_slices())
            .unwrap_or_default();
        #[cfg(not(feature = "cuda"))]
        let slices = Vec::new();
        Error::Engine(EngineError::CaptureBroken {
            stream: stream.to_owned(),
            slices,
        })
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// An arena, of one graph or of many.
    pub(crate) fn arena(
        &self,
        name: impl Into<Name>,
        config: ArenaConfig,
        guarded: bool,
        of_many: bool,
    ) -> Arc<Arena> {
        let name = name.into();
        let reclaim = self.reclaim.clone();
        let backing = match of_many {
            true => DeviceBacking::roomy(reclaim),
            false => DeviceBacking::new(reclaim),
        };
        let backing: Arc<dyn Backing> = match guarded {
            false => Arc::new(backing),
            true => Arc::new(GuardedBacking::new(backing, &self.guards, name.clone())),
        };
        Arena::new(name, backing, config)
    }

    /// Makes [`wait_for_all`](Self::wait_for_all) wait for a stream, too.
    pub(crate) fn watch(&self, stream: &Arc<OwnedStream>) {
        let mut streams = self.streams.lock();
        streams.retain(|s| s.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Waits for all uncaptured work of streamweir.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
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
            if status == streamweir_hal::driver::CaptureStatus::None {
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
        drop(std::mem::take(&mut self.store));
        drop(std::mem::take(self.spare.get_mut()));
        self.reclaim.finish();
    }
}
