//! Finding the driver library and saying what to do when there is none.
//!
//! A machine without a GPU is no bug: everything here ends in an [`OpenError`]
//! and nothing panics.

use std::error::Error as _;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use thiserror::Error;

use super::library::Library;
use crate::driver::{CudaVersion, DriverError, ErrorClass};

/// The oldest CUDA version, as CUDA encodes it, whose driver has all that is
/// used: 12.8.
pub const OLDEST_DRIVER: u32 = 12080;

/// The names under which the driver library is looked up, in this order.
pub const LIBRARY_NAMES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    // The name with a version is the driver's own. The bare one may be the stub
    // of a toolkit, which is there to link against and does nothing.
    &["libcuda.so.1", "libcuda.so"]
};

/// Why there is no CUDA device to work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No driver library was found.
    #[error(
        "no CUDA driver library on this machine (looked for {}: {reason}): install an NVIDIA driver \
         for CUDA {} or newer, or start the container with access to the GPU; the simulated device \
         needs neither",
        LIBRARY_NAMES.join(", "),
        CudaVersion(OLDEST_DRIVER)
    )]
    NoLibrary {
        /// What the loader said about the first name.
        reason: String,
    },
    /// The driver is older than what is used of it.
    #[error(
        "the NVIDIA driver supports CUDA {}, and CUDA {} is needed: install driver 570 or newer",
        CudaVersion(*found),
        CudaVersion(OLDEST_DRIVER)
    )]
    DriverTooOld {
        /// The CUDA version it supports, as CUDA encodes it.
        found: u32,
    },
    /// The library lacks functions that a driver of its version has.
    #[error(
        "the CUDA driver library lacks {}: is it NVIDIA's own, and not a stub or an old compatibility \
         package on the library path?",
        .0.join(", ")
    )]
    MissingSymbols(Vec<&'static str>),
    /// The driver sees no device at all.
    #[error(
        "the NVIDIA driver is installed but sees no device: check `nvidia-smi` and CUDA_VISIBLE_DEVICES"
    )]
    NoDevice,
    /// The driver sees fewer devices.
    #[error("there is no CUDA device {ordinal}: the driver sees {count}, numbered from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many devices there are.
        count: u32,
    },
    /// The context to adopt is null.
    #[error(
        "the CUDA context to adopt is null: create it, or retain the device's primary context, first"
    )]
    NullContext,
    /// A driver call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// A loaded driver library and its functions.
struct Loaded {
    functions: Library,
    /// Never dropped: the driver is not made to be unloaded.
    _file: libloading::Library,
}

/// The driver library, found and checked; looked for again when it was not
/// there before.
pub(super) fn library() -> Result<&'static Library, OpenError> {
    static FOUND: OnceLock<Loaded> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(&found.functions);
    }
    let file = load(LIBRARY_NAMES)?;
    // SAFETY: the file is the driver's, and is kept as long as the table; when
    // two threads come here at once, the second handle is to the same file.
    let functions = unsafe {
        resolve(|symbol| {
            file.get::<*const c_void>(symbol)
                .ok()
                .map(|address| *address)
        })
    }?;
    let found = FOUND.get_or_init(|| Loaded {
        functions,
        _file: file,
    });
    Ok(&found.functions)
}

/// The driver library, initialised.
pub(super) fn driver() -> Result<&'static Library, OpenError> {
    let library = library()?;
    initialise(library)?;
    Ok(library)
}

pub(super) fn initialise(library: &Library) -> Result<(), OpenError> {
    // SAFETY: may be called any number of times, from any thread.
    match unsafe { library.cuInit(0) } {
        Ok(()) => Ok(()),
        Err(error) if error.class == ErrorClass::NoDevice => Err(OpenError::NoDevice),
        Err(error) => Err(error.into()),
    }
}

/// The first of `names` that can be loaded.
pub(super) fn load(names: &[&str]) -> Result<libloading::Library, OpenError> {
    let mut reason = None;
    for name in names {
        // SAFETY: loading runs the initialisers of the driver library, which
        // every CUDA program runs.
        match unsafe { libloading::Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                // The loader's own words are the source of the error.
                reason.get_or_insert_with(|| match error.source() {
                    Some(words) => words.to_string(),
                    None => error.to_string(),
                });
            }
        }
    }
    Err(OpenError::NoLibrary {
        reason: reason.unwrap_or_default(),
    })
}

/// The functions of a driver that is new enough and complete.
///
/// # Safety
/// As for [`Library::resolve`].
pub(super) unsafe fn resolve(
    lookup: impl Fn(&'static str) -> Option<*const c_void>,
) -> Result<Library, OpenError> {
    // Its version explains missing functions better than their names do.
    // SAFETY: by the caller.
    if let Some(found) = unsafe { version(&lookup) }
        && found < OLDEST_DRIVER
    {
        return Err(OpenError::DriverTooOld { found });
    }
    // SAFETY: by the caller.
    unsafe { Library::resolve(lookup) }.map_err(OpenError::MissingSymbols)
}

/// The CUDA version of a driver; may be asked before it is initialised.
unsafe fn version(lookup: impl Fn(&'static str) -> Option<*const c_void>) -> Option<u32> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_uint;
    let address = lookup("cuDriverGetVersion")?;
    let mut version = 0;
    // SAFETY: the driver exports the symbol with this signature; the pointer is
    // to a local.
    let code =
        unsafe { std::mem::transmute::<*const c_void, GetVersion>(address)(&raw mut version) };
    (code == 0).then(|| u32::try_from(version).ok()).flatten()
}
