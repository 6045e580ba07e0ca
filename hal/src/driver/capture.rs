//! Capture of a stream's work into a graph.

use super::{CaptureInfo, CaptureMode, DriverResult, GraphHandle, NodeHandle, StreamHandle};

/// Capture of a stream's work into a graph.
///
/// # Safety
/// An implementation keeps the meaning of every method. Above all, what a capturing
/// stream is given does not run, and becomes nodes with the edges that streams and waits
/// say. The mode of a capture belongs to the calling thread.
pub unsafe trait CaptureCalls {
    /// Begins capture on a stream.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> DriverResult<()>;

    /// Ends capture. On failure the capture is over all the same and its graph
    /// is gone, except for [`ErrorClass::CaptureUnmatched`](super::ErrorClass::CaptureUnmatched): that invalidates
    /// the capture, which must then be ended on its origin.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_end(&self, stream: StreamHandle) -> DriverResult<GraphHandle>;

    /// How a stream takes part in a capture. `frontier` is cleared and filled
    /// with the nodes that the stream's next node would depend on.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn capture_info(
        &self,
        stream: StreamHandle,
        frontier: &mut Vec<NodeHandle>,
    ) -> DriverResult<CaptureInfo>;

    /// Sets the calling thread's capture mode and returns the former one.
    fn capture_mode_exchange(&self, mode: CaptureMode) -> DriverResult<CaptureMode>;
}
