//! What a proof rests on because somebody said so.

use serde::{Deserialize, Serialize};

use crate::id::{BufferId, NodeId};
use crate::node::SourceLine;
use crate::range::ByteRange;

/// Something about nodes that neither the driver nor the trace shows, and that
/// somebody vouches for: the author of a kernel, or the caller of a library.
///
/// Every verdict that may rest on it says so, one line for each entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The kernel or the call that it is about.
    pub of: String,
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// What is promised.
    pub what: Promised,
    /// The source line that promises it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
}

/// What is promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Promised {
    /// The nodes touch no memory but what is declared of them or shown by their
    /// operands and parameters.
    Touches,
    /// The kernels were launched in a shape and with arguments that no check has
    /// seen, and touch no memory but what is declared of them.
    Unchecked,
    /// The kernels wait for what they follow on all paths before they touch
    /// memory.
    Waits,
    /// The kernels touch no more of their buffers than the ranges that they were
    /// launched with.
    Narrowed,
    /// Words of parameters that are addresses, and that nothing else explains,
    /// are not used: the nodes touch nothing through them.
    LeftOver {
        /// How many words there are.
        words: u64,
        /// The buffers that they point into.
        buffers: Vec<BufferId>,
        /// Why they are there, in the words of whoever promises it.
        reason: String,
    },
    /// Somebody keeps memory alive that the nodes refer to, and words of
    /// parameters that point into it are explained by that.
    Keeps {
        /// What the memory is called.
        name: String,
        /// Its device addresses.
        range: ByteRange,
        /// Who keeps it.
        owner: String,
    },
}
