//! What can go wrong, by name, and what to do about it.

use std::sync::Arc;

use streamweir_alloc::{AllocError, RegistryError};
use streamweir_hal::driver::{DriverError, ErrorClass};
use streamweir_verify::{Report, VerifyError};
use thiserror::Error;

use crate::kernel::Refusal;

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

    /// The verifier found hazards, and the capture was to refuse them.
    #[error("capture \"{capture}\" is refused: {} hazard(s)\n\n{report}", report.hazards_total)]
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

    /// An engine's capture with pools of a replay group, and nobody vouches for its
    /// replays.
    #[error(
        "attaching to stream \"{stream}\" with replay group \"{group}\": the engine's replays take no turns with the group's graphs, and would share its arena. Leave the group out, or promise by the unsafe `CaptureOptions::replays_take_turns` that no two of them are ever in flight together"
    )]
    EngineInGroup {
        /// The engine's stream.
        stream: String,
        /// The group.
        group: String,
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
        "stream \"{stream}\" of capture \"{capture}\" is forked already; join it before it is forked again, or fork a stream of another name"
    )]
    AlreadyForked {
        /// The stream.
        stream: String,
        /// The capture.
        capture: String,
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

    /// The compiled kernel does not have as many parameters as declared.
    #[error(
        "kernel `{kernel}` is declared with {declared} parameters, but its code takes {actual}"
    )]
    ParamCount {
        /// The declaration.
        kernel: String,
        /// Parameters of the declaration.
        declared: usize,
        /// Parameters of the code.
        actual: usize,
    },

    /// A parameter of the compiled kernel is elsewhere or of another size.
    #[error(
        "parameter `{param}` of kernel `{kernel}` is declared with {declared_size} bytes at offset {declared_offset}, but its code takes {actual_size} bytes at offset {actual_offset}"
    )]
    ParamShape {
        /// The kernel.
        kernel: String,
        /// The parameter.
        param: String,
        /// Declared size in bytes.
        declared_size: u32,
        /// Declared offset in bytes.
        declared_offset: u32,
        /// Size in the code.
        actual_size: u32,
        /// Offset in the code.
        actual_offset: u32,
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

    /// Arguments that a kernel does not take.
    #[error("kernel {kernel}: {why}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// What its check says.
        #[source]
        why: Refusal,
    },

    /// Two arguments with bytes in common, of which the kernel writes one.
    #[error(
        "kernel {kernel}: `{first}` and `{second}` are given bytes in common, and the kernel writes \
         one of them; give them apart, or say in the declaration that they may be the same: \
         `#[in_place({first}, {second})]`"
    )]
    SharedBytes {
        /// The kernel.
        kernel: String,
        /// One parameter.
        first: String,
        /// The other.
        second: String,
    },

    /// A slot that a copy of this step may still use.
    #[error(
        "the slot of \"{buffer}\" for step {step} of feed \"{feed}\" is in flight; write or receive it once a step, and open the next step for more"
    )]
    SlotInFlight {
        /// The staging or readback buffer.
        buffer: String,
        /// The feed.
        feed: String,
        /// The number of the step.
        step: u64,
    },

    /// A slot that holds nothing of the step that was asked for.
    #[error(
        "the slot of \"{buffer}\" holds nothing of step {step} of feed \"{feed}\": it was not used in that step, or a later step has it now; read results before the ring comes round, or make the feed deeper"
    )]
    SlotUnused {
        /// The staging or readback buffer.
        buffer: String,
        /// The feed.
        feed: String,
        /// The number of the step.
        step: u64,
    },

    /// A step of another feed than the one that the slots belong to.
    #[error("\"{buffer}\" belongs to feed \"{feed}\" and was used with another; make one for each")]
    OtherFeed {
        /// The staging or readback buffer.
        buffer: String,
        /// Its feed.
        feed: String,
    },

    /// A step on a stream that an engine is capturing.
    #[error(
        "stream \"{stream}\" is being captured, and a step of feed \"{feed}\" would become part of that capture; open the step before it or after it"
    )]
    StreamCaptures {
        /// The feed.
        feed: String,
        /// The stream.
        stream: String,
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

    /// The legacy default stream, which cannot be captured and orders itself
    /// against all others.
    #[error(
        "stream \"{stream}\" is the legacy default stream, which cannot take part in a capture; create a stream (non-blocking) and run the engine on it"
    )]
    LegacyStream {
        /// The name it was to have.
        stream: String,
    },

    /// `attach` on a stream that is not capturing.
    #[error("stream \"{stream}\" is not capturing; begin the engine's capture before `attach`")]
    NotCapturing {
        /// The stream.
        stream: String,
    },

    /// `attach` or `detach` on a stream whose capture the engine, or a library
    /// that it called, has broken.
    #[error(
        "the engine's capture on stream \"{stream}\" is broken: a call in it was one that a capture does not allow{}; end it, mend the call and capture again",
        tracked(slices)
    )]
    EngineCaptureBroken {
        /// The stream.
        stream: String,
        /// The adopted slices whose events cudarc would touch when it is called
        /// with them inside a capture: the usual cause.
        slices: Vec<String>,
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

    /// A parameter that the code takes as a pointer to constants is declared as
    /// written.
    #[error(
        "parameter `{param}` of kernel `{kernel}` is declared as {declared}, but the kernel's name says that it is a pointer to const; declare it `In`"
    )]
    ConstParam {
        /// The kernel.
        kernel: String,
        /// The parameter.
        param: String,
        /// How it is declared.
        declared: streamweir_trace::AccessMode,
    },

    /// Nodes of a graph could not be timed.
    #[error("{node} of graph \"{graph}\" was not timed: {why}")]
    NotTimed {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// Why.
        why: &'static str,
    },

    /// The writes of a graph could not be looked for.
    #[error("the writes of graph \"{capture}\" were not inferred: {why}")]
    Infer {
        /// The graph.
        capture: String,
        /// Why, and what to do.
        why: String,
    },

    /// Taps that another capture records with at this moment.
    #[error(
        "taps \"{taps}\" are in use by capture \"{capture}\"; they hold one recording: end it first, \
         or make taps of its own for each capture"
    )]
    TapsInUse {
        /// The taps.
        taps: String,
        /// The capture.
        capture: String,
    },

    /// Readings of two recordings that are not the same.
    #[error(
        "\"{seen}\" is not a run of the same recording as \"{expected}\": copy {at} is of {seen_has}, not \
         of {expected_has}; compare runs of one closure with the same sizes"
    )]
    OtherRecording {
        /// The readings that were compared with.
        expected: String,
        /// The readings that were compared.
        seen: String,
        /// The first copy that is of something else.
        at: usize,
        /// What it is of there.
        expected_has: String,
        /// What it is of here.
        seen_has: String,
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
            Self::Driver { source, .. } => Some(source.class),
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

/// What is said of slices that cudarc tracks.
fn tracked(slices: &[String]) -> String {
    if slices.is_empty() {
        return String::new();
    }
    format!(
        ". cudarc tracks the use of \"{}\" by events, and a cudarc call with such a slice inside a \
         capture waits for an event from before it: call `CudaContext::disable_event_tracking` before \
         the slices are made",
        slices.join("\", \"")
    )
}
