//! Kernels and their launches.

use std::ffi::c_void;

use super::super::SimDriver;
use crate::driver::{
    DriverResult, FunctionHandle, LaunchShape, ModuleCalls, ModuleHandle, ModuleImage, ParamSlot,
    Start, StreamHandle,
};

// SAFETY: a launch becomes a task that runs this function with these parameters.
unsafe impl ModuleCalls for SimDriver {
    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle> {
        self.call("cuModuleLoadData", |device| device.module_load(image))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()> {
        self.release("cuModuleUnload", |device| {
            device.potentially_unsafe()?;
            device.module_unload(module)
        })
    }

    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle> {
        self.call("cuModuleGetFunction", |device| {
            device.module_function(module, symbol)
        })
    }

    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>> {
        self.call("cuFuncGetParamInfo", |device| {
            Ok(device.function(function)?.kernel.params.clone())
        })
    }

    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)> {
        // A twin begins when all before it is done: it is as code that waits.
        self.call("cuFuncGetAttribute", |device| {
            device.function(function).map(|_| (9, 0))
        })
    }

    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()> {
        self.call("cuFuncSetAttribute", |device| {
            device.shared_limit(function, bytes)
        })
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()> {
        let call = match start {
            Start::InOrder => "cuLaunchKernel",
            Start::Early | Start::Together => "cuLaunchKernelEx",
        };
        self.call(call, |device| {
            // SAFETY: the caller promises this very thing.
            unsafe { device.launch(stream, function, shape, start, params) }
        })
    }
}
