//! What instruments refuse: taps, readings, times.

use thiserror::Error;

/// An instrument that has no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstrumentError {
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
}
