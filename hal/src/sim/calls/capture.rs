//! Capture.

use super::super::SimDriver;
use crate::driver::{
    CaptureCalls, CaptureInfo, CaptureMode, DriverResult, GraphHandle, NodeHandle, StreamHandle,
};

// SAFETY: a capturing stream records nodes, with the edges that streams and waits say.
unsafe impl CaptureCalls for SimDriver {
    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()> {
        self.call("cuStreamBeginCapture", |device| {
            device.capture_begin(stream, mode)
        })
    }

    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        self.locked("cuStreamEndCapture", |device| {
            let ended = device.capture_end(stream);
            if let (Ok(graph), Err(broken)) = (&ended, device.healthy()) {
                device.remove_graph(*graph);
                return Err(broken);
            }
            ended
        })?
    }

    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo> {
        self.call("cuStreamGetCaptureInfo", |device| {
            device.capture_info(stream, frontier)
        })
    }

    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode> {
        self.locked("cuThreadExchangeStreamCaptureMode", |device| {
            device.exchange_mode(mode)
        })
    }
}
