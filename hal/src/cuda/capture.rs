//! The state of a capture, as the driver tells it.

use std::ptr;

use cudarc::driver::sys::{
    CUgraphEdgeData, CUgraphNode, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use super::handle::Raw;
use super::library::Library;
use crate::driver::{
    CaptureInfo, CaptureMode, CaptureStatus, DriverResult, GraphHandle, NodeHandle,
};

const NONE: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
const ACTIVE: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
const GLOBAL: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL as u32;
const RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;

/// How a stream takes part in a capture. Only an active capture has a graph and
/// a frontier.
///
/// # Safety
/// The stream is live and its context is current.
pub(super) unsafe fn info(
    library: &Library,
    stream: CUstream,
    frontier: &mut Vec<NodeHandle>,
) -> DriverResult<CaptureInfo> {
    frontier.clear();
    let mut status = NONE;
    let mut id = 0;
    let mut graph = ptr::null_mut();
    let mut nodes: *const CUgraphNode = ptr::null();
    // Not read, but asked for: without it the call fails when an edge carries
    // data.
    let mut edges: *const CUgraphEdgeData = ptr::null();
    let mut count = 0;
    // SAFETY: by the caller; the pointers are to locals, and the status is
    // written as the 32-bit number that it is in C.
    unsafe {
        library.cuStreamGetCaptureInfo(
            stream,
            (&raw mut status).cast(),
            &raw mut id,
            &raw mut graph,
            &raw mut nodes,
            &raw mut edges,
            &raw mut count,
        )
    }?;
    let status = match status {
        NONE => CaptureStatus::None,
        ACTIVE => CaptureStatus::Active,
        _ => CaptureStatus::Invalidated,
    };
    if status != CaptureStatus::Active {
        return Ok(CaptureInfo {
            status,
            id: if status == CaptureStatus::None { 0 } else { id },
            graph: None,
        });
    }
    if !nodes.is_null() {
        // SAFETY: the driver's array holds `count` nodes and stays as it is
        // until the next call on the stream.
        let nodes = unsafe { std::slice::from_raw_parts(nodes, count) };
        frontier.extend(nodes.iter().map(|&node| NodeHandle::of(node)));
    }
    Ok(CaptureInfo {
        status,
        id,
        graph: (!graph.is_null()).then(|| GraphHandle::of(graph)),
    })
}

/// Sets the calling thread's capture mode and returns the former one.
pub(super) fn exchange_mode(library: &Library, new: CaptureMode) -> DriverResult<CaptureMode> {
    let mut former = mode(new) as u32;
    // SAFETY: the pointer is to a local, read and written as the 32-bit number
    // that the mode is in C.
    unsafe { library.cuThreadExchangeStreamCaptureMode((&raw mut former).cast()) }?;
    Ok(match former {
        GLOBAL => CaptureMode::Global,
        RELAXED => CaptureMode::Relaxed,
        _ => CaptureMode::ThreadLocal,
    })
}

/// The driver's name for a mode.
pub(super) fn mode(mode: CaptureMode) -> CUstreamCaptureMode {
    match mode {
        CaptureMode::Global => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CaptureMode::ThreadLocal => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CaptureMode::Relaxed => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
    }
}
