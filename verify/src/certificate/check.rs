//! The independent checker, in one file that can be read in one sitting.
//!
//! The order of the graph is computed along the sequence of nodes that the
//! certificate states, once the edges are seen to bear it out ([`Order`]). What
//! can be said node by node is a function for each rule. Then the accesses are
//! played in that order over a map of the bytes ([`Bytes`]). Each byte remembers
//! the accesses that a next one may have to follow; one is forgotten when a later
//! one that is ordered after it stands for it. To each byte the buffers must come
//! in their turns.

use std::collections::{BTreeMap, HashMap, HashSet};

use streamweir_trace::{
    Access, AccessMode, BlockSync, Buffer, BufferId, BufferKind, ByteRange, EdgeKind, Node, NodeId,
    NodeKind, PdlWait, Phase, PossibleAccess, Trace, TraceError, Unfreed,
};

use super::about::About;
use super::error::CertificateError as Refusal;
use super::form::Certificate;
use super::version::VERSION;

type Checked<T = ()> = Result<T, Refusal>;

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
    let turns = Turns::new(trace, proof)?;
    accesses(trace, &order, &memory, &turns)
}

fn demand(holds: bool, otherwise: Refusal) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Refuses unless what `rule` asks of `node` holds.
fn rule(rule: &'static str, node: impl Into<Option<NodeId>>, holds: bool) -> Checked {
    let node = node.into();
    demand(holds, Refusal::NotEstablished { rule, node })
}

fn nodes(trace: &Trace) -> impl Iterator<Item = (NodeId, &Node)> {
    (0..).map(NodeId).zip(&trace.nodes)
}

/// The order of the graph.
struct Order {
    nodes: Vec<Placed>,
}

/// A node in the order.
#[derive(Clone, Default)]
struct Placed {
    /// Its place in the sequence; none while it has not been named.
    at: Option<usize>,
    chain: usize,
    /// How many nodes of its chain have ended once it has.
    number: u32,
    /// For each chain, how many of its nodes have ended when this one starts,
    /// and when it ends.
    at_start: Vec<u32>,
    at_end: Vec<u32>,
}

impl Order {
    fn new(trace: &Trace, sequence: &[(NodeId, u32)]) -> Checked<Self> {
        let count = trace.nodes.len();
        let chains = sequence.iter().map(|&(_, chain)| chain as usize + 1);
        let width = chains.max().unwrap_or(0);
        // No certificate may ask for more than 2 GiB of clocks.
        let fits = count.saturating_mul(width) <= 1 << 28;
        demand(fits, Refusal::TooWide(width))?;
        demand(sequence.len() == count, Refusal::Misstated("order"))?;
        let mut nodes = vec![Placed::default(); count];
        let mut lengths = vec![0; width];
        let mut edges = trace.edges.clone();
        edges.sort_by_key(|edge| edge.to);
        for (at, &(node, chain)) in sequence.iter().enumerate() {
            let chain = chain as usize;
            let old = nodes.get(node.index());
            let new = old.is_some_and(|old| old.at.is_none());
            demand(new, Refusal::Order(node))?;
            let (mut at_start, mut at_end) = (vec![0; width], vec![0; width]);
            let first = edges.partition_point(|edge| edge.to < node);
            for edge in edges[first..].iter().take_while(|edge| edge.to == node) {
                let before = &nodes[edge.from.index()];
                demand(before.at.is_some(), Refusal::Order(node))?;
                match edge.kind {
                    EdgeKind::Full => {
                        raise(&mut at_start, &before.at_end);
                        raise(&mut at_end, &before.at_end);
                    }
                    // It may start once the other has started, and its wait
                    // returns when the other has ended.
                    EdgeKind::Programmatic if trace.node(node).pdl == PdlWait::OnAllPaths => {
                        raise(&mut at_start, &before.at_start);
                        raise(&mut at_end, &before.at_end);
                    }
                    // Without a declared wait the edge orders nothing.
                    EdgeKind::Programmatic => {}
                }
            }
            // A chain is one if this node ends after all that stand before it.
            demand(at_end[chain] == lengths[chain], Refusal::Order(node))?;
            lengths[chain] += 1;
            at_end[chain] = lengths[chain];
            nodes[node.index()] = Placed {
                at: Some(at),
                chain,
                number: lengths[chain],
                at_start,
                at_end,
            };
        }
        Ok(Self { nodes })
    }

    /// Whether `first` has ended when `then`, another node, comes to this phase.
    fn before(&self, first: NodeId, then: NodeId, phase: Phase) -> bool {
        let Placed { chain, number, .. } = self.nodes[first.index()];
        let then_clocks = &self.nodes[then.index()];
        let ended = match phase {
            Phase::BeforeWait => &then_clocks.at_start,
            Phase::AfterWait => &then_clocks.at_end,
        };
        first != then && number <= ended[chain]
    }
}

fn raise(clock: &mut [u32], to: &[u32]) {
    for (entry, &to) in clock.iter_mut().zip(to) {
        *entry = (*entry).max(to);
    }
}

/// The memory that the graph allocates itself.
struct GraphMemory {
    /// The free node of an allocation node.
    free_of: BTreeMap<NodeId, NodeId>,
    /// The free nodes that free something.
    freeing: HashSet<NodeId>,
    /// The allocation and free nodes that a buffer names.
    named: HashSet<NodeId>,
}

impl GraphMemory {
    /// R8, of free nodes: each frees one allocation, after it.
    fn new(trace: &Trace, proof: &Certificate, order: &Order) -> Checked<Self> {
        let (mut free_of, mut named) = (BTreeMap::new(), HashSet::new());
        for buffer in &trace.buffers {
            if let BufferKind::Graph { alloc, free } = buffer.kind {
                named.insert(alloc);
                if let Some(free) = free {
                    named.insert(free);
                    free_of.insert(alloc, free);
                }
            }
        }
        for &(alloc, free) in &proof.freed {
            let kind = |id: NodeId| trace.nodes.get(id.index()).map(|node| &node.kind);
            let alike = match (kind(alloc), kind(free)) {
                (Some(NodeKind::MemAlloc(alloc)), Some(NodeKind::MemFree(free))) => {
                    free.at == alloc.at && free.at != 0
                }
                _ => false,
            };
            rule("R8", free, alike && free_of.insert(alloc, free).is_none())?;
        }
        let mut freeing = HashSet::new();
        for (&alloc, &free) in &free_of {
            let follows = order.before(alloc, free, Phase::BeforeWait);
            rule("R8", free, follows && freeing.insert(free))?;
        }
        Ok(Self {
            free_of,
            freeing,
            named,
        })
    }
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
            let lost = param.pointer.is_some_and(|to| to.buffer.is_none());
            // A null pointer refers to nothing.
            rule("R3", id, !lost || param.bytes[..] == [0; 8])?;
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
            Kernel(_) | Memcpy(_) | Memset(_) | Empty | EventWait | EventRecord => true,
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

/// The turns in which buffers come to the bytes that they share, from 1.
struct Turns(HashMap<BufferId, usize>);

impl Turns {
    /// The turns that the certificate states: of touched buffers, each once.
    fn new(trace: &Trace, proof: &Certificate) -> Checked<Self> {
        let declared = trace.accesses.iter().map(|a| (a.buffer, a.bytes));
        let words = trace.possible.iter().map(|word| (word.buffer, word.bytes));
        let touched = declared.chain(words).filter(|(_, bytes)| !bytes.is_empty());
        let touched: HashSet<BufferId> = touched.map(|(buffer, _)| buffer).collect();
        let mut turns = HashMap::new();
        for (turn, &buffer) in (1..).zip(&proof.turns) {
            let new = touched.contains(&buffer) && turns.insert(buffer, turn).is_none();
            demand(new, Refusal::Misstated("turns"))?;
        }
        Ok(Self(turns))
    }

    /// The turn of a buffer, 0 if it has none.
    fn of(&self, buffer: BufferId) -> usize {
        self.0.get(&buffer).copied().unwrap_or_default()
    }
}

/// One access of the bytes at hand; its own bytes are left out.
#[derive(Clone, Copy, PartialEq)]
struct Touch {
    access: Access,
    /// False for a word of a parameter, which may be any access.
    declared: bool,
}

/// What has happened to a run of bytes.
#[derive(Clone, Default, PartialEq)]
struct Run {
    /// The accesses that a next one may have to follow.
    latest: Vec<Touch>,
    /// The last turn of a buffer here.
    turn: usize,
    /// The first and the last turn in which the bytes were written.
    first_written: Option<usize>,
    last_written: Option<usize>,
    /// The turn of the last declared write, and the first node that wrote in it.
    filled: Option<(usize, NodeId)>,
}

/// Plays all accesses: R1, R2, R4, R8, R11 and R13.
fn accesses(trace: &Trace, order: &Order, memory: &GraphMemory, turns: &Turns) -> Checked {
    let word = |word: &PossibleAccess| {
        let PossibleAccess {
            node,
            buffer,
            bytes,
            ..
        } = *word;
        (
            Access::new(node, buffer, bytes, AccessMode::ReadWrite),
            false,
        )
    };
    let declared = trace.accesses.iter().map(|access| (*access, true));
    let mut all: Vec<(Access, bool)> = declared
        .chain(trace.possible.iter().map(word))
        .filter(|(access, _)| !access.bytes.is_empty())
        .collect();
    // What a node declares stands before its words, which are all after its wait.
    all.sort_by_key(|(access, _)| (order.nodes[access.node.index()].at, access.phase));
    let mut map = Bytes::default();
    for (mut access, declared) in all {
        let buffer = trace.buffer(access.buffer);
        owner_gone(buffer, order, &access)?;
        freed_too_early(buffer, order, memory, &access)?;
        library_state(trace, buffer, &access)?;
        let [start, end] = [access.bytes.start, access.bytes.end].map(|at| buffer.range.start + at);
        let bytes = ByteRange::new(start, end);
        access.bytes = ByteRange::default();
        // A word says nothing if its node declares all of those bytes.
        let of = (access.node, access.buffer);
        let own = |old: &Touch| old.declared && (old.access.node, old.access.buffer) == of;
        if !declared && map.all(bytes, |run| run.latest.iter().any(own)) {
            continue;
        }
        let (touch, turn) = (Touch { access, declared }, turns.of(access.buffer));
        map.each(bytes, |run| {
            run.follow(order, touch)?;
            run.read_after_write(buffer, touch, turn)?;
            run.in_turn(buffer, &access, turn)
        })?;
    }
    kept(trace, turns, &mut map)
}

/// R4: the memory is there for the node.
fn owner_gone(buffer: &Buffer, order: &Order, access: &Access) -> Checked {
    let node = access.node;
    let follows = |first: &NodeId| order.before(*first, node, access.phase);
    let there = match &buffer.kind {
        BufferKind::Scratch {
            alloc,
            freed_before,
            ..
        } => {
            let taken = node >= alloc.before || !alloc.frontier.is_empty();
            let freed = freed_before.is_some_and(|freed| node >= freed);
            taken && !freed && alloc.frontier.iter().all(follows)
        }
        BufferKind::Graph { alloc, .. } => follows(alloc),
        BufferKind::Workspace { .. } | BufferKind::Persistent => true,
    };
    rule("R4", node, there)
}

/// R8, of accesses: each ends before the memory is freed.
fn freed_too_early(
    buffer: &Buffer,
    order: &Order,
    memory: &GraphMemory,
    access: &Access,
) -> Checked {
    let free = match &buffer.kind {
        BufferKind::Graph { alloc, .. } => memory.free_of.get(alloc),
        _ => None,
    };
    let ends = |&free| order.before(access.node, free, Phase::BeforeWait);
    rule("R8", access.node, free.is_none_or(ends))
}

/// R11: a workspace is used by its own stream.
fn library_state(trace: &Trace, buffer: &Buffer, access: &Access) -> Checked {
    let user = trace.node(access.node).stream;
    let own = match buffer.kind {
        BufferKind::Workspace { stream } => user.is_none_or(|user| user == stream),
        _ => true,
    };
    rule("R11", access.node, own)
}

impl Run {
    /// R1 and R2, of accesses that nothing orders: adds one, if it is ordered
    /// after each that it conflicts with.
    fn follow(&mut self, order: &Order, touch: Touch) -> Checked {
        let next = touch.access;
        let overwrites = matches!(next.mode, AccessMode::Write | AccessMode::ReadWrite);
        for earlier in std::mem::take(&mut self.latest) {
            let old = earlier.access;
            let same_buffer = old.buffer == next.buffer;
            let own = same_buffer && old.node == next.node;
            let ended = own || order.before(old.node, next.node, next.phase);
            // Atomics are no conflict inside one buffer.
            let conflict = old.mode.conflicts(next.mode) || !same_buffer && next.mode.writes();
            let broken = if same_buffer { "R1" } else { "R2" };
            rule(broken, next.node, ended || !conflict)?;
            // What must follow the old one must follow this one too, which ends
            // later; but a word does not stand for what its own node declares.
            let stands_for = (overwrites || !conflict) && (touch.declared || !own);
            if !(ended && stands_for) {
                self.latest.push(earlier);
            }
        }
        self.latest.push(touch);
        Ok(())
    }

    /// R13: a read of scratch needs what earlier nodes have left.
    fn read_after_write(&mut self, buffer: &Buffer, touch: Touch, turn: usize) -> Checked {
        let Access { node, mode, .. } = touch.access;
        let scratch = matches!(buffer.kind, BufferKind::Scratch { .. }) && !buffer.carried;
        let filled = self.filled.filter(|&(by, _)| by == turn);
        if touch.declared && mode.reads() && scratch {
            rule("R13", node, filled.is_some_and(|(_, by)| by != node))?;
        }
        if touch.declared && mode.writes() {
            self.filled = filled.or(Some((turn, node)));
        }
        Ok(())
    }

    /// R2, of accesses that are ordered: buffers come in their turns, and what is
    /// carried is not read once another buffer has written there.
    fn in_turn(&mut self, buffer: &Buffer, access: &Access, turn: usize) -> Checked {
        let (reads, writes) = (access.mode.reads(), access.mode.writes());
        let must_follow = match writes {
            true => self.turn,
            false => self.last_written.unwrap_or_default(),
        };
        let overwritten = self.first_written.is_some_and(|first| first != turn);
        let stale = buffer.carried && reads && overwritten;
        rule("R2", access.node, turn > 0 && turn >= must_follow && !stale)?;
        self.turn = self.turn.max(turn);
        if writes {
            self.first_written.get_or_insert(turn);
            self.last_written = Some(turn);
        }
        Ok(())
    }
}

/// R2, of what a buffer carries to the next replay: nothing else writes it, or
/// the buffer does so after it.
fn kept(trace: &Trace, turns: &Turns, map: &mut Bytes) -> Checked {
    for (id, buffer) in (0..).map(BufferId).zip(&trace.buffers) {
        if buffer.carried {
            let own = |run: &mut Run| {
                let last = run.last_written;
                rule("R2", None, last.is_none_or(|last| last == turns.of(id)))
            };
            map.each(buffer.range, own)?;
        }
    }
    Ok(())
}

/// All bytes, by the first of each run of bytes that are alike.
#[derive(Default)]
struct Bytes {
    runs: BTreeMap<u64, Run>,
}

impl Bytes {
    /// Whether `holds` of all these bytes, of which there is one at least.
    fn all(&self, bytes: ByteRange, holds: impl Fn(&Run) -> bool) -> bool {
        let first = self.runs.range(..=bytes.start).next_back();
        let mut others = self.runs.range(bytes.start + 1..bytes.end);
        first.is_some_and(|(_, run)| holds(run)) && others.all(|(_, run)| holds(run))
    }

    /// Does `change` to these bytes.
    fn each(&mut self, bytes: ByteRange, mut change: impl FnMut(&mut Run) -> Checked) -> Checked {
        for at in [bytes.start, bytes.end] {
            if !self.runs.contains_key(&at) {
                let around = self.runs.range(..at).next_back();
                let run = around.map(|(_, run)| run.clone()).unwrap_or_default();
                self.runs.insert(at, run);
            }
        }
        // Runs that have become alike are one.
        let (mut last, mut joined) = (None, Vec::new());
        for (&at, run) in self.runs.range_mut(bytes.start..bytes.end) {
            change(run)?;
            if last == Some(&*run) {
                joined.push(at);
            }
            last = Some(&*run);
        }
        for at in joined {
            self.runs.remove(&at);
        }
        Ok(())
    }
}
