//! Where driver objects go when their owners are dropped.

use std::any::Any;
use std::sync::Arc;

use streamweir_alloc::RetireQueue;
use streamweir_alloc::sync::Mutex;
use streamweir_trace::ByteRange;

use super::{OwnedEvent, OwnedStream};
use crate::capture::inside;
use crate::driver::{
    CaptureMode, Driver, DriverError, DynDriver, EventHandle, ExecHandle, GraphHandle,
    ModuleHandle, StreamHandle,
};

/// A driver object without an owner, or anything else whose drop must wait.
pub(crate) enum Garbage {
    Memory(u64),
    /// A piece of memory that is mapped in a range.
    Mapping(ByteRange),
    /// A range of addresses, and its bytes.
    Range(u64, u64),
    Host(*mut u8),
    Stream(StreamHandle),
    Event(EventHandle),
    Graph(GraphHandle),
    Exec(ExecHandle),
    Module(ModuleHandle),
    /// What a graph or an eager run kept alive.
    Keep(Box<dyn Any + Send + Sync>),
}

// SAFETY: a host pointer in here is a number to hand back to the driver, which
// takes it from any thread; nobody dereferences it.
unsafe impl Send for Garbage {}
// SAFETY: as above; there is nothing to do with a shared reference.
unsafe impl Sync for Garbage {}

/// What must have ended before an item may go.
pub(crate) enum Fence {
    /// All that the event recorded.
    Event(Arc<OwnedEvent>),
    /// All work of the stream; for when no event could be recorded on it.
    Stream(Arc<OwnedStream>),
}

impl Fence {
    /// Whether it is known to have ended. A question that fails is no answer:
    /// the item waits for the next one, or for the end of the device.
    fn has_passed(&self) -> bool {
        match self {
            Self::Event(event) => event.has_passed(),
            Self::Stream(stream) => stream.is_idle(),
        }
        .unwrap_or(false)
    }

    fn wait(&self) -> Result<(), DriverError> {
        match self {
            Self::Event(event) => event.wait(),
            Self::Stream(stream) => stream.synchronize(),
        }
    }
}

/// The item may go once each of these has passed.
pub(crate) type Fences = Vec<Fence>;

/// The driver, and what waits to be given back to it.
pub(crate) struct Reclaim {
    driver: DynDriver,
    queue: RetireQueue<Fences, Garbage>,
    failures: Mutex<Vec<DriverError>>,
}

/// A [`Reclaim`] as owners hold it.
pub(crate) type Shared = Arc<Reclaim>;

impl Reclaim {
    pub(crate) fn new(driver: DynDriver) -> Shared {
        Arc::new(Self {
            driver,
            queue: RetireQueue::new(),
            failures: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn dyn_driver(&self) -> &DynDriver {
        &self.driver
    }

    /// Takes an object that nothing unfinished uses.
    pub(crate) fn push(&self, garbage: Garbage) {
        self.queue.retire(Vec::new(), garbage);
    }

    /// Takes an object that nothing unfinished uses and releases it at once when
    /// the thread is outside captures. Whether it did, for certain.
    pub(crate) fn give_back(&self, garbage: Garbage) -> bool {
        if inside().is_none()
            && let Ok(_relaxed) = Relaxed::enter(self)
        {
            return self.release(garbage);
        }
        self.push(garbage);
        false
    }

    /// Takes an object that work may still use until `fences` have passed.
    pub(crate) fn retire(&self, fences: Fences, garbage: Garbage) {
        self.queue.retire(fences, garbage);
    }

    /// Releases what can be released. To be called outside captures.
    ///
    /// Releasing a keep drops owners, which puts more here; so it goes on until
    /// a round has nothing to do.
    pub(crate) fn collect(&self) {
        if self.queue.is_empty() {
            return;
        }
        let Ok(_relaxed) = Relaxed::enter(self) else {
            // Without the driver's consent nothing is released: it stays here.
            return;
        };
        loop {
            let ready = self
                .queue
                .collect(|fences| fences.iter().all(Fence::has_passed));
            if ready.is_empty() {
                return;
            }
            // Keeps go before what they refer to, and before memory.
            for (fences, garbage) in ready {
                self.release(garbage);
                drop(fences);
            }
        }
    }

    /// Waits for all fences and releases everything: the device goes away, and
    /// afterwards nobody would. The one place where a drop may wait.
    pub(crate) fn finish(&self) {
        // The thread may be inside a capture of another device.
        let _relaxed = Relaxed::enter(self);
        loop {
            let rest = self.queue.drain();
            if rest.is_empty() {
                return;
            }
            for (fences, garbage) in rest {
                for fence in &fences {
                    if let Err(error) = fence.wait() {
                        self.failures.lock().push(error);
                    }
                }
                self.release(garbage);
            }
        }
    }

    /// Things that wait here.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    /// The failures of releases so far; each is told once.
    pub(crate) fn take_failures(&self) -> Vec<DriverError> {
        std::mem::take(&mut *self.failures.lock())
    }

    /// Releases an object; whether the driver says that it has.
    fn release(&self, garbage: Garbage) -> bool {
        let driver = &*self.driver;
        // SAFETY: the handle came from its owner's drop, so it is live and this
        // is its last use; its fences have passed, so no unfinished work uses it;
        // and what a graph refers to is kept by the graph's own keep, so nothing
        // that could be replayed refers to it.
        let result = unsafe {
            match garbage {
                Garbage::Memory(address) => driver.mem_free(address),
                Garbage::Mapping(piece) => driver.mem_unmap(piece.start, piece.len()),
                Garbage::Range(start, bytes) => driver.range_free(start, bytes),
                Garbage::Host(address) => driver.host_free(address),
                Garbage::Stream(stream) => driver.stream_destroy(stream),
                Garbage::Event(event) => driver.event_destroy(event),
                Garbage::Graph(graph) => driver.graph_destroy(graph),
                Garbage::Exec(exec) => driver.exec_destroy(exec),
                Garbage::Module(module) => driver.module_unload(module),
                Garbage::Keep(keep) => {
                    drop(keep);
                    Ok(())
                }
            }
        };
        let released = result.is_ok();
        if let Err(error) = result {
            self.failures.lock().push(error);
        }
        released
    }
}

impl Drop for Reclaim {
    /// Whatever came here after [`finish`](Reclaim::finish) has no fences: the
    /// device was gone, so nothing was launched.
    fn drop(&mut self) {
        for (_, garbage) in self.queue.drain() {
            self.release(garbage);
        }
    }
}

/// While it lives, the calling thread may make potentially unsafe calls in
/// spite of captures. The former mode comes back at the end.
pub(crate) struct Relaxed<'a> {
    reclaim: &'a Reclaim,
    former: CaptureMode,
}

impl<'a> Relaxed<'a> {
    pub(crate) fn enter(reclaim: &'a Reclaim) -> Result<Self, DriverError> {
        let former = reclaim.driver.capture_mode_exchange(CaptureMode::Relaxed)?;
        Ok(Self { reclaim, former })
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.reclaim.driver.capture_mode_exchange(self.former) {
            self.reclaim.failures.lock().push(error);
        }
    }
}
