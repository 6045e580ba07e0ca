//! Where driver objects go when their owners are dropped.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use streamweir_base::RetireQueue;
use streamweir_base::inside::inside;
use streamweir_base::sync::Mutex;
use streamweir_trace::ByteRange;

use crate::driver::{
    CaptureMode, DeviceInfo, Driver, DriverError, DriverResult, DynDriver, ErrorClass, EventHandle,
    ExecHandle, GraphHandle, ModuleHandle, Pointed, StreamHandle,
};
use crate::sim::SimDriver;

/// A driver object without an owner, or anything else whose drop must wait.
pub(super) enum Garbage {
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

/// An owner that can tell when work has ended.
pub(super) trait Ends: Send + Sync {
    /// Whether it has.
    fn has_ended(&self) -> DriverResult<bool>;

    /// Waits until it has.
    fn wait(&self) -> DriverResult<()>;
}

/// What must have ended before an item may go: all that an event recorded, or all
/// work of a stream, for when no event could be recorded on it.
#[derive(Clone)]
pub struct Fence(Arc<dyn Ends>);

impl Fence {
    pub(super) fn of(owner: Arc<dyn Ends>) -> Self {
        Self(owner)
    }

    /// Whether it is known to have ended. A question that fails is no answer:
    /// the item waits for the next one, or for the end of the device.
    fn has_passed(&self) -> bool {
        self.0.has_ended().unwrap_or(false)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").finish_non_exhaustive()
    }
}

/// The item may go once each of these has passed.
pub type Fences = Vec<Fence>;

/// The driver, and what waits to be given back to it.
pub struct Reclaim {
    driver: DynDriver,
    queue: RetireQueue<Fences, Garbage>,
    failures: Mutex<Vec<DriverError>>,
}

/// A [`Reclaim`] as owners hold it.
pub type Shared = Arc<Reclaim>;

impl Reclaim {
    /// Where the objects of `driver` go.
    pub fn new(driver: DynDriver) -> Shared {
        Arc::new(Self {
            driver,
            queue: RetireQueue::new(),
            failures: Mutex::new(Vec::new()),
        })
    }

    #[inline]
    pub(super) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// What the device is.
    #[inline]
    pub fn info(&self) -> &DeviceInfo {
        self.driver.info()
    }

    /// The simulated device, where it is one: to say how it interleaves, and to see
    /// what has not been destroyed. Of wrapping drivers, what they wrap.
    pub fn simulated(&self) -> Option<&SimDriver> {
        self.driver.as_any().downcast_ref()
    }

    /// The memory that `address` lies in, from anybody who shares the context,
    /// and whether it is the device's; `None` for what the driver does not know.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn pointer(&self, address: u64) -> DriverResult<Option<Pointed>> {
        self.driver.pointer(address)
    }

    /// Refuses `call` when what is passed to it is of another device, whose handles
    /// mean something else to this driver.
    pub(super) fn same(&self, other: &Self, call: &'static str) -> DriverResult<()> {
        if std::ptr::eq(self, other) {
            return Ok(());
        }
        Err(
            DriverError::of(call, ErrorClass::InvalidHandle).with(format!(
                "an object of another device ({}) was passed to one of {}",
                other.info().name,
                self.info().name
            )),
        )
    }

    /// Takes an object that nothing unfinished uses.
    pub(super) fn push(&self, garbage: Garbage) {
        self.queue.retire(Vec::new(), garbage);
    }

    /// Takes an object that nothing unfinished uses and releases it at once when
    /// the thread is outside captures. Whether it did, for certain.
    pub(super) fn give_back(&self, garbage: Garbage) -> bool {
        if inside().is_none()
            && let Ok(_relaxed) = Relaxed::enter(self)
        {
            return self.release(garbage);
        }
        self.push(garbage);
        false
    }

    /// Keeps what work may still use until `fences` have passed, and then drops it
    /// outside captures.
    pub fn retire(&self, fences: Fences, keep: Box<dyn Any + Send + Sync>) {
        self.queue.retire(fences, Garbage::Keep(keep));
    }

    /// Releases what can be released. To be called outside captures.
    ///
    /// Releasing a keep drops owners, which puts more here; so it goes on until
    /// a round has nothing to do.
    pub fn collect(&self) {
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
    pub fn finish(&self) {
        // The thread may be inside a capture of another device.
        let _relaxed = Relaxed::enter(self);
        loop {
            let rest = self.queue.drain();
            if rest.is_empty() {
                return;
            }
            for (fences, garbage) in rest {
                for fence in &fences {
                    if let Err(error) = fence.0.wait() {
                        self.failures.lock().push(error);
                    }
                }
                self.release(garbage);
            }
        }
    }

    /// Things that wait here.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// The failures of releases so far; each is told once.
    pub fn take_failures(&self) -> Vec<DriverError> {
        std::mem::take(&mut *self.failures.lock())
    }

    /// Notes a release that was refused.
    pub(super) fn refuse(&self, error: DriverError) {
        self.failures.lock().push(error);
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
pub(super) struct Relaxed<'a> {
    reclaim: &'a Reclaim,
    former: CaptureMode,
}

impl<'a> Relaxed<'a> {
    pub(super) fn enter(reclaim: &'a Reclaim) -> Result<Self, DriverError> {
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

impl fmt::Debug for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaim")
            .field("driver", &self.driver)
            .field("pending", &self.queue.len())
            .finish_non_exhaustive()
    }
}
