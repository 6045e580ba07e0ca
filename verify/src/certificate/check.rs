//! The independent checker, in one file that can be read in one sitting.
//!
//! The order of the graph is computed along the sequence of nodes that the
//! certificate states, once the edges are seen to bear it out. Then the accesses
//! are played in it over a map of the bytes. Each byte remembers those that a next
//! one may have to follow; one is forgotten when a later one that is ordered after
//! it stands for it. To each byte the buffers must come in their turns.

use std::collections::{BTreeMap, HashMap, HashSet};

use streamweir_trace::{
    Access, AccessMode, BlockSync, BufferId, BufferKind, ByteRange, EdgeKind, NodeId, NodeKind,
    Param, PdlWait, Phase, PossibleAccess, Trace,
};

use super::{About, Certificate, CertificateError as E, FREED_BY_LAUNCHER, VERSION};

type Done = Result<(), E>;
type Bytes = BTreeMap<u64, Seen>;
type FreeOf = BTreeMap<NodeId, NodeId>;

/// Validates `proof` against `trace`.
///
/// # Errors
/// What keeps the certificate from proving that this trace is safe.
pub fn check(trace: &Trace, proof: &Certificate) -> Result<(), E> {
    demand(proof.version == VERSION, E::Version(proof.version))?;
    trace.check().map_err(|e| E::Malformed(e.to_string()))?;
    let found = About::of(trace);
    demand(proof.about == found, E::another(&proof.about, &found))?;
    let order = Order::new(trace, &proof.order)?;
    let free_of = check_nodes(trace, proof, &order)?;
    check_bytes(trace, proof, &order, &free_of)
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
    /// By node: its place in the sequence, its chain and its number in the chain.
    place: Vec<(usize, usize, u32)>,
    /// By start or end, node and chain: how many of the chain have ended by then.
    ended: [Vec<Vec<u32>>; 2],
}

impl Order {
    fn new(trace: &Trace, nodes: &[(NodeId, u32)]) -> Result<Self, E> {
        let count = trace.nodes.len();
        let width = nodes.iter().map(|n| n.1 as usize + 1).max().unwrap_or(0);
        // No certificate may ask for more than 2 GiB of clocks.
        demand(count.saturating_mul(width) <= 1 << 28, E::TooWide(width))?;
        demand(nodes.len() == count, E::Misstated("order"))?;
        let mut place = vec![(usize::MAX, 0, 0); count];
        let mut ended = [0, 1].map(|_| vec![Vec::<u32>::new(); count]);
        let mut lengths = vec![0; width];
        let mut edges = trace.edges.clone();
        edges.sort_by_key(|edge| edge.to);
        for (here, &(node, own)) in nodes.iter().enumerate() {
            let (at, own) = (node.index(), own as usize);
            let new = place.get(at).is_some_and(|old| old.0 == usize::MAX);
            demand(new, E::Order(node))?;
            let (mut start, mut end) = (vec![0; width], vec![0; width]);
            let first = edges.partition_point(|edge| edge.to < node);
            for edge in edges[first..].iter().take_while(|edge| edge.to == node) {
                let from = edge.from.index();
                demand(place[from].0 < here, E::Order(node))?;
                let early = edge.kind == EdgeKind::Programmatic;
                // Without a declared wait a programmatic edge orders nothing.
                let orders = !early || trace.node(node).pdl != PdlWait::None;
                for chain in (0..width).filter(|_| orders) {
                    let begun = ended[usize::from(!early)][from][chain];
                    start[chain] = start[chain].max(begun);
                    end[chain] = end[chain].max(ended[1][from][chain]);
                }
            }
            // A chain is one if this node ends after all that stand before it.
            demand(end[own] == lengths[own], E::Order(node))?;
            lengths[own] += 1;
            end[own] = lengths[own];
            place[at] = (here, own, lengths[own]);
            (ended[0][at], ended[1][at]) = (start, end);
        }
        Ok(Self { place, ended })
    }

    /// Whether `first` has ended when `then`, another node, comes to this phase.
    fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (_, chain, count) = self.place[first.index()];
        first != then && count <= self.ended[phase as usize][then.index()][chain]
    }
}

/// What can be said node by node: R3, R6, R7, R14, that each free node has
/// something to free (R8), and that the certificate names what is not known (R10).
fn check_nodes(trace: &Trace, proof: &Certificate, order: &Order) -> Result<FreeOf, E> {
    use {AccessMode::*, NodeKind::*};
    let inside = trace.unknown.iter().all(|a| a.range.is_empty());
    rule("R3", None, inside && trace.stray.is_empty())?;
    let joined = trace.streams.iter().skip(1).all(|side| side.end.joined);
    rule("R6", None, joined && trace.protocol.is_empty())?;
    // All work leads to the end of the origin if no other node is a last one.
    let end = trace.streams.first().map(|origin| &origin.end.frontier);
    let end = end.filter(|end| !end.is_empty());
    let inner = trace.edges.iter().map(|edge| edge.from);
    let leads: HashSet<_> = inner.chain(end.into_iter().flatten().copied()).collect();
    let declared: HashSet<_> = trace.accesses.iter().map(|access| access.node).collect();
    let said: HashSet<&NodeId> = proof.not_analysed.iter().collect();
    let (mut free_of, mut named, mut taken) = (FreeOf::new(), HashSet::new(), HashSet::new());
    for buffer in &trace.buffers {
        if let BufferKind::Graph { alloc, free } = buffer.kind {
            named.extend(free.into_iter().chain([alloc]));
            free_of.extend(free.map(|free| (alloc, free)));
        }
    }
    for &(alloc, free) in &proof.freed {
        let kind = |id: NodeId| trace.nodes.get(id.index()).map(|node| &node.kind);
        let alike = matches!((kind(alloc), kind(free)),
            (Some(MemAlloc(alloc)), Some(MemFree(free))) if free.at == alloc.at && free.at != 0);
        rule("R8", free, alike && free_of.insert(alloc, free).is_none())?;
    }
    for (&alloc, &free) in &free_of {
        let follows = order.before(alloc, free, Phase::BeforeWait);
        rule("R8", free, follows && taken.insert(free))?;
    }
    let left = trace.assumptions.iter().any(|a| a == FREED_BY_LAUNCHER);
    let mut device = Vec::new();
    for &(id, _) in &proof.order {
        rule("R6", id, end.is_none() || leads.contains(&id))?;
        // Whether it is known what the node does, and how it takes the device.
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
                rule("R7", id, !known || left || free_of.contains_key(&id))?;
                (known, None)
            }
            MemFree(free) => {
                rule("R8", id, free.at == 0 || taken.contains(&id))?;
                (free.at != 0 || named.contains(&id), None)
            }
            Memcpy(_) | Memset(_) | Empty | EventWait | EventRecord => (true, None),
            ChildGraph | Conditional | Unknown(_) => (false, Some(Read)),
            _ => (false, None),
        };
        let silent = trace.node(id).analysed && (known || declared.contains(&id));
        demand(said.contains(&id) != silent, E::Misstated("not_analysed"))?;
        // A spinning kernel is as if it wrote at its start what others read at theirs.
        if let Some(mode) = runs {
            let mut start = Access::new(id, BufferId(0), ByteRange::default(), mode);
            start.phase = Phase::BeforeWait;
            rule("R14", id, follow(&mut device, order, start, true).is_ok())?;
        }
    }
    Ok(free_of)
}

/// R4, R8, R11: the memory is there for the node, and for its stream.
fn check_owner(trace: &Trace, order: &Order, free_of: &FreeOf, access: &Access) -> Done {
    use BufferKind::*;
    let (id, user) = (access.node, trace.node(access.node).stream);
    let kind = &trace.buffer(access.buffer).kind;
    let gone = matches!(kind, Scratch { freed_before: Some(freed), .. } if id >= *freed);
    let follows = |first: &NodeId| order.before(*first, id, access.phase);
    let ends = |free: &NodeId| order.before(id, *free, Phase::BeforeWait);
    match kind {
        Scratch { alloc: at, .. } => {
            let taken = id >= at.before || !at.frontier.is_empty();
            rule("R4", id, taken && !gone && at.frontier.iter().all(follows))
        }
        Graph { alloc, .. } => {
            rule("R4", id, follows(alloc))?;
            rule("R8", id, free_of.get(alloc).is_none_or(ends))
        }
        Workspace { stream } => rule("R11", id, user.is_none_or(|user| user == *stream)),
        Persistent => Ok(()),
    }
}

/// Adds an access to those that a next one may have to follow, if it is ordered
/// after each that it conflicts with (R1, R2).
fn follow(latest: &mut Vec<(Access, bool)>, order: &Order, next: Access, declared: bool) -> Done {
    let overwrites = matches!(next.mode, AccessMode::Write | AccessMode::ReadWrite);
    let mut done = Ok(());
    latest.retain(|(old, _)| {
        let same = old.buffer == next.buffer;
        let own = same && old.node == next.node;
        let ended = own || order.before(old.node, next.node, next.phase);
        let conflict = old.mode.conflicts(next.mode) || !same && next.mode.writes();
        if conflict && !ended {
            done = rule(if same { "R1" } else { "R2" }, next.node, false);
        }
        // What must follow the old one must follow this one too, which ends later.
        !ended || conflict && !overwrites || own && !declared
    });
    latest.push((next, declared));
    done
}

/// What has happened to a run of bytes.
#[derive(Clone, Default, PartialEq)]
struct Seen {
    /// Accesses, and whether they are declared or words of parameters.
    latest: Vec<(Access, bool)>,
    /// The last turn of a buffer here.
    turn: usize,
    /// The first and the last turn in which the bytes were written.
    wrote: Option<(usize, usize)>,
    /// The turn of the last declared write, and the first node that wrote in it.
    filled: Option<(usize, NodeId)>,
}

/// R1, R2, R13, and of each access R4, R8 and R11.
fn check_bytes(trace: &Trace, proof: &Certificate, order: &Order, free_of: &FreeOf) -> Done {
    let word = |w: &PossibleAccess| Access::new(w.node, w.buffer, w.bytes, AccessMode::ReadWrite);
    let words = trace.possible.iter().map(|w| (word(w), false));
    let declared = trace.accesses.iter().map(|access| (*access, true));
    let mut all: Vec<_> = declared.chain(words).collect();
    all.retain(|(access, _)| !access.bytes.is_empty());
    // What a node declares stands before its words, which are all after its wait.
    all.sort_by_key(|(access, _)| (order.place[access.node.index()].0, access.phase));
    let places = (1..).zip(&proof.turns);
    let turn_of: HashMap<_, _> = places.map(|(turn, id)| (*id, turn)).collect();
    let mut map = Bytes::new();
    for (mut next, declared) in all {
        check_owner(trace, order, free_of, &next)?;
        let (node, id, buffer) = (next.node, next.buffer, trace.buffer(next.buffer));
        let [start, end] = [next.bytes.start, next.bytes.end].map(|at| buffer.range.start + at);
        let bytes = ByteRange::new(start, end);
        next.bytes = ByteRange::default();
        // A word says nothing if its node declares all of those bytes.
        let own = |old: &(Access, bool)| old.1 && (old.0.node, old.0.buffer) == (node, id);
        let own = |seen: &mut Seen| rule("R2", node, seen.latest.iter().any(own));
        if !declared && each(&mut map, bytes, own).is_ok() {
            continue;
        }
        let (reads, writes) = (next.mode.reads(), next.mode.writes());
        let scratch = matches!(buffer.kind, BufferKind::Scratch { .. }) && !buffer.carried;
        let turn = turn_of.get(&id).copied().unwrap_or_default();
        each(&mut map, bytes, |seen| {
            follow(&mut seen.latest, order, next, declared)?;
            let filled = seen.filled.filter(|by| by.0 == turn);
            // A read needs what earlier nodes have left.
            let needs = declared && reads && scratch;
            rule("R13", node, !needs || filled.is_some_and(|by| by.1 != node))?;
            if declared && writes {
                seen.filled = filled.or(Some((turn, node)));
            }
            let (first, last) = seen.wrote.unwrap_or((turn, 0));
            let in_turn = turn > 0 && turn >= if writes { seen.turn } else { last };
            let stale = buffer.carried && reads && first != turn;
            seen.turn = turn.max(seen.turn);
            if writes {
                seen.wrote = Some((first, turn));
            }
            rule("R2", node, in_turn && !stale)
        })?;
    }
    // What a buffer carries nothing else writes, or the buffer does so after it.
    let buffers = (0..).map(BufferId).zip(&trace.buffers);
    for (id, buffer) in buffers.filter(|(_, buffer)| buffer.carried) {
        each(&mut map, buffer.range, |seen| {
            let kept = seen.wrote.is_none_or(|w| turn_of.get(&id) == Some(&w.1));
            rule("R2", None, kept)
        })?;
    }
    Ok(())
}

/// Does `f` to the bytes, of which `map` has the first of each run that is alike.
fn each(map: &mut Bytes, bytes: ByteRange, mut f: impl FnMut(&mut Seen) -> Done) -> Done {
    for at in [bytes.start, bytes.end] {
        if !map.contains_key(&at) {
            let run = map.range(..at).next_back().map(|run| run.1.clone());
            map.insert(at, run.unwrap_or_default());
        }
    }
    let (mut last, mut joined) = (None, Vec::new());
    for (&at, seen) in map.range_mut(bytes.start..bytes.end) {
        f(seen)?;
        let seen = Some(&*seen);
        joined.extend((last == seen).then_some(at));
        last = seen;
    }
    joined.iter().for_each(|at| drop(map.remove(at)));
    Ok(())
}
