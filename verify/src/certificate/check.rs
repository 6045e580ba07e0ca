//! The independent checker: validates a certificate against a trace, from the
//! definitions of DESIGN and HAZARDS alone, and as plainly as they allow.

use std::collections::HashMap;

use streamweir_trace::{
    AccessMode, BufferId, BufferKind, ByteRange, EdgeKind, NodeId, NodeKind, PdlWait, Phase, Trace,
};

use crate::certificate::{Certificate, CertificateError, VERSION, digest};

use CertificateError as E;

/// Validates `certificate` against `trace`.
///
/// # Errors
/// What keeps the certificate from proving that this trace is safe.
pub fn check(trace: &Trace, certificate: &Certificate) -> Result<(), CertificateError> {
    if certificate.version != VERSION {
        return Err(E::Version(certificate.version));
    }
    crate::error::check_form(trace).map_err(|error| E::Malformed(error.to_string()))?;
    let found = digest(trace);
    if certificate.digest != found {
        let certified = certificate.digest.clone();
        return Err(E::AnotherTrace { certified, found });
    }
    check_statements(trace, certificate)?;
    let order = Order::new(trace, &certificate.chains)?;
    let touched = touched(trace);
    check_protocol(trace)?;
    check_owners(trace, &order, &touched)?;
    check_pairs(trace, &order, &touched)?;
    check_reads(trace, &order, &touched)
}

fn broken(rule: &'static str, node: NodeId) -> CertificateError {
    E::NotEstablished { rule, node }
}

fn check_statements(trace: &Trace, certificate: &Certificate) -> Result<(), CertificateError> {
    let stats = &certificate.stats;
    let silent = |at: usize| {
        !trace
            .accesses
            .iter()
            .any(|access| access.node.index() == at)
    };
    let unknown: Vec<NodeId> = (0..trace.nodes.len())
        .filter(|&at| {
            let node = &trace.nodes[at];
            let plain = matches!(
                node.kind,
                NodeKind::Kernel(_)
                    | NodeKind::Memcpy(_)
                    | NodeKind::Memset(_)
                    | NodeKind::Empty
                    | NodeKind::EventWait
                    | NodeKind::EventRecord
            );
            !node.analysed || (!plain && silent(at))
        })
        .map(NodeId::at)
        .collect();
    for (holds, what) in [
        (certificate.capture == trace.name, "name"),
        (stats.nodes == trace.nodes.len() as u64, "nodes"),
        (stats.edges == trace.edges.len() as u64, "edges"),
        (stats.streams == trace.streams.len() as u64, "streams"),
        (stats.accesses == trace.accesses.len() as u64, "accesses"),
        (certificate.assumptions == trace.assumptions, "assumptions"),
        (certificate.not_analysed == unknown, "unanalysed nodes"),
    ] {
        if !holds {
            return Err(E::Misstated(what));
        }
    }
    Ok(())
}

/// For each node and chain, how many nodes of the chain have ended before the
/// node starts, and before its wait returns.
struct Order {
    place: Vec<(usize, u32)>,
    rank: Vec<usize>,
    start: Vec<Vec<u32>>,
    wait: Vec<Vec<u32>>,
}

impl Order {
    fn new(trace: &Trace, chains: &[Vec<NodeId>]) -> Result<Self, CertificateError> {
        let count = trace.nodes.len();
        let mut place = vec![(usize::MAX, 0); count];
        for (chain, members) in chains.iter().enumerate() {
            for (index, &node) in (0..).zip(members) {
                match place.get_mut(node.index()) {
                    Some(slot) if slot.0 == usize::MAX => *slot = (chain, index),
                    _ => return Err(E::Chains(node)),
                }
            }
        }
        if let Some(at) = place.iter().position(|&(chain, _)| chain == usize::MAX) {
            return Err(E::Chains(NodeId::at(at)));
        }
        let mut into: Vec<Vec<(usize, EdgeKind)>> = vec![Vec::new(); count];
        let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
        for edge in &trace.edges {
            into[edge.to.index()].push((edge.from.index(), edge.kind));
            out[edge.from.index()].push(edge.to.index());
        }
        let mut left: Vec<usize> = into.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..count).filter(|&at| left[at] == 0).collect();
        let zero = vec![0; chains.len()];
        let mut order = Self {
            place,
            rank: vec![0; count],
            start: vec![Vec::new(); count],
            wait: vec![Vec::new(); count],
        };
        let mut done = 0;
        while let Some(at) = ready.pop() {
            let (mut start, mut wait) = (zero.clone(), zero.clone());
            let waits = trace.nodes[at].pdl == PdlWait::OnAllPaths;
            for &(from, kind) in &into[at] {
                let (own, index) = order.place[from];
                let full = kind == EdgeKind::Full;
                if !full && !waits {
                    continue;
                }
                for chain in 0..chains.len() {
                    let ended = order.wait[from][chain].max(u32::from(chain == own) * (index + 1));
                    let at_start = if full {
                        ended
                    } else {
                        order.start[from][chain]
                    };
                    start[chain] = start[chain].max(at_start);
                    wait[chain] = wait[chain].max(ended);
                }
            }
            // One number per chain is only as good as the chain: this node
            // must end after the one before it.
            let (chain, index) = order.place[at];
            if wait[chain] != index {
                return Err(E::Chains(NodeId::at(at)));
            }
            (order.start[at], order.wait[at]) = (start, wait);
            order.rank[at] = done;
            done += 1;
            for &next in &out[at] {
                left[next] -= 1;
                if left[next] == 0 {
                    ready.push(next);
                }
            }
        }
        if done == count {
            Ok(order)
        } else {
            Err(E::Cycle)
        }
    }

    fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (chain, index) = self.place[first.index()];
        let clock = match phase {
            Phase::BeforeWait => &self.start[then.index()],
            Phase::AfterWait => &self.wait[then.index()],
        };
        index < clock[chain]
    }
}

struct Touched {
    node: NodeId,
    buffer: BufferId,
    bytes: ByteRange,
    mode: AccessMode,
    phase: Phase,
}

fn touched(trace: &Trace) -> Vec<Touched> {
    let mut all: Vec<Touched> = trace
        .accesses
        .iter()
        .map(|access| {
            let base = trace.buffer(access.buffer).range.start;
            Touched {
                node: access.node,
                buffer: access.buffer,
                bytes: ByteRange::new(base + access.bytes.start, base + access.bytes.end),
                mode: access.mode,
                phase: access.phase,
            }
        })
        .filter(|touched| !touched.bytes.is_empty())
        .collect();
    all.sort_by_key(|touched| touched.bytes.start);
    all
}

fn check_protocol(trace: &Trace) -> Result<(), CertificateError> {
    if let Some(entry) = trace.protocol.first() {
        return Err(broken("R6", entry.node.unwrap_or_default()));
    }
    if let Some(access) = trace.unknown.iter().find(|access| !access.range.is_empty()) {
        return Err(broken("R3", access.node));
    }
    for (at, node) in trace.nodes.iter().enumerate() {
        let NodeKind::Kernel(kernel) = &node.kind else {
            continue;
        };
        let stray = |p: &streamweir_trace::Param| {
            p.pointer.is_some_and(|t| t.buffer.is_none()) && p.bytes[..] != [0; 8]
        };
        if kernel.params.iter().any(stray) {
            return Err(broken("R3", NodeId::at(at)));
        }
    }
    let Some(origin) = trace.streams.first() else {
        return Ok(());
    };
    for stream in &trace.streams[1..] {
        if !stream.end.joined {
            return Err(broken(
                "R6",
                stream.end.frontier.first().copied().unwrap_or_default(),
            ));
        }
    }
    if origin.end.frontier.is_empty() {
        return Ok(());
    }
    // Walk the edges backwards from the end of the origin.
    let mut into: Vec<Vec<NodeId>> = vec![Vec::new(); trace.nodes.len()];
    for edge in &trace.edges {
        into[edge.to.index()].push(edge.from);
    }
    let mut joined = vec![false; trace.nodes.len()];
    let mut open = origin.end.frontier.clone();
    while let Some(node) = open.pop() {
        if !joined[node.index()] {
            joined[node.index()] = true;
            open.append(&mut into[node.index()]);
        }
    }
    match joined.iter().position(|joined| !joined) {
        Some(at) => Err(broken("R6", NodeId::at(at))),
        None => Ok(()),
    }
}

fn check_owners(trace: &Trace, order: &Order, all: &[Touched]) -> Result<(), CertificateError> {
    for touched in all {
        let node = touched.node;
        match &trace.buffer(touched.buffer).kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => {
                let after = |&f: &NodeId| order.before(f, node, touched.phase);
                let early = alloc.frontier.is_empty() && node < alloc.before;
                if early
                    || !alloc.frontier.iter().all(after)
                    || freed_before.is_some_and(|f| node >= f)
                {
                    return Err(broken("R4", node));
                }
            }
            BufferKind::Workspace { stream } => {
                if trace.node(node).stream.is_some_and(|user| user != *stream) {
                    return Err(broken("R11", node));
                }
            }
            BufferKind::Persistent => {}
        }
    }
    Ok(())
}

fn check_pairs(trace: &Trace, order: &Order, all: &[Touched]) -> Result<(), CertificateError> {
    let mut leader: HashMap<(BufferId, BufferId), BufferId> = HashMap::new();
    let mut open: Vec<&Touched> = Vec::new();
    for b in all {
        open.retain(|a| a.bytes.end > b.bytes.start);
        for &a in &open {
            let (first, then) = if order.rank[a.node.index()] < order.rank[b.node.index()] {
                (a, b)
            } else {
                (b, a)
            };
            let ordered = order.before(first.node, then.node, then.phase);
            if a.buffer == b.buffer {
                if a.node != b.node && a.mode.conflicts(b.mode) && !ordered {
                    return Err(broken("R1", then.node));
                }
                continue;
            }
            if !a.mode.writes() && !b.mode.writes() {
                continue;
            }
            let keeps = |owner: &Touched| trace.buffer(owner.buffer).carried;
            let spoils = keeps(first) && then.mode.writes()
                || keeps(then) && first.mode.writes() && then.mode.reads();
            let pair = (a.buffer.min(b.buffer), a.buffer.max(b.buffer));
            let one_way = *leader.entry(pair).or_insert(first.buffer) == first.buffer;
            if !ordered || spoils || !one_way {
                return Err(broken("R2", then.node));
            }
        }
        open.push(b);
    }
    Ok(())
}

fn check_reads(trace: &Trace, order: &Order, all: &[Touched]) -> Result<(), CertificateError> {
    let mut by_buffer: HashMap<BufferId, Vec<&Touched>> = HashMap::new();
    for touched in all {
        let buffer = trace.buffer(touched.buffer);
        if matches!(buffer.kind, BufferKind::Scratch { .. }) && !buffer.carried {
            by_buffer.entry(touched.buffer).or_default().push(touched);
        }
    }
    for touches in by_buffer.values() {
        for read in touches.iter().filter(|touched| touched.mode.reads()) {
            // The accesses are sorted by first byte, so coverage grows upwards.
            let mut reached = read.bytes.start;
            for write in touches.iter().filter(|touched| touched.mode.writes()) {
                if write.bytes.start <= reached && order.before(write.node, read.node, read.phase) {
                    reached = reached.max(write.bytes.end);
                }
            }
            if reached < read.bytes.end {
                return Err(broken("R13", read.node));
            }
        }
    }
    Ok(())
}
