//! Loaded code.

use std::sync::Arc;

use super::{Garbage, Relaxed, Shared};
use crate::driver::{DriverResult, FunctionHandle, ModuleHandle, ModuleImage, ParamSlot};

/// A loaded module.
pub(crate) struct OwnedModule {
    reclaim: Shared,
    handle: ModuleHandle,
}

impl OwnedModule {
    pub(crate) fn load(reclaim: &Shared, image: &ModuleImage) -> DriverResult<Self> {
        let _relaxed = Relaxed::enter(reclaim)?;
        let handle = reclaim.driver().module_load(image)?;
        Ok(Self {
            reclaim: reclaim.clone(),
            handle,
        })
    }

    pub(crate) fn is_on(&self, reclaim: &Shared) -> bool {
        Arc::ptr_eq(&self.reclaim, reclaim)
    }

    pub(crate) fn function(self: &Arc<Self>, symbol: &str) -> DriverResult<FunctionRef> {
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
#[derive(Clone)]
pub(crate) struct FunctionRef {
    module: Arc<OwnedModule>,
    handle: FunctionHandle,
}

impl FunctionRef {
    pub(crate) fn handle(&self) -> FunctionHandle {
        self.handle
    }

    pub(crate) fn module(&self) -> &Arc<OwnedModule> {
        &self.module
    }

    pub(crate) fn params(&self) -> DriverResult<Vec<ParamSlot>> {
        // SAFETY: the handle is live while its module is.
        unsafe { self.module.reclaim.driver().function_params(self.handle) }
    }

    pub(crate) fn allow_shared(&self, bytes: u32) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe {
            self.module
                .reclaim
                .driver()
                .function_shared_limit(self.handle, bytes)
        }
    }
}
