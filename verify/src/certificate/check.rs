//! The independent checker: validates a certificate against a trace, from the
//! definitions of DESIGN and HAZARDS alone, and as plainly as they allow.

mod nodes;
mod pairs;

use std::collections::{HashMap, HashSet};

use streamweir_trace::{
    Access, AccessMode, AllocNode, BufferId, BufferKind, ByteRange, EdgeKind, FreeNode, NodeId,
    NodeKind, PdlWait, Phase, Trace,
};

use crate::certificate::{Certificate, CertificateError, VERSION, digest, pointers_assumed};

use CertificateError as E;

/// The most clock entries that a certificate may ask for: 1 GiB of each kind.
const MAX_ENTRIES: usize = 1 << 28;

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
    let (declared, touched) = (touched(trace, false), touched(trace, true));
    check_protocol(trace)?;
    check_owners(trace, &order, &touched)?;
    nodes::check_nodes(trace, &order)?;
    pairs::check_pairs(trace, &order, &touched)?;
    check_reads(trace, &order, &declared)
}

fn broken(rule: &'static str, node: NodeId) -> CertificateError {
    E::NotEstablished { rule, node }
}

fn check_statements(trace: &Trace, certificate: &Certificate) -> Result<(), CertificateError> {
    let stats = &certificate.stats;
    let mut named: HashSet<NodeId> = HashSet::new();
    for buffer in &trace.buffers {
        if let BufferKind::Graph { alloc, free } = buffer.kind {
            named.extend(free.into_iter().chain([alloc]));
        }
    }
    let declared: HashSet<NodeId> = trace.accesses.iter().map(|access| access.node).collect();
    let unknown: Vec<NodeId> = (0..trace.nodes.len())
        .map(NodeId::at)
        .filter(|&node| {
            use NodeKind::{
                Empty, EventRecord, EventWait, Kernel, MemAlloc, MemFree, Memcpy, Memset,
            };
            let plain = match &trace.node(node).kind {
                Kernel(_) | Memcpy(_) | Memset(_) | Empty | EventWait | EventRecord => true,
                MemAlloc(AllocNode { at, .. }) | MemFree(FreeNode { at }) => {
                    *at != 0 || named.contains(&node)
                }
                _ => declared.contains(&node),
            };
            !plain || !trace.node(node).analysed
        })
        .collect();
    let mut assumed = trace.assumptions.clone();
    assumed.extend(pointers_assumed(trace.possible.len()));
    for (holds, what) in [
        (certificate.capture == trace.name, "name"),
        (stats.nodes == trace.nodes.len() as u64, "nodes"),
        (stats.edges == trace.edges.len() as u64, "edges"),
        (stats.streams == trace.streams.len() as u64, "streams"),
        (stats.accesses == trace.accesses.len() as u64, "accesses"),
        (certificate.assumptions == assumed, "assumptions"),
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
        if count.saturating_mul(chains.len()) > MAX_ENTRIES {
            return Err(E::TooWide(chains.len()));
        }
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
                    wait[chain] = wait[chain].max(ended);
                    let started = order.start[from][chain];
                    start[chain] = start[chain].max(if full { ended } else { started });
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
        (done == count).then_some(order).ok_or(E::Cycle)
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

/// The accesses of at least one byte, in device addresses, by first byte. One
/// that is only possible may be anything, unless its node declares those bytes.
fn touched(trace: &Trace, possible: bool) -> Vec<Access> {
    let mut all = trace.accesses.clone();
    if possible && !trace.possible.is_empty() {
        let mut declared: HashMap<(NodeId, BufferId), Vec<ByteRange>> = HashMap::new();
        for access in &trace.accesses {
            let of_node = declared.entry((access.node, access.buffer)).or_default();
            of_node.push(access.bytes);
        }
        declared
            .values_mut()
            .for_each(|ranges| ranges.sort_unstable());
        all.extend(trace.possible.iter().filter_map(|word| {
            let mut reached = word.bytes.start;
            for range in declared
                .get(&(word.node, word.buffer))
                .into_iter()
                .flatten()
            {
                if range.start <= reached {
                    reached = reached.max(range.end);
                }
            }
            let mode = AccessMode::ReadWrite;
            let access = Access::new(word.node, word.buffer, word.bytes, mode);
            (reached < word.bytes.end).then_some(access)
        }));
    }
    all.retain(|access| !access.bytes.is_empty());
    for access in &mut all {
        let base = trace.buffer(access.buffer).range.start;
        access.bytes = ByteRange::new(base + access.bytes.start, base + access.bytes.end);
    }
    all.sort_by_key(|access| access.bytes.start);
    all
}

fn check_protocol(trace: &Trace) -> Result<(), CertificateError> {
    if let Some(entry) = trace.protocol.first() {
        return Err(broken("R6", entry.node.unwrap_or_default()));
    }
    if let Some(access) = trace.unknown.iter().find(|access| !access.range.is_empty()) {
        return Err(broken("R3", access.node));
    }
    // A word that points outside of all buffers leaves R3 or R4 open.
    if let Some(word) = trace.stray.first() {
        return Err(broken("R3", word.node));
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
    if let Some(stream) = trace.streams[1..].iter().find(|s| !s.end.joined) {
        let last = stream.end.frontier.first().copied();
        return Err(broken("R6", last.unwrap_or_default()));
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
        if !std::mem::replace(&mut joined[node.index()], true) {
            open.append(&mut into[node.index()]);
        }
    }
    let lost = joined.iter().position(|joined| !joined);
    lost.map_or(Ok(()), |at| Err(broken("R6", NodeId::at(at))))
}

fn check_owners(trace: &Trace, order: &Order, all: &[Access]) -> Result<(), CertificateError> {
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
                let late = freed_before.is_some_and(|freed| node >= freed);
                if early || late || !alloc.frontier.iter().all(after) {
                    return Err(broken("R4", node));
                }
            }
            BufferKind::Workspace { stream } => {
                if trace.node(node).stream.is_some_and(|user| user != *stream) {
                    return Err(broken("R11", node));
                }
            }
            BufferKind::Graph { alloc, free } => {
                if !order.before(*alloc, node, touched.phase) {
                    return Err(broken("R4", node));
                }
                if free.is_some_and(|free| !order.before(node, free, Phase::BeforeWait)) {
                    return Err(broken("R8", node));
                }
            }
            BufferKind::Persistent => {}
        }
    }
    Ok(())
}

fn check_reads(trace: &Trace, order: &Order, all: &[Access]) -> Result<(), CertificateError> {
    let mut by_buffer: HashMap<BufferId, Vec<&Access>> = HashMap::new();
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
