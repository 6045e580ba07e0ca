//! What a feed refuses.

use thiserror::Error;

/// Feeding or reading a step in a way that would tear it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FeedError {
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

    /// A replay that would copy from or to page-locked memory that the host holds.
    #[error(
        "graph \"{graph}\" copies from or to page-locked buffer \"{buffer}\", which the host holds; drop what `Pinned::hold` gave before the replay"
    )]
    HostHolds {
        /// The graph.
        graph: String,
        /// The buffer.
        buffer: String,
    },

    /// Page-locked memory of which nobody can say when the host may have it.
    #[error("page-locked buffer \"{buffer}\" cannot be held: {why}")]
    NotHeld {
        /// The buffer.
        buffer: String,
        /// Who may use it, and what to do.
        why: &'static str,
    },

    /// Page-locked memory that a function of the host has left behind in a panic.
    #[error(
        "page-locked buffer \"{buffer}\" means nothing: {why}; drop the graph that calls the function, then write the memory anew through `as_mut_slice`"
    )]
    Poisoned {
        /// The buffer.
        buffer: String,
        /// The function, and what it said.
        why: String,
    },

    /// A function of the host in an eager run beside a stream that is out.
    #[error(
        "host function \"{call}\" in eager run \"{run}\" while stream \"{stream}\" is forked: nothing proves that they do not meet in its memory before both have run; join the stream first"
    )]
    HostBeside {
        /// The function.
        call: String,
        /// The run.
        run: String,
        /// The first stream that is out.
        stream: String,
    },
}
