//! Pairs of accesses as hazards, for the rules that the sweep finds pairs for.
//!
//! A pair of nodes is known in full, and counted, once its later node is done. Two
//! nodes may have millions of pairs of accesses: of those that are one hazard only
//! the one that speaks for all is kept, and the names of their buffers.

use std::collections::{BTreeMap, BTreeSet};

use streamweir_trace::{BufferId, ByteRange, NodeId};

use crate::accesses::Touch;
use crate::findings::{Finding, Findings, Subject};
use crate::rule::Rule;

/// The conflicting accesses whose later node is the one at hand.
#[derive(Debug)]
pub(super) struct Pairs<W> {
    rule: Rule,
    /// By first node.
    open: BTreeMap<NodeId, Group<W>>,
}

/// Two accesses, the first earlier in the order of the graph, and in which way
/// they break the rule.
#[derive(Debug)]
pub(super) struct Pair<W> {
    pub(super) first: Touch,
    pub(super) then: Touch,
    pub(super) proven: bool,
    pub(super) way: W,
}

#[derive(Debug)]
struct Group<W> {
    lead: Pair<W>,
    buffers: BTreeSet<BufferId>,
}

impl<W> Pair<W> {
    /// The proven pair of the lowest bytes speaks for all.
    fn weight(&self) -> (bool, Option<ByteRange>, [BufferId; 2]) {
        let bytes = self.first.bytes.intersect(&self.then.bytes);
        let buffers = [self.first.buffer, self.then.buffer];
        (!self.proven, bytes, buffers)
    }
}

impl<W> Pairs<W> {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            open: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, pair: Pair<W>) {
        let buffers = [pair.first.buffer, pair.then.buffer];
        match self.open.get_mut(&pair.first.node) {
            Some(group) => {
                group.buffers.extend(buffers);
                if pair.weight() < group.lead.weight() {
                    group.lead = pair;
                }
            }
            None => {
                let group = Group {
                    buffers: buffers.into(),
                    lead: pair,
                };
                self.open.insert(group.lead.first.node, group);
            }
        }
    }

    /// Counts the pairs, and hands over those that will be listed.
    pub(super) fn close(&mut self, findings: &Findings, finding: impl Fn(Pair<W>) -> Finding) {
        for (first, Group { lead, buffers }) in std::mem::take(&mut self.open) {
            let then = Some(lead.then.node);
            if findings.lists(&(self.rule, Some(first), then, Subject::Nodes)) {
                findings.add(finding(lead), buffers.into_iter().collect());
            } else {
                findings.count(lead.proven);
            }
        }
    }
}
