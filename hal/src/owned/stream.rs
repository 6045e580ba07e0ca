//! Streams, and what is enqueued on them.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use super::graph::{OwnedExec, OwnedGraph};
use super::module::FunctionRef;
use super::reclaim::{Ends, Fence, Garbage, Reclaim, Relaxed, Shared};
use crate::driver::{
    CaptureInfo, CaptureMode, DriverResult, HostCall, LaunchShape, NodeHandle, Start, StreamHandle,
};

/// A stream of the driver: made by us, or an engine's, whose owner is kept.
pub struct OwnedStream {
    reclaim: Shared,
    handle: StreamHandle,
    priority: i32,
    /// `None` for a stream that is ours to destroy.
    engine: Option<Arc<dyn Any + Send + Sync>>,
}

impl OwnedStream {
    /// A new stream. A lower number is a higher priority; out of range is clamped.
    ///
    /// # Errors
    /// When the driver has no more.
    pub fn new(reclaim: &Shared, priority: i32) -> DriverResult<Self> {
        let handle = reclaim.driver().stream_create(priority)?;
        Ok(Self {
            reclaim: reclaim.clone(),
            handle,
            priority,
            engine: None,
        })
    }

    /// Takes part in an engine's stream, which `engine` keeps alive.
    ///
    /// # Safety
    /// The handle is live in the context of the device, and stays so as long as
    /// `engine` does. While the engine captures on it, streams that join that
    /// capture by waiting are not dropped before it has ended.
    pub unsafe fn adopt(
        reclaim: &Shared,
        handle: StreamHandle,
        engine: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            reclaim: reclaim.clone(),
            handle,
            // Not known, and not asked for: it is the engine's.
            priority: 0,
            engine: Some(engine),
        }
    }

    #[inline]
    pub(super) fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    /// The driver's handle, live as long as this is.
    #[inline]
    pub fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// The priority that it was made with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Whether the stream is ours. Only such a stream is known never to be
    /// captured by others.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.engine.is_none()
    }

    /// Waits for all work of the stream.
    ///
    /// # Errors
    /// When that work failed, or the stream is being captured.
    pub fn synchronize(&self) -> DriverResult<()> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: the handle is live, for we own it or keep its owner.
        unsafe { self.reclaim.driver().stream_synchronize(self.handle) }
    }

    /// Whether all work of the stream has ended.
    ///
    /// # Errors
    /// When that work failed, or the stream is being captured.
    pub fn is_idle(&self) -> DriverResult<bool> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: as above.
        unsafe { self.reclaim.driver().stream_query(self.handle) }
    }

    /// Begins a capture.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// The capture is ended before this stream, or one that has joined the capture
    /// by waiting, is dropped.
    pub unsafe fn begin_capture(&self, mode: CaptureMode) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe { self.reclaim.driver().capture_begin(self.handle, mode) }
    }

    /// Ends the capture that was begun here. On failure it is over all the same, but
    /// for [`ErrorClass::CaptureUnmatched`](crate::driver::ErrorClass::CaptureUnmatched).
    ///
    /// # Errors
    /// When the capture was broken, or forked streams were not joined.
    pub fn end_capture(&self) -> DriverResult<OwnedGraph> {
        // SAFETY: as above.
        let graph = unsafe { self.reclaim.driver().capture_end(self.handle) }?;
        // SAFETY: the driver has just given the graph to its caller.
        Ok(unsafe { OwnedGraph::from_handle(&self.reclaim, graph) })
    }

    /// How the stream takes part in a capture. `frontier` is cleared and filled with
    /// the nodes that the stream's next node would depend on.
    ///
    /// # Errors
    /// When the driver refuses.
    #[inline]
    pub fn capture_info(&self, frontier: &mut Vec<NodeHandle>) -> DriverResult<CaptureInfo> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().capture_info(self.handle, frontier) }
    }

    /// Enqueues a launch of a whole graph.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// `exec` is of this device. It, and all that the graph refers to, stays live
    /// until the launch has ended.
    #[inline]
    pub unsafe fn launch_graph(&self, exec: &OwnedExec) -> DriverResult<()> {
        // SAFETY: both handles are live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .exec_launch(exec.handle(), self.handle)
        }
    }

    /// Moves a graph to the device ahead of its first launch.
    ///
    /// # Errors
    /// When the driver refuses, or the graph is of another device.
    pub fn upload_graph(&self, exec: &OwnedExec) -> DriverResult<()> {
        self.reclaim.same(exec.reclaim(), "exec_upload")?;
        // SAFETY: both handles are live.
        unsafe {
            self.reclaim
                .driver()
                .exec_upload(exec.handle(), self.handle)
        }
    }

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// The function is of this device. `params[i]` points to as many readable bytes as parameter `i` of the
    /// function has, there are as many as it has, and the device memory they
    /// point to stays live until the launch and every replay has ended. A kernel
    /// that starts early waits for what it follows before it touches memory.
    #[inline]
    pub unsafe fn launch(
        &self,
        function: &FunctionRef,
        shape: LaunchShape,
        start: Start,
        params: &mut [*mut c_void],
    ) -> DriverResult<()> {
        // SAFETY: both handles are live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .launch(self.handle, function.handle(), shape, start, params)
        }
    }

    /// Enqueues a copy.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// Both ranges stay live until the copy and every replay of it has ended.
    #[inline]
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: u64) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .copy_async(self.handle, to, from, bytes)
        }
    }

    /// Enqueues a fill.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline]
    pub unsafe fn fill(&self, to: u64, value: u8, bytes: u64) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .fill_async(self.handle, to, value, bytes)
        }
    }
}

impl OwnedStream {
    /// Enqueues a call of a function of the host.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// Until the call and every replay of it has ended, the function may be called with
    /// its data on any thread; it does not unwind, and calls no driver.
    pub unsafe fn host_call(&self, call: HostCall) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe { self.reclaim.driver().host_call(self.handle, call) }
    }
}

/// How a stream by its handle, an engine's, takes part in a capture. `frontier` is
/// cleared and filled with the nodes that the stream's next node would depend on.
///
/// # Errors
/// When the driver refuses.
///
/// # Safety
/// The handle is a live stream of the device's context.
pub unsafe fn capture_info(
    reclaim: &Shared,
    stream: StreamHandle,
    frontier: &mut Vec<NodeHandle>,
) -> DriverResult<CaptureInfo> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().capture_info(stream, frontier) }
}

impl Ends for OwnedStream {
    fn has_ended(&self) -> DriverResult<bool> {
        self.is_idle()
    }

    fn wait(&self) -> DriverResult<()> {
        self.synchronize()
    }
}

impl From<Arc<OwnedStream>> for Fence {
    fn from(stream: Arc<OwnedStream>) -> Self {
        Self::of(stream)
    }
}

impl fmt::Debug for OwnedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedStream")
            .field("handle", &self.handle)
            .field("is_ours", &self.is_ours())
            .finish_non_exhaustive()
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        // What keeps an engine's stream is not ours, so it is not dropped here, where
        // the caller may hold a lock.
        self.reclaim.push(match self.engine.take() {
            None => Garbage::Stream(self.handle),
            Some(engine) => Garbage::Keep(Box::new(engine)),
        });
    }
}
