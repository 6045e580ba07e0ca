//! Pairs of accesses as hazards, for the rules that the sweep finds pairs for.
//!
//! A pair of nodes is known in full, and counted, once its later node is done. Two
//! nodes may have millions of pairs of accesses: of those that are one hazard only
//! the one that speaks for all is kept, and the names of their buffers.

use std::collections::BTreeMap;

use streamweir_trace::{BufferId, ByteRange, NodeId};

use crate::accesses::Touch;
use crate::findings::{Finding, Findings, Key, Subject};
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
    /// Whether it may be listed. What is not once never is again, and needs no names.
    listed: bool,
    buffers: Vec<BufferId>,
}

impl<W> Group<W> {
    /// Adds buffers, which are kept in order.
    fn add(&mut self, buffers: [BufferId; 2]) {
        for buffer in buffers {
            if let Err(at) = self.buffers.binary_search(&buffer) {
                self.buffers.insert(at, buffer);
            }
        }
    }
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

    pub(super) fn add(&mut self, findings: &Findings, pair: Pair<W>) {
        let buffers = [pair.first.buffer, pair.then.buffer];
        match self.open.get_mut(&pair.first.node) {
            Some(group) => {
                if group.listed {
                    group.add(buffers);
                }
                if pair.weight() < group.lead.weight() {
                    group.lead = pair;
                }
            }
            None => {
                let key = Self::key(self.rule, &pair);
                let mut group = Group {
                    listed: findings.lists(&key),
                    buffers: Vec::new(),
                    lead: pair,
                };
                if group.listed {
                    group.add(buffers);
                }
                self.open.insert(group.lead.first.node, group);
            }
        }
    }

    fn key(rule: Rule, pair: &Pair<W>) -> Key {
        let (first, then) = (pair.first.node, pair.then.node);
        (rule, Some(first), Some(then), Subject::Nodes)
    }

    /// Counts the pairs, and hands over those that will be listed.
    pub(super) fn close(&mut self, findings: &Findings, finding: impl Fn(Pair<W>) -> Finding) {
        for (_, group) in std::mem::take(&mut self.open) {
            let Group {
                lead,
                listed,
                buffers,
            } = group;
            if listed && findings.lists(&Self::key(self.rule, &lead)) {
                findings.add(finding(lead), buffers);
            } else {
                findings.count(lead.proven);
            }
        }
    }
}
