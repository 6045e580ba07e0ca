//! What the authors of a recording vouch for, as promises of its trace.

use streamweir_trace::{NodeId, PdlWait, Promise, Promised, SourceLine, Trace};

use super::builder::Builder;
use crate::capture::recording::What;

/// A call whose words that nothing explains are left over.
pub(in crate::capture) struct LeftOver {
    pub(in crate::capture) of: String,
    pub(in crate::capture) nodes: Vec<NodeId>,
    pub(in crate::capture) reason: String,
    pub(in crate::capture) line: SourceLine,
}

impl Builder<'_> {
    /// Adds what is promised of each command, one entry for each promise.
    pub(super) fn add_promises(&self, trace: &mut Trace) {
        for (index, command) in self.recording.commands.iter().enumerate() {
            let nodes: Vec<NodeId> = self.nodes_of(index).collect();
            if nodes.is_empty() {
                continue;
            }
            let promise = |nodes: Vec<NodeId>, what| Promise {
                of: command.what.title(),
                nodes,
                what,
                line: Some(command.spot.source_line()),
            };
            match &command.what {
                What::Foreign { said, .. } => {
                    let waiting: Vec<NodeId> = nodes
                        .iter()
                        .copied()
                        .filter(|&node| trace.node(node).pdl == PdlWait::OnAllPaths)
                        .collect();
                    if !waiting.is_empty() {
                        trace.promises.push(promise(waiting, Promised::Waits));
                    }
                    for kept in &said.keeps {
                        let keeps = Promised::Keeps {
                            name: kept.name.clone(),
                            range: kept.range,
                            owner: "the graph".to_owned(),
                        };
                        trace.promises.push(promise(nodes.clone(), keeps));
                    }
                    trace.promises.push(promise(nodes, Promised::Touches));
                }
                What::Host(function) if function.vouched => {
                    trace.promises.push(promise(nodes, Promised::Touches));
                }
                What::Kernel { said, .. } => {
                    if said.narrowed {
                        trace
                            .promises
                            .push(promise(nodes.clone(), Promised::Narrowed));
                    }
                    if said.unchecked {
                        trace.promises.push(promise(nodes, Promised::Unchecked));
                    }
                }
                _ => {}
            }
        }
    }

    /// The calls of which words are left over.
    pub(super) fn left_over(&self) -> Vec<LeftOver> {
        let commands = self.recording.commands.iter().enumerate();
        let calls = commands.filter_map(|(index, command)| match &command.what {
            What::Foreign { name, said } => Some(LeftOver {
                of: name.clone(),
                nodes: self.nodes_of(index).collect(),
                reason: said.left_over.clone()?,
                line: command.spot.source_line(),
            }),
            _ => None,
        });
        calls.collect()
    }
}
