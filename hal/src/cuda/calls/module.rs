//! Compiled code and its launches.

use std::ffi::{c_int, c_void};

use cudarc::driver::sys;

use super::super::handle::Raw;
use super::super::{CudaDriver, launch, module, node};
use crate::driver::{
    DriverError, DriverResult, ErrorClass, FunctionHandle, LaunchShape, ModuleCalls, ModuleHandle,
    ModuleImage, ParamSlot, Start, StreamHandle,
};

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver launches the function that it is given.
unsafe impl ModuleCalls for CudaDriver {
    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle> {
        let ModuleImage::Cuda(image) = image else {
            return Err(
                DriverError::of("cuModuleLoadDataEx", ErrorClass::NotSupported).with(
                    "the module holds functions of the simulated device; a CUDA device needs a \
                     cubin, a fatbin or PTX",
                ),
            );
        };
        let _current = self.context.enter()?;
        // SAFETY: the context is current.
        Ok(ModuleHandle::of(unsafe {
            module::load(self.library, image)
        }?))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuModuleUnload(module.raw()) }
    }

    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        Ok(FunctionHandle::of(unsafe {
            module::function(self.library, module.raw(), symbol)
        }?))
    }

    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { node::function_params(self.library, function.raw()) }
    }

    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)> {
        use sys::CUfunction_attribute::{
            CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION,
        };
        let _current = self.context.enter()?;
        let version = |attribute| {
            let mut value = 0;
            // SAFETY: the function is live by the caller, the pointer is to a local.
            unsafe {
                self.library
                    .cuFuncGetAttribute(&raw mut value, attribute, function.raw())?;
            }
            Ok(u32::try_from(value).unwrap_or(0))
        };
        // Of PTX the binary has the device's version, and the PTX its own.
        let binary = version(CU_FUNC_ATTRIBUTE_BINARY_VERSION)?;
        let target = binary.min(version(CU_FUNC_ATTRIBUTE_PTX_VERSION)?);
        Ok((target / 10, target % 10))
    }

    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // A number past the driver's type is past every device too.
        let value = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: by the caller.
        unsafe {
            self.library.cuFuncSetAttribute(
                function.raw(),
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                value,
            )
        }
        .map_err(|error| error.with(format!("{bytes} bytes of dynamic shared memory per block")))
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        let launched =
            unsafe { launch::launch(self.library, stream, function, shape, start, params) };
        launched.map_err(|error| {
            let LaunchShape {
                grid,
                block,
                shared_bytes,
                ..
            } = shape;
            error.with(format!(
                "grid {grid:?}, block {block:?}, {shared_bytes} bytes of dynamic shared memory"
            ))
        })
    }
}
