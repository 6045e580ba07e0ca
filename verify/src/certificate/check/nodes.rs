//! The part of the checker about nodes rather than bytes: every allocation of
//! the graph is freed once and after all uses (R7, R8), and a kernel whose
//! blocks spin runs beside no other (R14).

use std::collections::{HashMap, VecDeque};

use streamweir_trace::{BlockSync, BufferKind, NodeId, NodeKind, Phase, Trace};

use super::{Order, broken};
use crate::certificate::CertificateError;
use crate::rules::FREED_BY_LAUNCHER;

pub(super) fn check_nodes(trace: &Trace, order: &Order) -> Result<(), CertificateError> {
    check_memory(trace, order)?;
    let all = || (0..trace.nodes.len()).map(NodeId::at);
    let spins = |node: &NodeId| {
        let kind = &trace.node(*node).kind;
        matches!(kind, NodeKind::Kernel(kernel) if kernel.sync == BlockSync::Spin)
    };
    for spin in all().filter(spins) {
        let beside = all().find(|&other| {
            use NodeKind::{ChildGraph, Conditional, Kernel, Unknown};
            let kind = &trace.node(other).kind;
            matches!(kind, Kernel(_) | ChildGraph | Conditional | Unknown(_))
                && other != spin
                && !order.before(other, spin, Phase::BeforeWait)
                && !order.before(spin, other, Phase::BeforeWait)
        });
        if beside.is_some() {
            return Err(broken("R14", spin));
        }
    }
    Ok(())
}

fn check_memory(trace: &Trace, order: &Order) -> Result<(), CertificateError> {
    // The free nodes that no buffer claims, by address and in order.
    let mut open: HashMap<u64, VecDeque<NodeId>> = HashMap::new();
    let mut free_of: HashMap<NodeId, NodeId> = HashMap::new();
    let mut taken = vec![false; trace.nodes.len()];
    let mut named = vec![false; trace.nodes.len()];
    for buffer in &trace.buffers {
        let BufferKind::Graph { alloc, free } = buffer.kind else {
            continue;
        };
        named[alloc.index()] = true;
        if let Some(free) = free
            && matches!(trace.node(free).kind, NodeKind::MemFree(_))
            && !std::mem::replace(&mut taken[free.index()], true)
        {
            free_of.insert(alloc, free);
        }
    }
    let mut nodes: Vec<NodeId> = (0..trace.nodes.len()).map(NodeId::at).collect();
    nodes.sort_by_key(|node| order.rank[node.index()]);
    for &node in &nodes {
        match &trace.node(node).kind {
            NodeKind::MemFree(free) if free.at != 0 && !taken[node.index()] => {
                open.entry(free.at).or_default().push_back(node);
            }
            _ => {}
        }
    }
    let assumed = trace.assumptions.iter().any(|l| l == FREED_BY_LAUNCHER);
    for &node in &nodes {
        let NodeKind::MemAlloc(alloc) = &trace.node(node).kind else {
            continue;
        };
        if free_of.contains_key(&node) {
            continue;
        }
        let free = open.get_mut(&alloc.at).and_then(VecDeque::pop_front);
        match free {
            Some(free) => {
                free_of.insert(node, free);
            }
            None if (alloc.at != 0 || named[node.index()]) && !assumed => {
                return Err(broken("R7", node));
            }
            None => {}
        }
    }
    if let Some(&stray) = open.values().flatten().next() {
        return Err(broken("R8", stray));
    }
    for access in trace.accesses.iter().filter(|a| !a.bytes.is_empty()) {
        if let BufferKind::Graph { alloc, .. } = trace.buffer(access.buffer).kind
            && let Some(&free) = free_of.get(&alloc)
            && !order.before(access.node, free, Phase::BeforeWait)
        {
            return Err(broken("R8", access.node));
        }
    }
    Ok(())
}
