//! Pairs of accesses as hazards, for the rules that the sweep finds pairs for.
//!
//! A pair of nodes is known in full, and counted, once its later node is done.
//! Only what the report will list is made a finding of: a graph may have more
//! pairs than fit.

use crate::accesses::Touch;
use crate::findings::{Finding, Findings, Subject};
use crate::rule::Rule;

/// The conflicting accesses whose later node is the one at hand.
#[derive(Debug)]
pub(super) struct Pairs<W> {
    rule: Rule,
    open: Vec<Pair<W>>,
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

impl<W> Pairs<W> {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            open: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, pair: Pair<W>) {
        self.open.push(pair);
    }

    /// Counts the pairs, and hands over those that will be listed.
    pub(super) fn close(&mut self, findings: &Findings, finding: impl Fn(Pair<W>) -> Finding) {
        self.open.sort_by_key(|pair| pair.first.node);
        let mut open = self.open.drain(..).peekable();
        while let Some(lead) = open.next() {
            let first = lead.first.node;
            let key = (self.rule, Some(first), Some(lead.then.node), Subject::Nodes);
            let same = |pair: &Pair<W>| pair.first.node == first;
            if findings.lists(&key) {
                findings.push(finding(lead));
                while let Some(pair) = open.next_if(same) {
                    findings.push(finding(pair));
                }
                findings.close();
            } else {
                let mut proven = lead.proven;
                while let Some(pair) = open.next_if(same) {
                    proven |= pair.proven;
                }
                findings.count(proven);
            }
        }
    }
}
