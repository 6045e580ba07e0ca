//! The independent checker.
//!
//! The order of the graph is computed along the sequence of nodes that the
//! certificate states, once the edges are seen to bear it out ([`order`]). What
//! the graph frees is told from what it allocates ([`frees`]). Here is a function
//! for each rule that is decided node by node. Then all accesses are gathered, with
//! what the nodes show ([`table`]), and played over the bytes ([`bytes`]).
//!
//! | rule | where |
//! | --- | --- |
//! | R3, R6, R7, R8, R10, R14 of nodes | here, a function each |
//! | R8: which free node gives back what | [`frees`] |
//! | R3 and R4 of operands and words | [`table`] |
//! | R1, R2, R3, R4, R8, R11, R13 of accesses | [`bytes`], a function each |
//!
//! Nothing here is shared with the verifier. These files are to be read in one
//! sitting, in this order. A third of them is the table: what a node shows is told
//! from the trace once more, since a mistake of the verifier there would otherwise
//! be believed here.

mod bytes;
mod frees;
mod order;
mod table;

use std::collections::HashSet;

use streamweir_trace::{
    Access, AccessMode, BlockSync, BufferId, ByteRange, Node, NodeId, NodeKind, Phase, Trace,
    TraceError, Unfreed,
};

use self::bytes::{Run, Touch, Turns, accesses};
use self::frees::GraphMemory;
use self::order::{Checked, Order, demand, nodes, rule};
use self::table::{Memory, table, unnamed};
use super::about::About;
use super::error::CertificateError as Refusal;
use super::form::Certificate;
use super::version::VERSION;

/// Validates `proof` against `trace`.
///
/// # Errors
/// What keeps the certificate from proving that this trace is safe.
pub fn check(trace: &Trace, proof: &Certificate) -> Result<(), Refusal> {
    demand(proof.version == VERSION, Refusal::Version(proof.version))?;
    let malformed = |error: TraceError| Refusal::Malformed(error.to_string());
    trace.check().map_err(malformed)?;
    let found = About::of(trace);
    demand(proof.about == found, Refusal::another(&proof.about, &found))?;
    let order = Order::new(trace, &proof.order)?;
    let memory = GraphMemory::new(trace, proof, &order)?;
    unknown_memory(trace)?;
    protocol(trace)?;
    not_relaunchable(trace, &memory)?;
    freed_without_cause(trace, &memory)?;
    not_analysed(trace, proof, &memory)?;
    co_residency(trace, proof, &order)?;
    let made = unnamed(trace);
    let entries = table(trace, &made)?;
    let turns = Turns::new(proof, &entries)?;
    let buffers = Memory { trace, made: &made };
    accesses(&buffers, &order, &memory, &turns, entries)
}

/// R3: nothing is in unknown memory.
fn unknown_memory(trace: &Trace) -> Checked {
    let inside = trace.unknown.iter().all(|access| access.range.is_empty());
    rule("R3", None, inside && trace.stray.is_empty())?;
    for (id, node) in nodes(trace) {
        let NodeKind::Kernel(kernel) = &node.kind else {
            continue;
        };
        for param in &kernel.params {
            for (at, to) in param.pointers() {
                // A null pointer refers to nothing.
                rule("R3", id, to.buffer.is_some() || param.word(at) == Some(0))?;
            }
        }
    }
    Ok(())
}

/// R6: all work leads to where the origin stands at the end.
fn protocol(trace: &Trace) -> Checked {
    let joined = trace.streams.iter().skip(1).all(|side| side.end.joined);
    rule("R6", None, joined && trace.protocol.is_empty())?;
    let end = match trace.streams.first() {
        Some(origin) if !origin.end.frontier.is_empty() => &origin.end.frontier,
        _ => return Ok(()),
    };
    // So it does if no node outside that end is a last one.
    let inner = trace.edges.iter().map(|edge| edge.from);
    let leads: HashSet<NodeId> = inner.chain(end.iter().copied()).collect();
    nodes(trace).try_for_each(|(id, _)| rule("R6", id, leads.contains(&id)))
}

/// R7: what the graph allocates it frees, where the address is known (R10).
fn not_relaunchable(trace: &Trace, memory: &GraphMemory) -> Checked {
    let left = trace.unfreed == Unfreed::FreedByLauncher;
    nodes(trace).try_for_each(|(id, node)| match &node.kind {
        NodeKind::MemAlloc(alloc) => {
            let unknown = alloc.at == 0 && !memory.named.contains(&id);
            rule(
                "R7",
                id,
                unknown || left || memory.free_of.contains_key(&id),
            )
        }
        _ => Ok(()),
    })
}

/// R8: what the graph frees it allocates.
fn freed_without_cause(trace: &Trace, memory: &GraphMemory) -> Checked {
    nodes(trace).try_for_each(|(id, node)| match &node.kind {
        NodeKind::MemFree(free) => rule("R8", id, free.at == 0 || memory.freeing.contains(&id)),
        _ => Ok(()),
    })
}

/// R10: the certificate names exactly the nodes of which nothing is known, each
/// once.
fn not_analysed(trace: &Trace, proof: &Certificate, memory: &GraphMemory) -> Checked {
    let declared: HashSet<NodeId> = trace.accesses.iter().map(|access| access.node).collect();
    let analysed = |id: NodeId, node: &Node| {
        use NodeKind::*;
        let known = match &node.kind {
            Kernel(_) | Empty | EventWait | EventRecord => true,
            // An operand of zero is one that is not known.
            Memcpy(copy) => copy.to != 0 && copy.from != 0,
            Memset(fill) => fill.to != 0,
            MemAlloc(alloc) => alloc.at != 0 || memory.named.contains(&id),
            MemFree(free) => free.at != 0 || memory.named.contains(&id),
            Host | ChildGraph | BatchMemOp | Conditional => false,
            SemaphoreSignal | SemaphoreWait | Unknown(_) => false,
        };
        node.analysed && (known || declared.contains(&id))
    };
    let unknown = nodes(trace).filter(|(id, node)| !analysed(*id, node));
    let mut unknown: HashSet<NodeId> = unknown.map(|(id, _)| id).collect();
    let each_once = proof.not_analysed.iter().all(|id| unknown.remove(id));
    let exact = each_once && unknown.is_empty();
    demand(exact, Refusal::Misstated("not_analysed"))
}

/// R14: no kernel runs beside one whose blocks spin on each other. The device is
/// as if it were a byte that each kernel reads when it starts, and that a
/// spinning one writes.
fn co_residency(trace: &Trace, proof: &Certificate, order: &Order) -> Checked {
    let mut device = Run::default();
    for &(node, _) in &proof.order {
        use NodeKind::*;
        let mode = match &trace.node(node).kind {
            Kernel(kernel) if kernel.sync == BlockSync::Spin => AccessMode::Write,
            Kernel(_) | ChildGraph | Conditional | Unknown(_) => AccessMode::Read,
            _ => continue,
        };
        let mut access = Access::new(node, BufferId(0), ByteRange::default(), mode);
        access.phase = Phase::BeforeWait;
        let start = Touch {
            access,
            declared: true,
        };
        rule("R14", node, device.follow(order, start).is_ok())?;
    }
    Ok(())
}
