//! Capture.

use std::ptr;

use super::super::handle::Raw;
use super::super::{CudaDriver, capture};
use crate::driver::{
    CaptureCalls, CaptureInfo, CaptureMode, DriverError, DriverResult, ErrorClass, GraphHandle,
    NodeHandle, StreamHandle,
};

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver makes nodes and edges of what a capturing stream is given.
unsafe impl CaptureCalls for CudaDriver {
    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuStreamBeginCapture(stream.raw(), capture::mode(mode))
        }
    }

    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        let mut graph = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuStreamEndCapture(stream.raw(), &raw mut graph)
        }?;
        if graph.is_null() {
            return Err(
                DriverError::of("cuStreamEndCapture", ErrorClass::CaptureInvalidated)
                    .with("the driver gave no graph"),
            );
        }
        Ok(GraphHandle::of(graph))
    }

    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { capture::info(self.library, stream.raw(), frontier) }
    }

    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode> {
        // The call needs no context.
        capture::exchange_mode(self.library, mode)
    }
}
