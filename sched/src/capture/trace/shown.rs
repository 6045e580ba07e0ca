//! What the nodes of a recording show of memory that it does not declare.

use std::collections::HashSet;
use std::sync::Arc;

use streamweir_alloc::PersistentEntry;
use streamweir_trace::{BufferId, ByteRange, Keeper, NodeId, Promise, Promised, Trace};
use streamweir_verify::audit::{KnownMemory, Meaning, scan};

use super::Traces;
use super::promises::LeftOver;
use crate::audit::{AddedMemory, Attributed, add_memory, attribute, persistent, words};
use crate::device::DeviceInner;
use crate::error::Result;

/// What calls keep, by node.
pub(super) struct Kept(Vec<(NodeId, ByteRange)>);

impl Kept {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut all = Vec::new();
        for promise in &trace.promises {
            if let Promised::Keeps { range, .. } = promise.what {
                all.extend(promise.nodes.iter().map(|&node| (node, range)));
            }
        }
        all.sort_unstable();
        Self(all)
    }

    /// Who keeps what a node of ours shows an address of.
    pub(super) fn keeper(&self, node: NodeId, at: u64) -> Keeper {
        let from = self.0.partition_point(|(of, _)| *of < node);
        let of_node = self.0[from..].iter().take_while(|(of, _)| *of == node);
        match of_node
            .map(|(_, range)| range)
            .any(|range| range.contains_byte(at))
        {
            true => Keeper::Call,
            false => Keeper::Nobody,
        }
    }
}

/// Adds to the trace of work of ours the memory that its nodes show and do not
/// declare, and the words that nothing explains: as possible accesses, or as one
/// promise for each call that has them left over. Returns the persistent buffers among
/// that memory, for whoever has the graph to keep alive.
pub(in crate::capture) fn show(
    device: &DeviceInner,
    trace: &mut Trace,
    left_over: &[LeftOver],
) -> Result<Vec<Arc<PersistentEntry>>> {
    let kept = Kept::of(trace);
    let AddedMemory {
        gone,
        persistent: found,
    } = add_memory(device, trace, &[], |node, at| kept.keeper(node, at))?;
    let memory = KnownMemory::of_trace(trace, gone);
    add_words(trace, &memory, left_over);
    Ok(found)
}

/// The same of a part in an engine's capture, whose other nodes are the engine's: what
/// those touch is added as far as it can be seen, and unnamed memory is the engine's.
pub(in crate::capture) fn show_part(
    device: &DeviceInner,
    traces: &mut Traces,
) -> Result<Vec<Arc<PersistentEntry>>> {
    let Traces {
        declared,
        theirs,
        left_over,
        ..
    } = traces;
    let of_engine = |node: NodeId| theirs.contains(&node);
    let kept = Kept::of(declared);
    let keeper = |node: NodeId, at: u64| match of_engine(node) {
        true => Keeper::Engine,
        false => kept.keeper(node, at),
    };
    let Attributed { gone, .. } =
        attribute(device, declared, Vec::new(), keeper, of_engine, of_engine)?;
    let memory = KnownMemory::of_trace(declared, gone);
    add_words(declared, &memory, left_over);
    Ok(persistent(device, declared, |node| !of_engine(node)))
}

/// Adds the words that nothing explains.
pub(super) fn add_words(trace: &mut Trace, memory: &KnownMemory, left_over: &[LeftOver]) {
    let mut found = scan(trace, memory);
    for call in left_over {
        let nodes: HashSet<NodeId> = call.nodes.iter().copied().collect();
        let into: HashSet<(NodeId, BufferId)> = found
            .possible
            .iter()
            .filter(|word| nodes.contains(&word.node))
            .map(|word| (word.node, word.buffer))
            .collect();
        let strays: HashSet<(NodeId, u64)> = found
            .stray
            .iter()
            .filter(|word| nodes.contains(&word.node))
            .map(|word| (word.node, word.at))
            .collect();
        found.possible.retain(|word| !nodes.contains(&word.node));
        found.stray.retain(|word| !nodes.contains(&word.node));
        let is_left_over = |node: NodeId, address: u64| match memory.at(address, node) {
            Some(Meaning::Buffer(buffer, _)) => into.contains(&(node, buffer)),
            _ => strays.contains(&(node, address)),
        };
        let mut count = 0;
        for &node in &call.nodes {
            let all = words(&trace.node(node).kind);
            count += all.filter(|&(_, _, word)| is_left_over(node, word)).count() as u64;
        }
        let mut buffers: Vec<BufferId> = into.into_iter().map(|(_, buffer)| buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        if count > 0 {
            trace.promises.push(Promise {
                of: call.of.clone(),
                nodes: call.nodes.clone(),
                what: Promised::LeftOver {
                    words: count,
                    buffers,
                    reason: call.reason.clone(),
                },
                line: Some(call.line.clone()),
            });
        }
    }
    trace.possible.extend(found.possible);
    trace.stray.extend(found.stray);
}
