//! The handle of a device.

use std::fmt;
use std::sync::Arc;

use streamweir_base::inside::inside;
use streamweir_hal::driver::{DeviceInfo, DriverError, DynDriver};
use streamweir_hal::sim::SimDriver;
use streamweir_trace::ByteRange;

use super::inner::DeviceInner;
use crate::error::Result;

/// A device that graphs are captured on: a CUDA device or the simulated one.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// let device = Device::sim(1); // on a GPU, `Device::cuda(0)?`
/// let out = device.persistent::<u32>("out", 4)?;
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().fill(&out, 7))?;
/// graph.replay(&device.stream("replay")?)?;
/// assert_eq!(out.download()?, [0x0707_0707; 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
    /// Whether what is made through this handle has guards.
    pub(crate) guarded: bool,
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
        Ok(Self::with_driver(streamweir_hal::cuda::CudaDriver::open(
            ordinal,
        )?))
    }

    /// A device over any driver: a wrapper, or a backend of your own.
    pub fn with_driver(driver: DynDriver) -> Self {
        Self {
            inner: DeviceInner::new(driver),
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

    /// Says that the memory at `range` has been freed behind streamweir's back: by an
    /// engine's allocator, say. A kernel of a later capture that is given an address in
    /// it is a possible R4, until memory is registered there again. Nothing but this
    /// tells of such a free: that a number was an address once cannot be seen.
    pub fn freed(&self, range: ByteRange) {
        self.inner.registry.note_freed(range);
    }

    /// Waits until all work has ended that streamweir has enqueued on this
    /// device, and releases what was waiting for it.
    ///
    /// # Errors
    /// When that work failed, or inside a capture.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.outside("Device::synchronize")?;
        self.inner.wait_for_all()?;
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

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("info", self.info())
            .finish_non_exhaustive()
    }
}
