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
    PdlWait, Phase, Trace,
};

use super::{Certificate, CertificateError as E, VERSION, digest};

/// The most clock entries that a certificate may ask for: 1 GiB for each phase.
const MAX_ENTRIES: usize = 1 << 28;

/// Validates `certificate` against `trace`.
///
/// # Errors
/// What keeps the certificate from proving that this trace is safe.
pub fn check(trace: &Trace, certificate: &Certificate) -> Result<(), E> {
    let version = certificate.version;
    demand(version == VERSION, E::Version(version))?;
    trace.check().map_err(|e| E::Malformed(e.to_string()))?;
    let (certified, found) = (certificate.digest.clone(), digest(trace));
    demand(certified == found, E::AnotherTrace { certified, found })?;
    let (stats, is) = (&certificate.stats, |n: u64, len: usize| n == len as u64);
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
    let mut order = Order::new(trace, &certificate.order)?;
    order.check_protocol()?;
    order.check_nodes(&certificate.not_analysed)?;
    order.check_bytes()
}

fn demand(holds: bool, otherwise: E) -> Result<(), E> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn rule(rule: &'static str, node: NodeId, holds: bool) -> Result<(), E> {
    demand(holds, E::NotEstablished { rule, node })
}

struct Order<'a> {
    trace: &'a Trace,
    /// The nodes in sequence, each with its chain.
    nodes: &'a [(NodeId, u32)],
    /// By node: its place in `nodes`; its chain, and how many nodes of the chain
    /// there are up to it; the free node of an allocation node.
    rank: Vec<usize>,
    place: Vec<(usize, u32)>,
    free_of: HashMap<NodeId, NodeId>,
    /// By phase and node: how many nodes of each chain have ended by then.
    ended: [Vec<Vec<u32>>; 2],
}

impl<'a> Order<'a> {
    fn new(trace: &'a Trace, nodes: &'a [(NodeId, u32)]) -> Result<Self, E> {
        let (count, chains) = (trace.nodes.len(), nodes.iter().map(|node| node.1));
        let width = chains.max().map_or(0, |last| last as usize + 1);
        let fits = count.saturating_mul(width) <= MAX_ENTRIES;
        demand(fits, E::TooWide(width))?;
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
            for &(from, kind) in &into[at] {
                // Without a declared wait a programmatic edge orders nothing.
                let full = kind == EdgeKind::Full;
                if !full && trace.node(node).pdl == PdlWait::None {
                    continue;
                }
                for chain in 0..width {
                    let itself = u32::from(chain == place[from].0) * place[from].1;
                    let ended = itself.max(wait[from][chain]);
                    let started = if full { ended } else { start[from][chain] };
                    waits[chain] = ended.max(waits[chain]);
                    starts[chain] = started.max(starts[chain]);
                }
            }
            // One number per chain is only as good as the chain: this node must
            // end after all that stand before it there.
            demand(waits[own] == lengths[own], E::Order(node))?;
            lengths[own] += 1;
            (rank[at], place[at]) = (here, (own, lengths[own]));
            (start[at], wait[at]) = (starts, waits);
        }
        let left_out = rank.iter().position(|&rank| rank == usize::MAX);
        left_out.map_or(Ok(()), |at| Err(E::Order(NodeId::at(at))))?;
        // R6: all work leads to where the origin stands at the end.
        let mut leads = vec![
            trace
                .streams
                .iter()
                .take(1)
                .all(|s| s.end.frontier.is_empty());
            count
        ];
        for node in trace.streams.iter().take(1).flat_map(|s| &s.end.frontier) {
            leads[node.index()] = true;
        }
        for &(node, _) in nodes.iter().rev() {
            rule("R6", node, leads[node.index()])?;
            into[node.index()]
                .iter()
                .for_each(|edge| leads[edge.0] = true);
        }
        let (free_of, ended) = (HashMap::new(), [start, wait]);
        Ok(Self {
            trace,
            nodes,
            rank,
            place,
            free_of,
            ended,
        })
    }

    /// Whether `first` has ended when `then` comes to this phase.
    fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let (chain, count) = self.place[first.index()];
        count <= self.ended[phase as usize][then.index()][chain]
    }

    /// R3 and R6 where the trace says outright that they are broken.
    fn check_protocol(&self) -> Result<(), E> {
        let Self { trace, .. } = self;
        let unknown = trace.unknown.iter().filter(|a| !a.range.is_empty());
        let stray = trace.stray.iter().map(|word| word.node);
        for node in unknown.map(|access| access.node).chain(stray) {
            rule("R3", node, false)?;
        }
        let broken = trace.protocol.iter().map(|entry| entry.node);
        let sides = trace.streams.iter().skip(1).filter(|s| !s.end.joined);
        let sides = sides.map(|side| side.end.frontier.first().copied());
        let mut all = broken.chain(sides);
        all.next()
            .map_or(Ok(()), |node| rule("R6", node.unwrap_or_default(), false))
    }

    /// What node by node can be said: R3 of parameters, R7, R14, that each free
    /// node has something to free (R8), and that what is not known of a node is
    /// said (R10).
    fn check_nodes(&mut self, not_analysed: &[NodeId]) -> Result<(), E> {
        let trace = self.trace;
        let declared: HashSet<NodeId> = trace.accesses.iter().map(|a| a.node).collect();
        let said: HashSet<NodeId> = not_analysed.iter().copied().collect();
        let (mut named, mut taken) = (HashSet::new(), HashSet::new());
        for buffer in &trace.buffers {
            if let BufferKind::Graph { alloc, free } = buffer.kind {
                named.extend(free.into_iter().chain([alloc]));
                let is_free =
                    |free: &NodeId| matches!(trace.node(*free).kind, NodeKind::MemFree(_));
                if let Some(free) = free.filter(is_free).filter(|free| taken.insert(*free)) {
                    self.free_of.insert(alloc, free);
                }
            }
        }
        // The others belong together by address, the first free to the first.
        let mut held: BTreeMap<u64, VecDeque<NodeId>> = BTreeMap::new();
        let mut device = Vec::new();
        for &(node, _) in self.nodes {
            let (mut known, mut runs) = (true, Some(AccessMode::Read));
            match &trace.node(node).kind {
                NodeKind::Kernel(kernel) => {
                    if kernel.sync == BlockSync::Spin {
                        runs = Some(AccessMode::Write);
                    }
                    for param in &kernel.params {
                        let known = param.pointer.is_none_or(|to| to.buffer.is_some());
                        rule("R3", node, known || param.bytes[..] == [0; 8])?;
                    }
                }
                NodeKind::MemAlloc(alloc) => {
                    (known, runs) = (alloc.at != 0 || named.contains(&node), None);
                    if known && !self.free_of.contains_key(&node) {
                        held.entry(alloc.at).or_default().push_back(node);
                    }
                }
                NodeKind::MemFree(free) => {
                    (known, runs) = (free.at != 0 || named.contains(&node), None);
                    if free.at != 0 && !taken.contains(&node) {
                        let alloc = held.get_mut(&free.at).and_then(VecDeque::pop_front);
                        rule("R8", node, alloc.is_some())?;
                        self.free_of.extend(alloc.map(|alloc| (alloc, node)));
                    }
                }
                NodeKind::Memcpy(_) | NodeKind::Memset(_) | NodeKind::Empty => runs = None,
                NodeKind::EventWait | NodeKind::EventRecord => runs = None,
                NodeKind::ChildGraph | NodeKind::Conditional | NodeKind::Unknown(_) => {
                    known = false
                }
                _ => (known, runs) = (false, None),
            }
            let silent = trace.node(node).analysed && (known || declared.contains(&node));
            demand(
                said.contains(&node) != silent,
                E::Misstated("unanalysed nodes"),
            )?;
            // A kernel whose blocks spin is ordered with every other, as if it
            // wrote at its start what they read at theirs.
            if let Some(mode) = runs {
                let mut start = Access::new(node, BufferId(0), ByteRange::default(), mode);
                start.phase = Phase::BeforeWait;
                rule("R14", node, self.follow(&mut device, &start).is_ok())?;
            }
        }
        let freed = trace
            .assumptions
            .iter()
            .any(|line| line == crate::FREED_BY_LAUNCHER);
        let mut held = held.into_values().flatten().filter(|_| !freed);
        held.next().map_or(Ok(()), |held| rule("R7", held, false))
    }

    /// R4, R8, R11: the memory is there for the node, and for its stream.
    fn check_owner(
        &self,
        Access {
            node,
            buffer,
            phase,
            ..
        }: Access,
    ) -> Result<(), E> {
        match &self.trace.buffer(buffer).kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => {
                let mut taken = !alloc.frontier.is_empty() || node >= alloc.before;
                taken &= alloc.frontier.iter().all(|&n| self.before(n, node, phase));
                rule(
                    "R4",
                    node,
                    taken && freed_before.is_none_or(|freed| node < freed),
                )
            }
            BufferKind::Graph { alloc, .. } => {
                rule("R4", node, self.before(*alloc, node, phase))?;
                let ends = |&free: &NodeId| self.before(node, free, Phase::BeforeWait);
                rule("R8", node, self.free_of.get(alloc).is_none_or(ends))
            }
            BufferKind::Workspace { stream } => {
                let user = self.trace.node(node).stream;
                rule("R11", node, user.is_none_or(|user| user == *stream))
            }
            BufferKind::Persistent => Ok(()),
        }
    }

    /// Adds an access to those that a next one may have to follow, if it is
    /// ordered after each that it conflicts with (R1, R2).
    fn follow(&self, latest: &mut Vec<Access>, next: &Access) -> Result<(), E> {
        let ordered = |old: &Access| self.before(old.node, next.node, next.phase);
        for old in latest.iter() {
            let same = old.buffer == next.buffer;
            let conflict = match same {
                true => old.mode.conflicts(next.mode),
                false => old.mode.writes() || next.mode.writes(),
            };
            let fine = !conflict || ordered(old) || same && old.node == next.node;
            rule(if same { "R1" } else { "R2" }, next.node, fine)?;
        }
        // What must follow the old one must follow this one, which ends later.
        latest.retain(|old| {
            let stands_for = match next.mode {
                AccessMode::Read => old.mode == AccessMode::Read,
                AccessMode::Atomic => (old.mode, old.buffer) == (next.mode, next.buffer),
                AccessMode::Write | AccessMode::ReadWrite => true,
            };
            !stands_for || old.node != next.node && !ordered(old)
        });
        let bytes = ByteRange::default();
        latest.push(Access::new(next.node, next.buffer, bytes, next.mode));
        Ok(())
    }

    /// R1, R2, R13, and of each access R4, R8 and R11.
    fn check_bytes(&self) -> Result<(), E> {
        let trace = self.trace;
        let mut all: Vec<(Access, bool)> = trace.accesses.iter().map(|a| (*a, true)).collect();
        for word in &trace.possible {
            let mode = AccessMode::ReadWrite;
            let access = Access::new(word.node, word.buffer, word.bytes, mode);
            all.push((access, false));
        }
        all.retain(|(access, _)| !access.bytes.is_empty());
        all.sort_by_key(|(access, _)| (self.rank[access.node.index()], access.phase));
        for (access, _) in &mut all {
            self.check_owner(*access)?;
            let base = trace.buffer(access.buffer).range.start;
            access.bytes = ByteRange::new(base + access.bytes.start, base + access.bytes.end);
        }
        let tangled = self.tangled(&all)?;
        let (mut map, mut turns) = (Bytes::<Seen>(BTreeMap::new()), HashSet::new());
        for of_node in all.chunk_by(|a, b| a.0.node == b.0.node) {
            // A read needs what earlier nodes have left.
            for &(read, declared) in of_node {
                let buffer = trace.buffer(read.buffer);
                let scratch = matches!(buffer.kind, BufferKind::Scratch { .. });
                if declared && read.mode.reads() && scratch && !buffer.carried {
                    let filled = |seen: &mut Seen| seen.written == Some(read.buffer);
                    map.each(read.bytes, |seen| rule("R13", read.node, filled(seen)))?;
                }
            }
            for &(next, declared) in of_node {
                if !declared && is_declared(of_node, &next) {
                    continue;
                }
                let (id, writes) = (next.buffer, next.mode.writes());
                let carried = |id: BufferId| trace.buffer(id).carried;
                map.each(next.bytes, |seen| {
                    self.follow(&mut seen.latest, &next)?;
                    if declared && writes {
                        seen.written = Some(id);
                    }
                    let others = seen.tenants.iter().filter(|other| *other.0 != id);
                    for (&other, wrote) in others.filter(|other| writes || other.1.is_some()) {
                        let spoilt = carried(other) && writes
                            || carried(id) && wrote.is_some() && next.mode.reads();
                        turns.insert((other, id));
                        let back = turns.contains(&(id, other));
                        rule("R2", next.node, !spoilt && !back)?;
                    }
                    if tangled[id.index()] {
                        let wrote = seen.tenants.entry(id).or_default();
                        *wrote = wrote.or(writes.then_some(next.node));
                    }
                    Ok(())
                })?;
            }
        }
        // Nothing else writes what a buffer carries and no access of it touches.
        for (at, buffer) in trace
            .buffers
            .iter()
            .enumerate()
            .filter(|b| b.1.carried && tangled[b.0])
        {
            map.each(buffer.range, |seen| {
                let wrote = seen.tenants.values().flatten().next();
                let fine = wrote.is_none() || seen.tenants.contains_key(&BufferId::at(at));
                rule("R2", wrote.copied().unwrap_or_default(), fine)
            })?;
        }
        Ok(())
    }

    /// The buffers that share bytes with another while both are in use: from the
    /// first access to the last, or always if carried. Only they can go both ways.
    fn tangled(&self, all: &[(Access, bool)]) -> Result<Vec<bool>, E> {
        let buffers = &self.trace.buffers;
        let mut lives: Vec<(usize, usize)> = vec![(usize::MAX, 0); buffers.len()];
        for (access, _) in all {
            let here = self.rank[access.node.index()];
            let life = &mut lives[access.buffer.index()];
            *life = (life.0.min(here), here);
        }
        for at in (0..buffers.len()).filter(|&at| buffers[at].carried) {
            lives[at] = (0, usize::MAX);
        }
        let used = (0..buffers.len()).filter(|&at| lives[at].0 <= lives[at].1);
        let mut used: Vec<usize> = used.collect();
        used.sort_by_key(|&at| lives[at]);
        let (mut tangled, mut map) = (vec![false; buffers.len()], Bytes(BTreeMap::new()));
        for at in used {
            map.each(buffers[at].range, |tenant: &mut Option<usize>| {
                let old = tenant.unwrap_or(at);
                if old != at && lives[old].1 >= lives[at].0 {
                    (tangled[old], tangled[at]) = (true, true);
                }
                // The one that stays longest speaks for all.
                *tenant = Some(if lives[old].1 > lives[at].1 { old } else { at });
                Ok(())
            })?;
        }
        Ok(tangled)
    }
}

/// Whether the declared accesses of a node cover those bytes of that buffer.
fn is_declared(of_node: &[(Access, bool)], word: &Access) -> bool {
    let own = of_node
        .iter()
        .filter(|own| own.1 && own.0.buffer == word.buffer);
    let mut own: Vec<ByteRange> = own.map(|own| own.0.bytes).collect();
    own.sort_unstable();
    let mut open = word.bytes.start;
    for bytes in own {
        open = if bytes.start <= open {
            open.max(bytes.end)
        } else {
            open
        };
    }
    open >= word.bytes.end
}

/// What has happened to a run of bytes.
#[derive(Clone, Default, PartialEq)]
struct Seen {
    latest: Vec<Access>,
    /// The buffer whose declared write came last.
    written: Option<BufferId>,
    /// The tangled buffers that were here, each with a node that wrote.
    tenants: BTreeMap<BufferId, Option<NodeId>>,
}

/// A value for each byte, by the first byte of each run that has the same.
struct Bytes<T>(BTreeMap<u64, T>);

impl<T: Clone + Default + PartialEq> Bytes<T> {
    fn each<F: FnMut(&mut T) -> Result<(), E>>(
        &mut self,
        bytes: ByteRange,
        mut f: F,
    ) -> Result<(), E> {
        for at in [bytes.start, bytes.end] {
            let run = self.0.range(..=at).next_back();
            let value = run.map(|run| run.1.clone()).unwrap_or_default();
            self.0.entry(at).or_insert(value);
        }
        let (mut last, mut joined) = (None, Vec::new());
        for (&at, value) in self.0.range_mut(bytes.start..bytes.end) {
            f(value)?;
            let value = Some(&*value);
            joined.extend((last == value).then_some(at));
            last = value;
        }
        joined.iter().for_each(|at| drop(self.0.remove(at)));
        Ok(())
    }
}
