//! Streams, and what is enqueued on them.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use super::{FunctionRef, Garbage, OwnedExec, OwnedGraph, Relaxed, Shared};
use crate::driver::{
    CaptureInfo, CaptureMode, DriverResult, LaunchShape, NodeHandle, Start, StreamHandle,
};

/// A stream of the driver: made by us, or an engine's, whose owner is kept.
pub(crate) struct OwnedStream {
    reclaim: Shared,
    handle: StreamHandle,
    priority: i32,
    /// `None` for a stream that is ours to destroy.
    engine: Option<Arc<dyn Any + Send + Sync>>,
}

impl OwnedStream {
    pub(crate) fn new(reclaim: &Shared, priority: i32) -> DriverResult<Self> {
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
    /// The handle stays live as long as `engine` does.
    pub(crate) unsafe fn adopt(
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

    pub(crate) fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// The priority that it was made with.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Whether the stream is ours. Only such a stream is known never to be
    /// captured by others.
    pub(crate) fn is_ours(&self) -> bool {
        self.engine.is_none()
    }

    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: the handle is live, for we own it or keep its owner.
        unsafe { self.reclaim.driver().stream_synchronize(self.handle) }
    }

    pub(crate) fn is_idle(&self) -> DriverResult<bool> {
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: as above.
        unsafe { self.reclaim.driver().stream_query(self.handle) }
    }

    pub(crate) fn begin_capture(&self, mode: CaptureMode) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().capture_begin(self.handle, mode) }
    }

    pub(crate) fn end_capture(&self) -> DriverResult<OwnedGraph> {
        // SAFETY: as above.
        let graph = unsafe { self.reclaim.driver().capture_end(self.handle) }?;
        // SAFETY: the driver has just given the graph to its caller.
        Ok(unsafe { OwnedGraph::from_handle(&self.reclaim, graph) })
    }

    pub(crate) fn capture_info(&self, frontier: &mut Vec<NodeHandle>) -> DriverResult<CaptureInfo> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().capture_info(self.handle, frontier) }
    }

    /// Enqueues a launch of a whole graph.
    ///
    /// # Safety
    /// All that the graph refers to stays live until the launch has ended.
    pub(crate) unsafe fn launch_graph(&self, exec: &OwnedExec) -> DriverResult<()> {
        // SAFETY: both handles are live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .exec_launch(exec.handle(), self.handle)
        }
    }

    pub(crate) fn upload_graph(&self, exec: &OwnedExec) -> DriverResult<()> {
        // SAFETY: both handles are live.
        unsafe {
            self.reclaim
                .driver()
                .exec_upload(exec.handle(), self.handle)
        }
    }

    /// Enqueues a kernel.
    ///
    /// # Safety
    /// `params[i]` points to as many readable bytes as parameter `i` of the
    /// function has, there are as many as it has, and the device memory they
    /// point to stays live until the launch and every replay has ended. A kernel
    /// that starts early waits for what it follows before it touches memory.
    pub(crate) unsafe fn launch(
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
    /// # Safety
    /// Both ranges stay live until the copy and every replay of it has ended.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: u64) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .copy_async(self.handle, to, from, bytes)
        }
    }

    /// Enqueues a fill.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    pub(crate) unsafe fn fill(&self, to: u64, value: u8, bytes: u64) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .fill_async(self.handle, to, value, bytes)
        }
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.engine.is_none() {
            self.reclaim.push(Garbage::Stream(self.handle));
        }
    }
}
