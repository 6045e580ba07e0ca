//! The context that a driver works in, and who keeps it alive.
//!
//! A context is either the device's primary one, retained for as long as this
//! value lives, or one that somebody else made, kept alive by a value of
//! theirs. Every driver call is made with it current on the calling thread. A
//! thread that had another context current gets it back, so that an engine
//! with several devices is not left on ours; a thread that had none keeps ours,
//! which makes the next call cheap.

use std::any::Any;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::library::Library;
use crate::driver::DriverResult;

/// A live context of the driver.
#[derive(Debug)]
pub(super) struct Context {
    library: &'static Library,
    raw: sys::CUcontext,
    device: sys::CUdevice,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// Retained by us, released when dropped.
    Primary,
    /// Somebody else's.
    Kept { _keep: Arc<dyn Any + Send + Sync> },
}

// SAFETY: the driver lets any thread use any live context, from several threads
// at once; `raw` is used as a name for it and never dereferenced.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device.
    pub(super) fn primary(library: &'static Library, device: sys::CUdevice) -> DriverResult<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe { library.cuDevicePrimaryCtxRetain(&raw mut raw, device) }?;
        Ok(Self {
            library,
            raw,
            device,
            owner: Owner::Primary,
        })
    }

    /// Adopts a context that somebody else made.
    ///
    /// # Safety
    /// `raw` is a live context and stays one while `keep` lives.
    pub(super) unsafe fn adopt(
        library: &'static Library,
        raw: sys::CUcontext,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> DriverResult<Self> {
        let mut context = Self {
            library,
            raw,
            device: 0,
            owner: Owner::Kept { _keep: keep },
        };
        let mut device: c_int = 0;
        {
            let _current = context.enter()?;
            // SAFETY: a context is current, and the pointer is to a local.
            unsafe { library.cuCtxGetDevice(&raw mut device) }?;
        }
        context.device = device;
        Ok(context)
    }

    /// The driver's pointer.
    pub(super) fn raw(&self) -> sys::CUcontext {
        self.raw
    }

    /// The device the context belongs to.
    pub(super) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Makes the context current on the calling thread until the guard drops.
    #[inline]
    pub(super) fn enter(&self) -> DriverResult<Current> {
        let mut before = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe { self.library.cuCtxGetCurrent(&raw mut before) }?;
        if before == self.raw {
            return Ok(Current {
                library: self.library,
                restore: ptr::null_mut(),
            });
        }
        // SAFETY: the context is live: `owner` keeps it so.
        unsafe { self.library.cuCtxSetCurrent(self.raw) }?;
        Ok(Current {
            library: self.library,
            restore: before,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Primary) {
            // Fails only when the driver is already shutting down, and then
            // there is nothing left to release.
            // SAFETY: retained once in `primary`, released once here.
            let _ = unsafe { self.library.cuDevicePrimaryCtxRelease(self.device) };
        }
    }
}

/// Proof that the context is current on this thread; gives the thread its own
/// context back when dropped.
#[must_use]
pub(super) struct Current {
    library: &'static Library,
    /// The context to go back to, or null when there is none.
    restore: sys::CUcontext,
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        if !self.restore.is_null() {
            // Fails only when the owner of that context has destroyed it since,
            // and then there is nothing to go back to.
            // SAFETY: it was current on this thread when the guard was made.
            let _ = unsafe { self.library.cuCtxSetCurrent(self.restore) };
        }
    }
}
