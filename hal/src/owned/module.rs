//! Loaded code.

use std::sync::Arc;

use super::reclaim::{Garbage, Relaxed, Shared};
use crate::driver::{DriverResult, FunctionHandle, ModuleHandle, ModuleImage, ParamSlot};

/// A loaded module.
#[derive(Debug)]
pub struct OwnedModule {
    reclaim: Shared,
    handle: ModuleHandle,
}

impl OwnedModule {
    /// Loads code.
    ///
    /// # Errors
    /// When the code does not fit the device.
    pub fn load(reclaim: &Shared, image: &ModuleImage) -> DriverResult<Self> {
        let _relaxed = Relaxed::enter(reclaim)?;
        let handle = reclaim.driver().module_load(image)?;
        Ok(Self {
            reclaim: reclaim.clone(),
            handle,
        })
    }

    /// Whether it is loaded on that device.
    #[inline]
    pub fn is_on(&self, reclaim: &Shared) -> bool {
        Arc::ptr_eq(&self.reclaim, reclaim)
    }

    /// A kernel, by its symbol.
    ///
    /// # Errors
    /// When the module has no such kernel.
    pub fn function(self: &Arc<Self>, symbol: &str) -> DriverResult<FunctionRef> {
        // SAFETY: the handle is live, for we own it.
        let handle = unsafe { self.reclaim.driver().module_function(self.handle, symbol) }?;
        Ok(FunctionRef {
            module: self.clone(),
            handle,
        })
    }
}

impl Drop for OwnedModule {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Module(self.handle));
    }
}

/// A kernel of a module, which it keeps loaded.
#[derive(Clone, Debug)]
pub struct FunctionRef {
    module: Arc<OwnedModule>,
    handle: FunctionHandle,
}

impl FunctionRef {
    /// The driver's handle, live as long as this is.
    #[inline]
    pub(super) fn handle(&self) -> FunctionHandle {
        self.handle
    }

    /// The module.
    #[inline]
    pub fn module(&self) -> &Arc<OwnedModule> {
        &self.module
    }

    /// Where the kernel expects its parameters.
    ///
    /// # Errors
    /// When the driver cannot tell.
    pub fn params(&self) -> DriverResult<Vec<ParamSlot>> {
        // SAFETY: the handle is live while its module is.
        unsafe { self.module.reclaim.driver().function_params(self.handle) }
    }

    /// The compute capability that the code was compiled for.
    ///
    /// # Errors
    /// When the driver cannot tell.
    pub fn target(&self) -> DriverResult<(u32, u32)> {
        // SAFETY: the handle is live while its module is.
        unsafe { self.module.reclaim.driver().function_target(self.handle) }
    }

    /// Allows the kernel `bytes` bytes of dynamic shared memory per block.
    ///
    /// # Errors
    /// When the device has less.
    pub fn allow_shared(&self, bytes: u32) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe {
            self.module
                .reclaim
                .driver()
                .function_shared_limit(self.handle, bytes)
        }
    }
}
