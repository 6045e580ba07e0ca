//! What the rules hand over: hazards before they are put into words.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use streamweir_trace::{AccessMode, BufferId, ByteRange, NodeId, StreamId, Trace};

use crate::accesses::Touch;
use crate::fix::Fix;
use crate::rule::Rule;
use crate::site::{Site, buffer_name};

/// In which way a rule is broken. Each rule has ways of its own, and words for
/// them, in its file.
pub(crate) trait Cause: fmt::Debug {
    /// What is wrong, as one sentence.
    fn what(&self, trace: &Trace, finding: &Finding) -> String;

    /// Where it is wrong, for a hazard that has no node.
    fn place(&self, _: &Trace) -> Site {
        Site::default()
    }

    /// Whether the first node comes between two uses of the second buffer, and
    /// so destroys what the later one is to find.
    fn comes_between(&self) -> bool {
        false
    }
}

/// What a hazard is about, where its nodes do not tell it apart from others of
/// the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Its nodes tell it apart.
    #[default]
    Nodes,
    /// Work on this stream; `None` for work on no known stream.
    Stream(Option<StreamId>),
    /// Memory that only the driver knows.
    Buffer(BufferId),
    /// An entry of the trace's table of unknown accesses.
    UnknownAccess(u32),
    /// An entry of its table of stray words.
    StrayWord(u32),
    /// A parameter of the node, by its place.
    Param(u32),
    /// An entry of the trace's table of protocol breaks.
    Protocol(u32),
    /// One of the differences between the driver's graph and the recorded one.
    Difference(u32),
}

/// One broken rule, by ids. Findings with the same [`key`](Self::key) are one
/// hazard.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) cause: Box<dyn Cause>,
    pub(crate) first: Option<NodeId>,
    pub(crate) second: Option<NodeId>,
    pub(crate) subject: Subject,
    pub(crate) modes: [Option<AccessMode>; 2],
    pub(crate) buffers: [Option<BufferId>; 2],
    pub(crate) bytes: ByteRange,
    pub(crate) proven: bool,
    pub(crate) fix: Fix,
}

impl Finding {
    /// A finding about a node and no bytes.
    pub(crate) fn of_node(
        rule: Rule,
        cause: impl Cause + 'static,
        node: impl Into<Option<NodeId>>,
        fix: Fix,
    ) -> Self {
        Self {
            rule,
            cause: Box::new(cause),
            first: node.into(),
            second: None,
            subject: Subject::Nodes,
            modes: [None, None],
            buffers: [None, None],
            bytes: ByteRange::default(),
            proven: true,
            fix,
        }
    }

    /// A finding about one access.
    pub(crate) fn of_touch(
        rule: Rule,
        cause: impl Cause + 'static,
        touch: &Touch,
        fix: Fix,
    ) -> Self {
        Self {
            modes: [mode(touch), None],
            proven: touch.declared,
            buffers: [Some(touch.buffer), None],
            bytes: touch.bytes,
            ..Self::of_node(rule, cause, touch.node, fix)
        }
    }

    /// A finding about two accesses, `first` earlier in the order of the graph.
    pub(crate) fn of_pair(
        rule: Rule,
        cause: impl Cause + 'static,
        first: &Touch,
        second: &Touch,
        fix: Fix,
    ) -> Self {
        let other = (first.buffer != second.buffer).then_some(second.buffer);
        Self {
            modes: [mode(first), mode(second)],
            proven: first.declared && second.declared,
            buffers: [Some(first.buffer), other],
            bytes: first.bytes.intersect(&second.bytes).unwrap_or_default(),
            second: Some(second.node),
            ..Self::of_node(rule, cause, first.node, fix)
        }
    }

    pub(crate) fn key(&self) -> Key {
        (self.rule, self.first, self.second, self.subject)
    }

    /// The name of its first or second buffer.
    pub(crate) fn buffer<'t>(&self, trace: &'t Trace, which: usize) -> Cow<'t, str> {
        self.buffers[which].map_or(Cow::Borrowed("?"), |id| buffer_name(trace, id))
    }
}

fn mode(touch: &Touch) -> Option<AccessMode> {
    touch.declared.then_some(touch.mode)
}

/// What tells hazards apart, and the order in which they are listed.
pub(crate) type Key = (Rule, Option<NodeId>, Option<NodeId>, Subject);

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
        let mut open = self.open.take();
        open.sort_by_key(|finding| {
            let weight = (!finding.proven, finding.bytes, finding.buffers);
            (finding.key(), weight)
        });
        let mut open = open.into_iter().peekable();
        while let Some(lead) = open.next() {
            let key = lead.key();
            let mut buffers: Vec<BufferId> = lead.buffers.into_iter().flatten().collect();
            while let Some(same) = open.next_if(|finding| finding.key() == key) {
                buffers.extend(same.buffers.into_iter().flatten());
            }
            buffers.sort_unstable();
            buffers.dedup();
            self.add(lead, buffers);
        }
    }

    /// Adds a whole hazard: the finding that speaks for all of it, and the buffers
    /// of all.
    pub(crate) fn add(&self, lead: Finding, buffers: Vec<BufferId>) {
        self.count(lead.proven);
        if self.lists(&lead.key()) {
            let mut kept = self.kept.borrow_mut();
            kept.push(Group { lead, buffers });
            if kept.len() > self.limit {
                kept.pop();
            }
        }
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
