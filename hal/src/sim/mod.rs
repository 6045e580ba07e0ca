//! A device on the CPU, to test and to explore without a GPU.
//!
//! What it guarantees: the rules of stream capture, the shape of captured
//! graphs and the classes of failure are those of CUDA, as far as the
//! conformance suite (feature `testing`) pins them down; and work is ordered
//! by streams, events and graph edges *and by nothing else*. Work that is not
//! ordered is interleaved, one thread block (or a quarter of a copy) at a time,
//! as a seed or a [`Choose`] says, one after another included. What is wrong on
//! some schedule is wrong here for some seed. It says nothing about the memory
//! model inside a kernel, and promises no progress: a kernel that waits for
//! another one never returns.
//!
//! Work runs only while somebody waits (for a stream or an event) or, a little,
//! asks. Synchronous copies wait for nothing: like CUDA's they are ordered
//! after the legacy default stream, not after the others.
//!
//! A kernel that touches memory outside live allocations breaks the device for
//! good, as on CUDA: unfinished work is dropped, and that call and every later
//! one fail with [`ErrorClass::IllegalAddress`] (or
//! [`ErrorClass::LaunchFailed`]) naming the kernel and the address. Calls that
//! destroy, free or unload still do so before they fail. Handles that the
//! device has not given, or has taken back, are
//! [`ErrorClass::InvalidHandle`], never undefined behaviour. A launch of a
//! graph whose module or event is gone is that error too.
//!
//! Kernel bodies run under the device's lock and must not call the device.
//! Whatever else is the user's, such as an object tied to a graph, is dropped
//! outside it.

mod calls;
mod capture;
mod child;
mod clock;
mod device;
mod exec;
#[cfg(feature = "testing")]
pub mod explore;
#[cfg(feature = "testing")]
mod footprint;
mod graph;
mod inside;
mod instance;
mod memory;
mod module;
mod objects;
mod schedule;
mod streams;
mod work;

use std::sync::Arc;

use parking_lot::Mutex;

pub use crate::driver::code::{SimBlock, SimBody, SimFault, SimKernel};
pub use schedule::{Choose, RandomChoice, TaskId};

use self::device::Device;
use crate::driver::{Backend, DeviceInfo, DriverError, DriverResult, ErrorClass};

/// The memory of a device made by [`SimDriver::new`]: 8 GiB, of which the host
/// provides what is touched.
pub const DEFAULT_MEMORY: u64 = 8 << 30;

/// A simulated device. See the [module](self).
#[derive(Debug)]
pub struct SimDriver {
    info: DeviceInfo,
    device: Mutex<Device>,
}

/// How many objects of a device have not been destroyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveObjects {
    /// Allocations of device memory, and mapped pieces of reserved ranges.
    pub allocations: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Reserved address ranges.
    pub reservations: usize,
    /// Allocations of page-locked host memory.
    pub host_allocations: usize,
    /// Streams, without the legacy default stream.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Graphs, those under capture included.
    pub graphs: usize,
    /// Instantiated graphs.
    pub execs: usize,
    /// Loaded modules.
    pub modules: usize,
    /// Captures that have not been ended.
    pub captures: usize,
}

impl SimDriver {
    /// A device with [`DEFAULT_MEMORY`] that interleaves at random under
    /// `seed`.
    pub fn new(seed: u64) -> Arc<Self> {
        Self::with_memory(seed, DEFAULT_MEMORY)
    }

    /// A device as by [`new`](Self::new), with a clock that counts slices: between two
    /// events lies a microsecond for each thread block, and each quarter of a copy,
    /// that ran meanwhile anywhere on the device. It tells what was timed, and is the
    /// same for every interleaving; it tells nothing of a GPU.
    pub fn with_clock(seed: u64) -> Arc<Self> {
        let driver = Self::new(seed);
        driver.device.lock().executor.clock = Some(clock::Clock::default());
        driver
    }

    /// A device with `memory` bytes.
    pub fn with_memory(seed: u64, memory: u64) -> Arc<Self> {
        Arc::new(Self {
            info: DeviceInfo {
                backend: Backend::Sim,
                ordinal: 0,
                name: "streamweir simulated device".to_owned(),
                capability: (0, 0),
                driver_version: 0,
                multiprocessors: 1,
                memory,
            },
            device: Mutex::new(Device::new(memory, Box::new(RandomChoice::new(seed)))),
        })
    }

    /// From here on interleaves at random under `seed`.
    pub fn reseed(&self, seed: u64) {
        self.schedule(RandomChoice::new(seed));
    }

    /// From here on interleaves as `choose` says.
    pub fn schedule(&self, choose: impl Choose + 'static) {
        let choose: Box<dyn Choose> = Box::new(choose);
        let former = std::mem::replace(&mut self.device.lock().executor.schedule, choose);
        drop(former);
    }

    /// What has not been destroyed yet.
    pub fn live(&self) -> LiveObjects {
        self.device.lock().live()
    }

    /// Serves a driver call on a device that is not broken.
    fn call<R>(
        &self,
        name: &'static str,
        serve: impl FnOnce(&mut Device) -> DriverResult<R>,
    ) -> DriverResult<R> {
        self.locked(name, |device| {
            device.healthy()?;
            serve(device)
        })?
    }

    /// Serves a driver call that gives something back, which it does on a
    /// broken device too.
    fn release<R>(
        &self,
        name: &'static str,
        serve: impl FnOnce(&mut Device) -> DriverResult<R>,
    ) -> DriverResult<R> {
        self.locked(name, |device| {
            let served = serve(device);
            device.healthy()?;
            served
        })?
    }

    fn locked<R>(
        &self,
        name: &'static str,
        serve: impl FnOnce(&mut Device) -> R,
    ) -> DriverResult<R> {
        if inside::is_inside() {
            return Err(DriverError::of(name, ErrorClass::NotPermitted)
                .with("a function that a stream calls on the host calls no driver"));
        }
        let mut device = self.device.lock();
        device.call = name;
        let served = serve(&mut device);
        let trash = std::mem::take(&mut device.trash);
        drop(device);
        drop(trash);
        Ok(served)
    }
}
