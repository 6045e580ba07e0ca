//! What the rules hand over: hazards before they are put into words.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

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
    /// Over bytes that another buffer keeps and no node touches.
    Untouched,
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
    /// Graph memory whose free node may run before its allocation node.
    FreedBeforeAlloc,
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
            modes: [mode(first), mode(second)],
            proven: first.declared && second.declared,
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
            modes: [mode(touch), None],
            proven: touch.declared,
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

    pub(crate) fn key(&self) -> Key {
        (self.rule, self.first, self.second, self.tag)
    }
}

fn mode(touch: &Touch) -> Option<AccessMode> {
    touch.declared.then_some(touch.mode)
}

/// What tells hazards apart, and the order in which they are listed.
pub(crate) type Key = (Rule, Option<NodeId>, Option<NodeId>, u32);

/// The findings of one hazard, as one.
#[derive(Debug)]
pub(crate) struct Group {
    /// The finding that speaks for all: a proven one if there is any, of the
    /// lowest bytes.
    pub(crate) lead: Finding,
    /// The buffers of all.
    pub(crate) buffers: Vec<BufferId>,
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Group {}

impl PartialOrd for Group {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Group {
    fn cmp(&self, other: &Self) -> Ordering {
        self.lead.key().cmp(&other.lead.key())
    }
}

/// Collects what the rules find, and counts it: all hazards, of which the ones
/// with the least keys are kept, and the questions about order.
///
/// A hazard is what shares a [`Key`]: one rule broken by one pair of nodes, over
/// however many bytes and buffers. All findings of a hazard are handed over
/// between two calls of [`close`](Self::close), so that it is counted once.
#[derive(Debug)]
pub(crate) struct Findings {
    limit: usize,
    open: RefCell<Vec<Finding>>,
    kept: RefCell<BinaryHeap<Group>>,
    total: Cell<u64>,
    proven: Cell<Option<bool>>,
    comparisons: Cell<u64>,
}

impl Findings {
    /// Keeps at most `limit` hazards.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: RefCell::default(),
            kept: RefCell::default(),
            total: Cell::default(),
            proven: Cell::default(),
            comparisons: Cell::default(),
        }
    }

    pub(crate) fn push(&self, finding: Finding) {
        self.open.borrow_mut().push(finding);
    }

    pub(crate) fn compared(&self) {
        self.compared_times(1);
    }

    pub(crate) fn compared_times(&self, times: u64) {
        self.comparisons.set(self.comparisons.get() + times);
    }

    pub(crate) fn comparisons(&self) -> u64 {
        self.comparisons.get()
    }

    /// Whether a hazard with this key would be kept as things stand.
    pub(crate) fn lists(&self, key: &Key) -> bool {
        let kept = self.kept.borrow();
        kept.len() < self.limit || kept.peek().is_some_and(|last| *key < last.lead.key())
    }

    /// Counts one hazard that is not kept.
    pub(crate) fn count(&self, proven: bool) {
        self.total.set(self.total.get() + 1);
        self.proven.set(self.proven.get().max(Some(proven)));
    }

    /// Makes hazards of the findings handed over since the last call.
    pub(crate) fn close(&self) {
        let mut open = self.open.borrow_mut();
        if open.is_empty() {
            return;
        }
        open.sort_by_key(|finding| {
            let weight = (!finding.proven, finding.bytes, finding.buffers);
            (finding.key(), weight)
        });
        for group in open.chunk_by(|a, b| a.key() == b.key()) {
            let lead = &group[0];
            self.count(lead.proven);
            if !self.lists(&lead.key()) {
                continue;
            }
            let mut buffers: Vec<BufferId> =
                group.iter().flat_map(|f| f.buffers).flatten().collect();
            buffers.sort_unstable();
            buffers.dedup();
            let mut kept = self.kept.borrow_mut();
            kept.push(Group {
                lead: lead.clone(),
                buffers,
            });
            if kept.len() > self.limit {
                kept.pop();
            }
        }
        open.clear();
    }

    /// How many hazards there are.
    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    /// Whether one of the hazards is proven; `None` when there is none.
    pub(crate) fn proven(&self) -> Option<bool> {
        self.proven.get()
    }

    /// The hazards that were kept, sorted by key.
    pub(crate) fn into_sorted(self) -> Vec<Group> {
        self.kept.into_inner().into_sorted_vec()
    }
}
