//! The CUDA driver API, loaded at run time.
//!
//! | file | what it is about |
//! | --- | --- |
//! | `library` | the functions that are used, and how a failure becomes an error |
//! | `open` | finding the driver library, and saying what to do without it |
//! | `context` | the context that calls are made in, and who keeps it alive |
//! | `calls` | the trait itself, call by call |
//! | `capture` | the state of a capture |
//! | `graph`, `node`, `params` | what a graph is, read back from the driver |
//! | `launch` | attributes of kernel nodes, and a node as a graph of its own |
//! | `module` | loading code |
//! | `retain` | values that live as long as a graph |
//! | `adopt` | contexts, streams and memory of cudarc |
//!
//! Building needs neither CUDA nor its compiler; running needs a driver for
//! CUDA 12.8 or newer. Without one, [`CudaDriver::open`] returns an
//! [`OpenError`] that says what to do.
//!
//! A driver call never unwinds and never synchronises unless its name says so.
//! The driver locks what threads share, but not a graph: a graph, and an
//! executable, is used by one thread at a time, which its owner above sees to.

mod adopt;
mod calls;
mod capture;
mod context;
mod graph;
mod handle;
mod launch;
mod library;
mod mapping;
mod module;
mod node;
mod open;
mod params;
mod retain;

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use cudarc::driver::sys;

pub use adopt::{AdoptError, AdoptedSlice};
pub use open::{LIBRARY_NAMES, OLDEST_DRIVER, OpenError};

use self::context::Context;
use self::library::Library;
use crate::driver::{Backend, DeviceInfo, DriverError, DriverResult};

// The driver exists for 64-bit processes alone, and sizes are converted freely.
const _: () = assert!(
    size_of::<usize>() == 8,
    "the `cuda` feature needs a 64-bit target"
);

/// A CUDA device, through the driver API.
#[derive(Debug)]
pub struct CudaDriver {
    library: &'static Library,
    context: Context,
    info: DeviceInfo,
    /// Of a context that cudarc made.
    tracking: Option<adopt::Tracking>,
}

impl CudaDriver {
    /// How many devices the driver sees; 0 when there are none.
    ///
    /// # Errors
    /// When there is no usable driver.
    pub fn count() -> Result<u32, OpenError> {
        match open::driver() {
            Ok(library) => Ok(device_count(library)?),
            Err(OpenError::NoDevice) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The CUDA version that the installed driver supports, as CUDA encodes it
    /// (12080 is 12.8), whether or not there is a device.
    ///
    /// # Errors
    /// When there is no driver library, or one that is too old or incomplete.
    pub fn version() -> Result<u32, OpenError> {
        Ok(driver_version(open::library()?)?)
    }

    /// What device `ordinal` is, without creating a context on it.
    ///
    /// # Errors
    /// When there is no usable driver, or no device of that number.
    pub fn describe(ordinal: u32) -> Result<DeviceInfo, OpenError> {
        let library = open::driver()?;
        let device = device(library, ordinal)?;
        Ok(device_info(library, device)?)
    }

    /// Opens device `ordinal` in its primary context, the one that the CUDA
    /// runtime, PyTorch and cudarc use, and keeps it for as long as the driver
    /// lives.
    ///
    /// # Errors
    /// When there is no usable driver, or no device of that number.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, OpenError> {
        let library = open::driver()?;
        let device = device(library, ordinal)?;
        Self::with(library, Context::primary(library, device)?, None)
    }

    /// Works in a context that somebody else made. `keep` is held for as long
    /// as the driver lives; the context is neither retained nor released.
    ///
    /// # Errors
    /// When there is no usable driver, the context is null, or the driver
    /// refuses it.
    ///
    /// # Safety
    /// `context` is a live context, and stays one while `keep` lives.
    pub unsafe fn from_context(
        context: sys::CUcontext,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<Self>, OpenError> {
        if context.is_null() {
            return Err(OpenError::NullContext);
        }
        let library = open::driver()?;
        // SAFETY: by the caller.
        let context = unsafe { Context::adopt(library, context, keep) }?;
        Self::with(library, context, None)
    }

    /// The driver's pointer to the context.
    pub fn context(&self) -> sys::CUcontext {
        self.context.raw()
    }

    fn with(
        library: &'static Library,
        context: Context,
        tracking: Option<adopt::Tracking>,
    ) -> Result<Arc<Self>, OpenError> {
        let info = device_info(library, context.device())?;
        Ok(Arc::new(Self {
            library,
            context,
            info,
            tracking,
        }))
    }
}

fn device_count(library: &Library) -> DriverResult<u32> {
    let mut count = 0;
    // SAFETY: the driver is initialised; the pointer is to a local.
    unsafe { library.cuDeviceGetCount(&raw mut count) }?;
    Ok(unsigned(count))
}

fn device(library: &Library, ordinal: u32) -> Result<sys::CUdevice, OpenError> {
    let count = device_count(library)?;
    if count == 0 {
        return Err(OpenError::NoDevice);
    }
    let mut device = 0;
    match c_int::try_from(ordinal) {
        Ok(number) if ordinal < count => {
            // SAFETY: the driver is initialised; the pointer is to a local.
            unsafe { library.cuDeviceGet(&raw mut device, number) }?;
            Ok(device)
        }
        _ => Err(OpenError::NoSuchDevice { ordinal, count }),
    }
}

fn driver_version(library: &Library) -> DriverResult<u32> {
    let mut version = 0;
    // SAFETY: the pointer is to a local.
    unsafe { library.cuDriverGetVersion(&raw mut version) }?;
    Ok(unsigned(version))
}

fn device_info(library: &Library, device: sys::CUdevice) -> DriverResult<DeviceInfo> {
    use sys::CUdevice_attribute as Attribute;

    let attribute = |which| {
        let mut value = 0;
        // SAFETY: a device that the driver gave; the pointer is to a local.
        unsafe { library.cuDeviceGetAttribute(&raw mut value, which, device) }?;
        Ok::<_, DriverError>(unsigned(value))
    };
    let mut name = [0; 256];
    let mut memory = 0;
    // SAFETY: as above; the name is cut to its buffer and ends in a zero.
    let name = unsafe {
        library.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device)?;
        library.cuDeviceTotalMem(&raw mut memory, device)?;
        text(&name)
    };
    Ok(DeviceInfo {
        backend: Backend::Cuda,
        // A device handle of the driver is its number.
        ordinal: unsigned(device),
        name,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        driver_version: driver_version(library)?,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory: memory as u64,
    })
}

/// A number that the driver counts with a signed type.
fn unsigned(value: c_int) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name.iter().map(|&byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
