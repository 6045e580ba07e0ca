//! The independent checker, in one file that can be read in one sitting.
//!
//! The order of the graph is computed along the sequence of nodes that the
//! certificate states, once the edges are seen to bear it out. Then the accesses
//! are played in that sequence over a map of the bytes. Each byte remembers the
//! accesses that a next one may have to follow; one is forgotten when a later one
//! that is ordered after it stands for it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use streamweir_trace::{
    Access, AccessMode, BlockSync, BufferId, BufferKind, ByteRange, EdgeKind, NodeId, NodeKind,
    Param, PdlWait, Phase, PossibleAccess, Trace,
};

use super::{Certificate, CertificateError as E, VERSION, digest};

/// The most clock entries that a certificate may ask for: 1 GiB for each phase.
const MAX_ENTRIES: usize = 1 << 28;

type Done = Result<(), E>;
type FreeOf = HashMap<NodeId, NodeId>;

/// Validates `certificate` against `trace`.
///
/// # Errors
/// What keeps the certificate from proving that this trace is safe.
pub fn check(trace: &Trace, certificate: &Certificate) -> Result<(), E> {
    let (version, certified) = (certificate.version, certificate.digest.clone());
    demand(version == VERSION, E::Version(version))?;
    trace.check().map_err(|e| E::Malformed(e.to_string()))?;
    let found = digest(trace);
    demand(certified == found, E::AnotherTrace { certified, found })?;
    let (stats, is) = (certificate.stats, |n: u64, len: usize| n == len as u64);
    for (holds, what) in [
        (certificate.capture == trace.name, "name"),
        (is(stats.nodes, trace.nodes.len()), "nodes"),
        (is(stats.edges, trace.edges.len()), "edges"),
        (is(stats.streams, trace.streams.len()), "streams"),
        (is(stats.accesses, trace.accesses.len()), "accesses"),
        (is(certificate.possible, trace.possible.len()), "words"),
        (certificate.assumptions == trace.assumptions, "assumptions"),
    ] {
        demand(holds, E::Misstated(what))?;
    }
    let order = Order::new(trace, &certificate.order)?;
    let free_of = check_nodes(trace, certificate, &order)?;
    check_bytes(trace, &order, &free_of)
}

fn demand(holds: bool, otherwise: E) -> Done {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn rule(rule: &'static str, node: impl Into<Option<NodeId>>, holds: bool) -> Done {
    let node = node.into();
    demand(holds, E::NotEstablished { rule, node })
}

/// What happens before what.
struct Order {
    /// By node: its place in the certificate's sequence.
    rank: Vec<usize>,
    /// By node: its chain, and how many nodes of it there are up to this one.
    place: Vec<(usize, u32)>,
    /// By phase and node: how many nodes of each chain have ended by then.
    ended: [Vec<Vec<u32>>; 2],
}

impl Order {
    fn new(trace: &Trace, nodes: &[(NodeId, u32)]) -> Result<Self, E> {
        let (count, chains) = (trace.nodes.len(), nodes.iter().map(|node| node.1));
        let width = chains.max().map_or(0, |last| last as usize + 1);
        let entries = count.saturating_mul(width);
        demand(entries <= MAX_ENTRIES, E::TooWide(width))?;
        let mut into = vec![Vec::new(); count];
        for edge in &trace.edges {
            into[edge.to.index()].push((edge.from.index(), edge.kind));
        }
        let (mut rank, mut place) = (vec![usize::MAX; count], vec![(0, 0); count]);
        let [mut start, mut wait] = [vec![Vec::new(); count], vec![Vec::new(); count]];
        let mut lengths = vec![0; width];
        for (here, &(node, own)) in nodes.iter().enumerate() {
            let (at, own) = (node.index(), own as usize);
            let new = at < count && rank[at] == usize::MAX;
            let follows = new && into[at].iter().all(|&(from, _)| rank[from] < here);
            demand(follows, E::Order(node))?;
            let (mut starts, mut waits) = (vec![0; width], vec![0; width]);
            // Without a declared wait a programmatic edge orders nothing.
            let deaf = trace.node(node).pdl == PdlWait::None;
            let orders = |kind: EdgeKind| kind == EdgeKind::Full || !deaf;
            for &(from, kind) in into[at].iter().filter(|edge| orders(edge.1)) {
                let early = kind == EdgeKind::Programmatic;
                for chain in 0..width {
                    let itself = u32::from(chain == place[from].0) * place[from].1;
                    let ended = itself.max(wait[from][chain]);
                    let started = if early { start[from][chain] } else { ended };
                    starts[chain] = started.max(starts[chain]);
                    waits[chain] = ended.max(waits[chain]);
                }
            }
            // A chain is one if this node ends after all that stand before it.
            demand(waits[own] == lengths[own], E::Order(node))?;
            lengths[own] += 1;
            (rank[at], place[at]) = (here, (own, lengths[own]));
            (start[at], wait[at]) = (starts, waits);
        }
        let left_out = rank.iter().position(|&rank| rank == usize::MAX);
        left_out.map_or(Ok(()), |at| Err(E::Order(NodeId::at(at))))?;
        let ended = [start, wait];
        Ok(Self { rank, place, ended })
    }

    /// Whether `first` has ended when `then` comes to this phase.
    fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (chain, count) = self.place[first.index()];
        count <= self.ended[phase as usize][then.index()][chain]
    }
}

/// What can be said node by node: R3, R6, R7, R14, that a free node has something
/// to free (R8), and that the certificate names what is not known (R10).
fn check_nodes(trace: &Trace, certificate: &Certificate, order: &Order) -> Result<FreeOf, E> {
    let outside = trace
        .unknown
        .iter()
        .filter(|access| !access.range.is_empty());
    let outside = outside.map(|access| access.node);
    for node in outside.chain(trace.stray.iter().map(|word| word.node)) {
        rule("R3", node, false)?;
    }
    let joined = trace.streams.iter().skip(1).all(|side| side.end.joined);
    rule("R6", None, joined && trace.protocol.is_empty())?;
    // All work leads to the end of the origin if no other node is a last one.
    let end = trace.streams.first().map(|origin| &origin.end.frontier);
    let end = end.filter(|end| !end.is_empty());
    let mut leads: HashSet<NodeId> = trace.edges.iter().map(|edge| edge.from).collect();
    leads.extend(end.into_iter().flatten());
    let declared: HashSet<NodeId> = trace.accesses.iter().map(|a| a.node).collect();
    let said: HashSet<&NodeId> = certificate.not_analysed.iter().collect();
    let (mut free_of, mut named, mut taken) = (FreeOf::new(), HashSet::new(), HashSet::new());
    for buffer in &trace.buffers {
        if let BufferKind::Graph { alloc, free } = buffer.kind {
            named.extend(free.into_iter().chain([alloc]));
            let frees = |free: &NodeId| matches!(trace.node(*free).kind, NodeKind::MemFree(_));
            let free = free.filter(|free| frees(free) && taken.insert(*free));
            free_of.extend(free.map(|free| (alloc, free)));
        }
    }
    // The others belong together by address, the first free to the first.
    let mut held: HashMap<u64, VecDeque<NodeId>> = HashMap::new();
    let mut device = Vec::new();
    for &(id, _) in &certificate.order {
        rule("R6", id, end.is_none() || leads.contains(&id))?;
        // Whether it is known what the node does, and how it takes the device.
        use {AccessMode::*, NodeKind::*};
        let (known, runs) = match &trace.node(id).kind {
            Kernel(kernel) => {
                let lost = |p: &&Param| p.pointer.is_some_and(|to| to.buffer.is_none());
                let mut lost = kernel.params.iter().filter(lost);
                rule("R3", id, lost.all(|param| param.bytes[..] == [0; 8]))?;
                let spins = kernel.sync == BlockSync::Spin;
                (true, Some(if spins { Write } else { Read }))
            }
            MemAlloc(alloc) => {
                let known = alloc.at != 0 || named.contains(&id);
                let new = (known && !free_of.contains_key(&id)).then_some(id);
                held.entry(alloc.at).or_default().extend(new);
                (known, None)
            }
            MemFree(free) => {
                if free.at != 0 && !taken.contains(&id) {
                    let alloc = held.get_mut(&free.at).and_then(VecDeque::pop_front);
                    rule("R8", id, alloc.is_some())?;
                    free_of.extend(alloc.map(|alloc| (alloc, id)));
                }
                (free.at != 0 || named.contains(&id), None)
            }
            Memcpy(_) | Memset(_) | Empty | EventWait | EventRecord => (true, None),
            ChildGraph | Conditional | Unknown(_) => (false, Some(Read)),
            _ => (false, None),
        };
        let silent = trace.node(id).analysed && (known || declared.contains(&id));
        let misstated = E::Misstated("unanalysed nodes");
        demand(said.contains(&id) != silent, misstated)?;
        // A kernel whose blocks spin is ordered with every other, as if it wrote
        // at its start what they read at theirs.
        if let Some(mode) = runs {
            let mut start = Access::new(id, BufferId(0), ByteRange::default(), mode);
            start.phase = Phase::BeforeWait;
            rule("R14", id, follow(&mut device, order, &start).is_ok())?;
        }
    }
    let mut assumed = trace.assumptions.iter();
    if !assumed.any(|line| line == crate::FREED_BY_LAUNCHER) {
        held.values()
            .flatten()
            .try_for_each(|&held| rule("R7", held, false))?;
    }
    Ok(free_of)
}

/// R4, R8, R11: the memory is there for the node, and for its stream.
fn check_owner(trace: &Trace, order: &Order, free_of: &FreeOf, access: &Access) -> Done {
    let (id, stream) = (access.node, trace.node(access.node).stream);
    let follows = |first: &NodeId| order.before(*first, id, access.phase);
    let ends = |free: &NodeId| order.before(id, *free, Phase::BeforeWait);
    match &trace.buffer(access.buffer).kind {
        BufferKind::Scratch {
            alloc,
            freed_before: freed,
            ..
        } => {
            let taken = id >= alloc.before || !alloc.frontier.is_empty();
            let held = taken && freed.is_none_or(|freed| id < freed);
            rule("R4", id, held && alloc.frontier.iter().all(follows))
        }
        BufferKind::Graph { alloc, .. } => {
            rule("R4", id, follows(alloc))?;
            rule("R8", id, free_of.get(alloc).is_none_or(ends))
        }
        BufferKind::Workspace { stream: own } => {
            rule("R11", id, stream.is_none_or(|user| user == *own))
        }
        BufferKind::Persistent => Ok(()),
    }
}

/// Adds an access to those that a next one may have to follow, if it is ordered
/// after each that it conflicts with (R1, R2).
fn follow(latest: &mut Vec<Access>, order: &Order, next: &Access) -> Done {
    let ordered = |old: &Access| order.before(old.node, next.node, next.phase);
    for old in latest.iter() {
        let same = old.buffer == next.buffer;
        let conflict = old.mode.conflicts(next.mode) || !same && next.mode.writes();
        let fine = !conflict || ordered(old) || same && old.node == next.node;
        rule(if same { "R1" } else { "R2" }, next.node, fine)?;
    }
    // What must follow the old one must follow this one too, which ends later.
    latest.retain(|old| {
        let same = old.buffer == next.buffer;
        let alike = !old.mode.conflicts(next.mode) && (same || !next.mode.writes());
        let stands_for = alike || matches!(next.mode, AccessMode::Write | AccessMode::ReadWrite);
        !(stands_for && (ordered(old) || same && old.node == next.node))
    });
    let bytes = ByteRange::default();
    latest.push(Access::new(next.node, next.buffer, bytes, next.mode));
    Ok(())
}

/// What has happened to a run of bytes.
#[derive(Clone, Default, PartialEq)]
struct Seen {
    latest: Vec<Access>,
    /// The buffer whose declared write came last.
    written: Option<BufferId>,
    /// The buffers that were here, and whether they wrote. One that is done, and
    /// that none before it will follow, is left out unless the bytes are carried.
    tenants: Vec<(BufferId, bool)>,
    carried: bool,
}

/// R1, R2, R13, and of each access R4, R8 and R11.
fn check_bytes(trace: &Trace, order: &Order, free_of: &FreeOf) -> Done {
    let word = |w: &PossibleAccess| Access::new(w.node, w.buffer, w.bytes, AccessMode::ReadWrite);
    let words = trace.possible.iter().map(|w| (word(w), false));
    let declared = trace.accesses.iter().map(|access| (*access, true));
    let mut all: Vec<_> = declared.chain(words).collect();
    all.retain(|(access, _)| !access.bytes.is_empty());
    all.sort_by_key(|(a, declared)| (order.rank[a.node.index()], !declared, a.phase));
    let mut last = vec![0; trace.buffers.len()];
    for (access, _) in &mut all {
        check_owner(trace, order, free_of, access)?;
        let base = trace.buffer(access.buffer).range.start;
        access.bytes = ByteRange::new(base + access.bytes.start, base + access.bytes.end);
        last[access.buffer.index()] = order.rank[access.node.index()];
    }
    let (mut map, mut turns) = (Bytes::default(), HashSet::new());
    let carried = |id: BufferId| trace.buffer(id).carried;
    let buffers = || (0..trace.buffers.len()).map(BufferId::at);
    for id in buffers().filter(|id| carried(*id)) {
        map.each(trace.buffer(id).range, |seen| {
            seen.carried = true;
            Ok(())
        })?;
    }
    // The buffers that came after one which will still be in use when they are done.
    let mut awaited = HashSet::new();
    for of_node in all.chunk_by(|a, b| (a.0.node, a.1) == (b.0.node, b.1)) {
        // A read needs what earlier nodes have left. A word says nothing if its
        // node declares all of those bytes.
        let mut said = vec![false; of_node.len()];
        for (said, (access, declared)) in said.iter_mut().zip(of_node) {
            let (node, id) = (access.node, access.buffer);
            let scratch = matches!(trace.buffer(id).kind, BufferKind::Scratch { .. });
            if *declared && access.mode.reads() && scratch && !carried(id) {
                let filled = |seen: &mut Seen| rule("R13", node, seen.written == Some(id));
                map.each(access.bytes, filled)?;
            }
            let own = |old: &Access| (old.node, old.buffer) == (node, id);
            let own = |seen: &mut Seen| rule("R2", node, seen.latest.iter().any(own));
            *said = !declared && map.each(access.bytes, own).is_ok();
        }
        for (&(next, declared), _) in of_node.iter().zip(said).filter(|of| !of.1) {
            let (id, writes) = (next.buffer, next.mode.writes());
            let here = order.rank[next.node.index()];
            map.each(next.bytes, |seen| {
                follow(&mut seen.latest, order, &next)?;
                if declared && writes {
                    seen.written = Some(id);
                }
                let wrote = writes || seen.tenants.contains(&(id, true));
                let shared = seen.carried;
                let busy = |id: BufferId| last[id.index()] >= here || awaited.contains(&id);
                seen.tenants.retain(|t| t.0 != id && (shared || busy(t.0)));
                for &(other, wrote) in seen.tenants.iter().filter(|other| writes || other.1) {
                    let spoilt = carried(other) && writes;
                    let stale = carried(id) && wrote && next.mode.reads();
                    let back = turns.contains(&(id, other));
                    rule("R2", next.node, !spoilt && !stale && !back)?;
                    turns.insert((other, id));
                    awaited.extend((last[other.index()] > last[id.index()]).then_some(id));
                }
                seen.tenants.push((id, wrote));
                Ok(())
            })?;
        }
    }
    // Nothing else writes what a buffer carries and no access of it touches.
    for id in buffers().filter(|id| carried(*id)) {
        map.each(trace.buffer(id).range, |seen| {
            let mut others = seen.tenants.iter().filter(|tenant| tenant.1);
            let here = seen.tenants.iter().any(|tenant| tenant.0 == id);
            rule("R2", None, here || others.next().is_none())
        })?;
    }
    Ok(())
}

/// What is known of each byte, by the first of each run that is alike.
#[derive(Default)]
struct Bytes(BTreeMap<u64, Seen>);

impl Bytes {
    fn each(&mut self, bytes: ByteRange, mut f: impl FnMut(&mut Seen) -> Done) -> Done {
        for at in [bytes.start, bytes.end] {
            let run = self.0.range(..=at).next_back();
            let seen = run.map(|run| run.1.clone()).unwrap_or_default();
            self.0.entry(at).or_insert(seen);
        }
        let (mut last, mut joined) = (None, Vec::new());
        for (&at, seen) in self.0.range_mut(bytes.start..bytes.end) {
            f(seen)?;
            let seen = Some(&*seen);
            joined.extend((last == seen).then_some(at));
            last = seen;
        }
        joined.iter().for_each(|at| drop(self.0.remove(at)));
        Ok(())
    }
}
