//! What can go wrong, by name, and what to do about it.

mod engine;
mod feed;
mod instrument;
mod kernel;

pub use engine::EngineError;
pub use feed::FeedError;
pub use instrument::InstrumentError;
pub use kernel::KernelError;

use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::{AllocError, RegistryError};
use streamweir_hal::driver::{DriverError, ErrorClass};
use streamweir_trace::Count;
use streamweir_verify::{Report, VerifyError};
use thiserror::Error;

/// The error of every operation of this crate.
///
/// A closure that records a capture may return any error type that is
/// `From<Error>`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A driver call failed.
    #[error("{during}: {source}")]
    Driver {
        /// What was being done, with the names of what it was done to.
        during: String,
        /// The call and its failure.
        #[source]
        source: DriverError,
    },

    /// A scratch pool could not give a buffer.
    #[error(transparent)]
    Alloc(#[from] AllocError),

    /// A persistent buffer could not be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),

    /// A device could not be opened.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Open(#[from] streamweir_hal::cuda::OpenError),

    /// Something of an engine could not be adopted.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Adopt(#[from] streamweir_hal::cuda::AdoptError),

    /// A kernel is not what it is declared to be, or its arguments are not.
    #[error(transparent)]
    Kernel(#[from] KernelError),

    /// A feed refuses a step or a slot.
    #[error(transparent)]
    Feed(#[from] FeedError),

    /// An engine's stream or capture cannot be worked in.
    #[error(transparent)]
    Engine(#[from] EngineError),

    /// Taps, readings or times are not to be had.
    #[error(transparent)]
    Instrument(#[from] InstrumentError),

    /// The verifier found hazards, and the capture was to refuse them.
    #[error("capture \"{capture}\" is refused: {}\n\n{report}", Count::of(report.hazards_total, "hazard"))]
    Refused {
        /// The capture.
        capture: String,
        /// Every hazard with its fix.
        report: Box<Report>,
    },

    /// A capture was to be proved, and has no certificate.
    #[error(
        "capture \"{capture}\" is not proved: {} and there is no certificate\n\n{report}",
        stood_in_the_way(.report)
    )]
    Unproven {
        /// The capture.
        capture: String,
        /// What stood in the way.
        report: Box<Report>,
    },

    /// Pools in the order of host calls, and nobody vouches for what they do.
    #[error(
        "capture \"{capture}\" asks for pools in the order of host calls, in which concurrent \
         kernels overwrite each other's scratch; choose Policy::ISOLATED or Policy::ORDERED, or \
         promise to live with it by the unsafe `CaptureOptions::host_order_pools`"
    )]
    HostOrder {
        /// The capture.
        capture: String,
    },

    /// A capture was to end while one of its own foreign calls was being made.
    #[error(
        "capture \"{capture}\" cannot end inside its own foreign call \"{call}\", whose nodes \
         are not complete; end it when the call has returned"
    )]
    EndInCall {
        /// The capture.
        capture: String,
        /// The innermost call.
        call: String,
    },

    /// The trace of a capture cannot be verified at all.
    #[error("capture \"{capture}\" cannot be verified: {source}")]
    Unverifiable {
        /// The capture.
        capture: String,
        /// Why.
        #[source]
        source: VerifyError,
    },

    /// A forked stream was not joined before the capture ended (R6).
    #[error(
        "capture \"{capture}\" ends with stream \"{stream}\" not joined (last node: {last}); \
         call `join` with it before the end of the capture"
    )]
    Unjoined {
        /// The capture.
        capture: String,
        /// The first such stream.
        stream: String,
        /// The last node recorded on it.
        last: String,
    },

    /// An event that is recorded somewhere else: who waits for it could not tell whose
    /// record it has seen.
    #[error(
        "event \"{event}\" is recorded {recorded}; whoever waits for it would take one record for the other. Give \"{by}\" an event of its own, or drop the graph first"
    )]
    EventTaken {
        /// The event.
        event: String,
        /// Who records it, in words.
        recorded: String,
        /// The capture or the stream that was to record it, too.
        by: String,
    },

    /// An earlier failure broke the capture; nothing can be recorded in it.
    #[error(
        "capture \"{capture}\" is broken by an earlier failure ({first}); drop it and capture again"
    )]
    Broken {
        /// The capture.
        capture: String,
        /// The failure.
        first: String,
    },

    /// A handle outlived its capture.
    #[error(
        "{what} belongs to capture \"{capture}\", which has ended; use it inside its capture only"
    )]
    CaptureEnded {
        /// The handle, by kind and name.
        what: String,
        /// The capture.
        capture: String,
    },

    /// A handle of one capture was used in another.
    #[error(
        "{what} belongs to capture \"{made_in}\" and was used in capture \"{used_in}\"; a scratch buffer or stream lives in one capture: pass data on through a persistent buffer"
    )]
    OtherCapture {
        /// The handle, by kind and name.
        what: String,
        /// Where it was made.
        made_in: String,
        /// Where it was used.
        used_in: String,
    },

    /// Memory, a stream or code of another device.
    #[error("{what} belongs to another device than {used_on}")]
    OtherDevice {
        /// The thing, by kind and name.
        what: String,
        /// The device it was used on.
        used_on: String,
    },

    /// A stream that has been forked already and not joined.
    #[error(
        "stream \"{stream}\" of capture \"{capture}\" is forked at {again} and has been forked at {first} already; join it before it is forked again, or fork a stream of another name"
    )]
    AlreadyForked {
        /// The stream.
        stream: String,
        /// The capture.
        capture: String,
        /// The line that has forked it; for the origin that of the second fork.
        first: &'static Location<'static>,
        /// The line that was to fork it.
        again: &'static Location<'static>,
    },

    /// Something that a planned capture cannot do.
    #[error("{what} is not possible in planned capture \"{capture}\": {instead}")]
    Unplannable {
        /// What was asked for, with the names of what it concerns.
        what: String,
        /// The capture.
        capture: String,
        /// Why, and what to do instead.
        instead: &'static str,
    },

    /// A library's call failed.
    #[error("{during}: {source}")]
    Foreign {
        /// The call, with its stream and capture.
        during: String,
        /// What the library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A stream joined into itself, or the origin joined into another stream.
    #[error("stream \"{stream}\" of capture \"{capture}\" cannot be joined into \"{into}\": {why}")]
    BadJoin {
        /// The stream.
        stream: String,
        /// The stream that was to continue after it.
        into: String,
        /// The capture.
        capture: String,
        /// What is wrong.
        why: &'static str,
    },

    /// A lane type names two captured streams.
    #[error(
        "lane `{lane}` of capture \"{capture}\" is stream \"{first}\" already; a lane type stands for one stream"
    )]
    LaneTaken {
        /// The type's name.
        lane: &'static str,
        /// The capture.
        capture: String,
        /// The stream that has the lane.
        first: String,
    },

    /// A call that is not allowed while the calling thread is capturing.
    #[error(
        "{call} is not possible inside capture \"{capture}\"; do it before the capture begins (`prepare`, `load`, `persistent` and the like), or after it ends"
    )]
    InsideCapture {
        /// The call.
        call: &'static str,
        /// The capture.
        capture: String,
    },

    /// A length that does not fit the buffer.
    #[error("buffer \"{buffer}\" has {has} elements; {what}")]
    Length {
        /// The buffer.
        buffer: String,
        /// Its length in elements.
        has: usize,
        /// What was asked of it.
        what: String,
    },

    /// A graph that cannot be updated with what was captured.
    #[error(
        "graph \"{graph}\" cannot be updated with what was captured, and is as it was: {source}; an update changes operands of the same nodes and edges: capture a graph of its own for the changed step"
    )]
    NotUpdated {
        /// The graph.
        graph: String,
        /// What differs.
        #[source]
        source: DriverError,
    },

    /// A graph of which an update failed half-way.
    #[error(
        "graph \"{graph}\" was to be updated, the driver failed, and it could not be made anew; nobody knows what a replay would do: drop it and capture again"
    )]
    Unsure {
        /// The graph.
        graph: String,
    },

    /// A copy between overlapping bytes, which a device does in any order.
    #[error(
        "a copy from \"{from}\" to \"{to}\" would overwrite what it reads, at {bytes}; copy through a scratch buffer"
    )]
    BadCopy {
        /// The buffer written.
        to: String,
        /// The buffer read.
        from: String,
        /// The bytes written.
        bytes: streamweir_trace::ByteRange,
    },

    /// A buffer whose bytes do not fit 64 bits.
    #[error(
        "buffer \"{buffer}\" of {elements} elements of {element_size} bytes is larger than the address space"
    )]
    TooLarge {
        /// The buffer.
        buffer: String,
        /// Elements asked for.
        elements: usize,
        /// Bytes of one.
        element_size: usize,
    },

    /// A null or misaligned pointer was to be adopted.
    #[error("pointer {address:#x} for buffer \"{buffer}\": {why}")]
    BadPointer {
        /// The buffer.
        buffer: String,
        /// The address.
        address: u64,
        /// What is wrong with it.
        why: &'static str,
    },

    /// An edge of a graph between nodes of which one is not listed.
    #[error(
        "graph \"{capture}\" has an edge at {node}, which the driver does not list among its nodes; the graph was changed while it was read, or the driver is broken"
    )]
    UnlistedNode {
        /// The graph.
        capture: String,
        /// The driver's handle of the node.
        node: String,
    },

    /// Child graphs inside child graphs, without end.
    #[error(
        "child graphs are nested more than {levels} deep; audit the inner graphs by themselves"
    )]
    TooDeep {
        /// How many levels are looked into.
        levels: usize,
    },

    /// The writes of a graph could not be looked for.
    #[error("the writes of graph \"{capture}\" were not inferred: {why}")]
    Infer {
        /// The graph.
        capture: String,
        /// Why, and what to do.
        why: String,
    },

    /// The driver recorded something else than one node for one launch.
    #[error(
        "{what} left {found} nodes at the end of stream \"{stream}\" where one was expected; something else captures into this stream"
    )]
    Unattributed {
        /// What was recorded.
        what: String,
        /// The stream.
        stream: String,
        /// Nodes at its end.
        found: usize,
    },
}

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kind of driver failure behind this error, when there is one.
    pub fn driver_class(&self) -> Option<ErrorClass> {
        match self {
            Self::Driver { source, .. } | Self::NotUpdated { source, .. } => Some(source.class),
            Self::Alloc(error) => error_source::<DriverError>(error).map(|e| e.class),
            _ => None,
        }
    }

    /// Whether device memory ran out.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Alloc(error) => error.is_out_of_memory(),
            _ => self.driver_class() == Some(ErrorClass::OutOfMemory),
        }
    }

    /// The verifier's report, when the capture was refused.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Refused { report, .. } | Self::Unproven { report, .. } => Some(report),
            _ => None,
        }
    }
}

/// What a capture without a certificate has instead, in words.
fn stood_in_the_way(report: &Report) -> String {
    match report.hazards.len() {
        0 => "the graph is more than a certificate can state".to_owned(),
        1 => "1 hazard stands in the way".to_owned(),
        count => format!("{count} hazards stand in the way"),
    }
}

fn error_source<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Says what a driver call was for.
pub(crate) trait During<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> During<T> for std::result::Result<T, DriverError> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Driver {
            during: what(),
            source,
        })
    }
}

/// A name that many handles share.
pub(crate) type Name = Arc<str>;
