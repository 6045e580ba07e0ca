//! What cannot be done with an engine's streams and captures.

use thiserror::Error;

/// A stream or a capture of an engine that cannot be worked in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
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
    CaptureBroken {
        /// The stream.
        stream: String,
        /// The adopted slices whose events cudarc would touch when it is called
        /// with them inside a capture: the usual cause.
        slices: Vec<String>,
    },

    /// An engine's capture with pools of a replay group, and nobody vouches for its
    /// replays.
    #[error(
        "attaching to stream \"{stream}\" with replay group \"{group}\": the engine's replays take no turns with the group's graphs, and would share its arena. Leave the group out, or promise by the unsafe `CaptureOptions::replays_take_turns` that no two of them are ever in flight together"
    )]
    InGroup {
        /// The engine's stream.
        stream: String,
        /// The group.
        group: String,
    },

    /// A cudarc op in a capture, in a context whose slices cudarc tracks by events.
    #[error(
        "cudarc tracks slices by events, which call \"{call}\" would record and wait for inside the capture: call `CudaContext::disable_event_tracking` before slices are made"
    )]
    CudarcTracks {
        /// The call.
        call: String,
    },

    /// A cudarc op asks for a buffer that its call does not have, or not so.
    #[error("buffer \"{buffer}\" of call \"{call}\" {why}")]
    CudarcSlice {
        /// The call.
        call: String,
        /// The buffer, or its place among those of the call.
        buffer: String,
        /// Why it is not lent.
        why: String,
    },
}

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
