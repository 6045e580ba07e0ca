//! What the rules hand over: hazards before they are put into words.

use std::cell::{Cell, RefCell};

use streamweir_trace::{AccessMode, BufferId, ByteRange, NodeId};

use crate::Fix;
use crate::accesses::Touch;
use crate::rules::Rule;

/// One broken rule, by ids. Findings with the same [`key`](Self::key) are one
/// hazard.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) first: Option<NodeId>,
    pub(crate) second: Option<NodeId>,
    /// Tells hazards apart that have no node to do it: the stream, the entry.
    pub(crate) tag: u32,
    pub(crate) cause: Cause,
    pub(crate) modes: [Option<AccessMode>; 2],
    pub(crate) buffers: [Option<BufferId>; 2],
    pub(crate) bytes: ByteRange,
    pub(crate) proven: bool,
    pub(crate) fix: Fix,
}

/// In which way a rule is broken, where there is more than one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No path leads from one node to the other.
    Unordered,
    /// One node touches both buffers.
    SameNode,
    /// Ordered, but between two accesses of the other buffer.
    Between,
    /// Ordered, but the next replay relies on the bytes.
    Carried,
    /// A declared range in no known memory.
    UnknownRange,
    /// A declared pointer parameter in no known memory, by its place.
    UnknownPointer(u32),
    /// A word of a parameter that points to memory outside of all buffers, by
    /// its place among the stray words.
    StrayWord(u32),
    /// Not after the alloc point.
    BeforeAlloc,
    /// Recorded after the free.
    AfterFree,
    /// Work of a stream does not reach the end of the origin.
    Unjoined,
    /// An entry of the trace's protocol table.
    Protocol(u32),
    /// A workspace used by another stream.
    ForeignStream,
    /// Bytes that nothing has written.
    Unwritten,
    /// Graph memory that no node of the graph frees.
    NeverFreed,
    /// Graph memory freed while a node may still use it.
    FreedWhileUsed,
    /// A second free node of the same memory.
    FreedTwice,
    /// A free node of memory that the graph does not allocate.
    FreesForeign,
    /// Blocks that spin, beside a kernel that may take their place.
    NotResident,
    /// The driver differs; the text says how.
    Driver(String),
}

impl Finding {
    /// A finding about two accesses, `first` earlier in the order of the graph.
    pub(crate) fn of_pair(
        rule: Rule,
        cause: Cause,
        first: &Touch,
        second: &Touch,
        fix: Fix,
    ) -> Self {
        let other = (first.buffer != second.buffer).then_some(second.buffer);
        Self {
            cause,
            modes: [Some(first.mode), Some(second.mode)],
            buffers: [Some(first.buffer), other],
            bytes: first.bytes.intersect(&second.bytes).unwrap_or_default(),
            second: Some(second.node),
            ..Self::of_node(rule, first.node, fix)
        }
    }

    /// A finding about one access.
    pub(crate) fn of_touch(rule: Rule, cause: Cause, touch: &Touch, fix: Fix) -> Self {
        Self {
            cause,
            modes: [Some(touch.mode), None],
            buffers: [Some(touch.buffer), None],
            bytes: touch.bytes,
            ..Self::of_node(rule, touch.node, fix)
        }
    }

    /// A finding about a node and no bytes.
    pub(crate) fn of_node(rule: Rule, node: impl Into<Option<NodeId>>, fix: Fix) -> Self {
        Self {
            rule,
            first: node.into(),
            second: None,
            tag: 0,
            cause: Cause::Unordered,
            modes: [None, None],
            buffers: [None, None],
            bytes: ByteRange::default(),
            proven: true,
            fix,
        }
    }

    pub(crate) fn key(&self) -> (Rule, Option<NodeId>, Option<NodeId>, u32) {
        (self.rule, self.first, self.second, self.tag)
    }
}

/// Collects what the rules find, and counts their questions about order.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: RefCell<Vec<Finding>>,
    comparisons: Cell<u64>,
}

impl Findings {
    pub(crate) fn push(&self, finding: Finding) {
        self.found.borrow_mut().push(finding);
    }

    pub(crate) fn compared(&self) {
        self.comparisons.set(self.comparisons.get() + 1);
    }

    pub(crate) fn comparisons(&self) -> u64 {
        self.comparisons.get()
    }

    /// The findings sorted by key, one group per hazard, lowest bytes first in
    /// a group.
    pub(crate) fn into_sorted(self) -> Vec<Finding> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|finding| (finding.key(), finding.bytes, finding.buffers));
        found
    }
}
