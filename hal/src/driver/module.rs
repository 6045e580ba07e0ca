//! Compiled code and its launches.

use std::ffi::c_void;

use super::{
    DriverResult, FunctionHandle, LaunchShape, ModuleHandle, ModuleImage, ParamSlot, Start,
    StreamHandle,
};

/// Compiled code, and its launches.
///
/// # Safety
/// An implementation keeps the meaning of every method. Above all, a launch runs this
/// function, in this shape, with these parameters.
pub unsafe trait ModuleCalls {
    /// Loads a module.
    fn module_load(&self, image: &ModuleImage) -> DriverResult<ModuleHandle>;

    /// Unloads a module.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and no work that uses its
    /// functions is unfinished or will be replayed.
    unsafe fn module_unload(&self, module: ModuleHandle) -> DriverResult<()>;

    /// Looks a kernel up by its symbol.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle>;

    /// Where the kernel expects its parameters.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_params(&self, function: FunctionHandle) -> DriverResult<Vec<ParamSlot>>;

    /// The compute capability that the kernel's code was compiled for, and which its
    /// `__CUDA_ARCH__` was: not that of the device, for which the driver may have
    /// compiled it again.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_target(&self, function: FunctionHandle) -> DriverResult<(u32, u32)>;

    /// Allows the kernel `bytes` bytes of dynamic shared memory per block.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn function_shared_limit(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> DriverResult<()>;

    /// Launches a kernel. `params[i]` points to the value of parameter `i`.
    ///
    /// # Safety
    /// The handles are live; there are as many parameters as
    /// [`function_params`](Self::function_params) says, each pointing to as
    /// many readable bytes; and what they refer to stays live until the launch,
    /// and every replay of a graph that captures it, has ended. A kernel that
    /// starts [early](Start::Early) waits, in each of its threads, for what it
    /// follows before the thread touches memory (`griddepcontrol.wait`).
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()>;
}
