//! Emission: a command becomes a call of the driver, and the node that the
//! driver made of it is found by asking.
//!
//! After the call the new node is the whole frontier of the stream in the
//! driver's eyes. So it is known which node is whose, and the order in which a
//! driver lists nodes plays no part.

use std::ffi::c_void;
use std::sync::Arc;

use streamweir_hal::driver::{
    CaptureInfo, CaptureStatus, DriverError, DriverResult, EventScope, NodeHandle,
};
use streamweir_hal::owned::{OwnedEvent, OwnedStream};
use streamweir_trace::StreamId;

use crate::capture::recording::What;
use crate::capture::strand::ORIGIN;
use crate::device::DeviceInner;
use crate::error::Error;

/// Why a command has no node.
pub(in crate::capture) enum SendError {
    Driver(DriverError),
    /// The stream's next node would depend on this number of nodes, not on one.
    Unattributed(usize),
}

impl From<DriverError> for SendError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl SendError {
    /// The error of a capture that was doing this, on this stream.
    pub(in crate::capture) fn during(self, during: String, stream: &str) -> Error {
        match self {
            Self::Driver(source) => Error::Driver { during, source },
            Self::Unattributed(found) => Error::Unattributed {
                what: during,
                stream: stream.to_owned(),
                found,
            },
        }
    }
}

/// The driver's streams of a capture, and the calls that are made on them.
pub(in crate::capture) struct Emitter {
    /// In the order of the captured streams.
    streams: Vec<Arc<OwnedStream>>,
    /// The scope of events that the world outside records or waits for.
    external: EventScope,
    /// Used again by every look at a frontier.
    looked: Vec<NodeHandle>,
    /// Used again by every launch.
    params: Vec<*mut c_void>,
}

impl Emitter {
    /// For streams that capture.
    pub(in crate::capture) fn capturing(origin: Arc<OwnedStream>) -> Self {
        Self {
            streams: vec![origin],
            external: EventScope::External,
            looked: Vec::new(),
            params: Vec::new(),
        }
    }

    /// For streams that run what they are given. Outside a capture the driver
    /// has no external events: any is.
    pub(in crate::capture) fn running(origin: Arc<OwnedStream>) -> Self {
        Self {
            external: EventScope::Internal,
            ..Self::capturing(origin)
        }
    }

    pub(super) fn add(&mut self, stream: Arc<OwnedStream>) {
        self.streams.push(stream);
    }

    pub(in crate::capture) fn stream(&self, id: StreamId) -> &Arc<OwnedStream> {
        &self.streams[id.index()]
    }

    pub(super) fn streams(&self) -> &[Arc<OwnedStream>] {
        &self.streams
    }

    /// Sends a command and finds its node.
    pub(super) fn emit(
        &mut self,
        what: &What,
        params: &mut [u8],
        stream: StreamId,
    ) -> Result<NodeHandle, SendError> {
        self.call(what, params, stream)?;
        self.look(stream)?;
        match self.looked[..] {
            [node] => Ok(node),
            _ => Err(SendError::Unattributed(self.looked.len())),
        }
    }

    /// Sends a command. A library's call is not among them: its own closure
    /// makes it.
    pub(super) fn call(
        &mut self,
        what: &What,
        param_bytes: &mut [u8],
        stream: StreamId,
    ) -> DriverResult<()> {
        let stream = &self.streams[stream.index()];
        match what {
            What::Kernel {
                info, shape, start, ..
            } => {
                let base = param_bytes.as_mut_ptr();
                self.params.clear();
                self.params.extend(info.slots.iter().map(|slot| {
                    // SAFETY: `Binder` has written each slot of the declaration
                    // into these bytes, so the offset is inside them.
                    unsafe { base.add(slot.offset as usize) }.cast::<c_void>()
                }));
                // SAFETY: `Module::kernel` has checked that the function takes
                // these slots; the bytes are this launch's; and the memory the
                // pointers among them point to is kept by the graph: persistent
                // buffers and arena lease by `Keep`. Only a kernel that declares
                // to wait starts early (`early::start`).
                unsafe { stream.launch(&info.function, *shape, *start, &mut self.params) }
            }
            &What::Copy { to, from, bytes } => {
                // SAFETY: both ranges are of memory that the graph keeps.
                unsafe { stream.copy(to.address, from.address, bytes) }
            }
            &What::Fill {
                to, bytes, value, ..
            } => {
                // SAFETY: the range is of memory that the graph keeps.
                unsafe { stream.fill(to.address, value, bytes) }
            }
            What::EventRecord(event) => event.event.record(stream, self.external),
            What::EventWait(event) => event.event.order(stream, self.external),
            // SAFETY: the recording, and then the graph or the run, holds the function
            // until its last call has ended; it catches what its body does.
            What::Host(function) => unsafe { stream.host_call(function.call()) },
            What::Foreign { .. } => Ok(()),
        }
    }

    /// What the stream's next node would depend on.
    pub(super) fn frontier(&mut self, stream: StreamId) -> DriverResult<Vec<NodeHandle>> {
        self.look(stream)?;
        Ok(self.looked.clone())
    }

    /// How the origin takes part in a capture, and what its next node would
    /// depend on.
    pub(super) fn origin_info(&mut self) -> DriverResult<(CaptureInfo, &[NodeHandle])> {
        let info = self.look(ORIGIN)?;
        Ok((info, &self.looked))
    }

    fn look(&mut self, stream: StreamId) -> DriverResult<CaptureInfo> {
        self.streams[stream.index()].capture_info(&mut self.looked)
    }

    /// Makes `later` continue after all that `earlier` was given.
    pub(super) fn order(
        &self,
        event: &OwnedEvent,
        later: StreamId,
        earlier: StreamId,
    ) -> DriverResult<()> {
        event.record(self.stream(earlier), EventScope::Internal)?;
        event.order(self.stream(later), EventScope::Internal)
    }

    /// Ends a capture on the origin that has not ended well, if one has begun.
    /// The graph of it goes at once.
    pub(super) fn end_failed_capture(&mut self) {
        // That the driver reports the failure that brought us here once more
        // says nothing new, and a capture that has ended has no status.
        let status = self.origin_info().map(|(info, _)| info.status);
        if !matches!(status, Ok(CaptureStatus::None))
            && let Ok(graph) = self.stream(ORIGIN).end_capture()
        {
            drop(graph);
        }
    }

    /// Puts the streams of a capture that has ended well away for the next one.
    pub(in crate::capture) fn give_back(&mut self, device: &DeviceInner) {
        for stream in self.streams.drain(..) {
            // An engine's stream stays the engine's.
            if let Ok(stream) = Arc::try_unwrap(stream)
                && stream.is_ours()
            {
                device.give_stream(stream);
            }
        }
    }
}
