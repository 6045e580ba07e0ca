//! The rules that must be seen byte by byte: the accesses are played in the order
//! of the graph over a map of the bytes ([`Bytes`]). Each byte remembers the
//! accesses that a next one may have to follow; one is forgotten when a later one
//! that is ordered after it stands for it. To each byte the buffers must come in
//! their turns.

use std::collections::{BTreeMap, HashMap, HashSet};

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, Keeper, NodeId, NodeKind, Phase,
    RangeSet, Trace,
};

use super::super::error::CertificateError as Refusal;
use super::super::form::Certificate;
use super::frees::GraphMemory;
use super::order::{Checked, Order, demand, rule};
use super::table::{Entry, Memory, UNNAMED};

/// The turns in which buffers come to the bytes that they share, from 1.
pub(super) struct Turns(HashMap<BufferId, usize>);

impl Turns {
    /// The turns that the certificate states: of touched buffers, each once.
    pub(super) fn new(proof: &Certificate, entries: &[Entry]) -> Checked<Self> {
        let touched: HashSet<BufferId> = entries.iter().map(|e| e.access.buffer).collect();
        // Memory that only operands show comes last, wherever it shares bytes.
        let mut turns = HashMap::from([(UNNAMED, usize::MAX)]);
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
pub(super) struct Touch {
    pub(super) access: Access,
    /// False for a word of a parameter, which may be any access.
    pub(super) declared: bool,
}

/// What has happened to a run of bytes.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Run {
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

/// Plays all accesses: R1, R2, R3, R4, R8, R11 and R13.
pub(super) fn accesses(
    buffers: &Memory<'_>,
    order: &Order,
    memory: &GraphMemory,
    turns: &Turns,
    mut entries: Vec<Entry>,
) -> Checked {
    // What a node declares stands before its words, which are all after its wait.
    entries.sort_by_key(|e| {
        (
            order.nodes[e.access.node.index()].at,
            e.access.phase,
            !e.declared,
        )
    });
    let unnamed = Buffer::persistent("", ByteRange::default());
    let mut map = Bytes::default();
    for Entry {
        mut access,
        declared,
        addresses,
    } in entries
    {
        let buffer = match access.buffer {
            UNNAMED => &unnamed,
            id => buffers.buffer(id),
        };
        foreign_memory(buffer, &access)?;
        owner_gone(buffer, order, &access)?;
        freed_too_early(buffer, order, memory, &access)?;
        in_graph_memory(buffer, order, memory, &access, addresses)?;
        library_state(buffers.trace, buffer, &access)?;
        access.bytes = ByteRange::default();
        // A word says nothing if its node declares all of those bytes; rows of a copy or
        // a fill are looked at where no declaration covers them in their own mode.
        let kind = &buffers.trace.node(access.node).kind;
        let word = !declared && !matches!(kind, NodeKind::Memcpy(_) | NodeKind::Memset(_));
        let of = (access.node, access.buffer);
        let own = |old: &Touch| old.declared && (old.access.node, old.access.buffer) == of;
        if word && map.all(addresses, |run| run.latest.iter().any(own)) {
            continue;
        }
        let (touch, turn) = (Touch { access, declared }, turns.of(access.buffer));
        map.each(addresses, |run| {
            run.follow(order, touch)?;
            run.read_after_write(buffer, touch, turn)?;
            run.in_turn(buffer, &access, turn)
        })?;
    }
    kept(buffers.trace, turns, &mut map)
}

/// R3: memory that only the driver knows is kept by somebody.
fn foreign_memory(buffer: &Buffer, access: &Access) -> Checked {
    let lost = BufferKind::Foreign {
        keeper: Keeper::Nobody,
    };
    rule("R3", access.node, buffer.kind != lost)
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
        _ => true,
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

/// R4 and R8, of bytes that the graph allocates: they are there for the node,
/// whatever buffer names them.
fn in_graph_memory(
    buffer: &Buffer,
    order: &Order,
    memory: &GraphMemory,
    access: &Access,
    addresses: ByteRange,
) -> Checked {
    if matches!(buffer.kind, BufferKind::Graph { .. }) {
        return Ok(());
    }
    let (node, phase) = (access.node, access.phase);
    let near = memory.made.iter();
    let near = near.filter(|(_, bytes)| bytes.overlaps(&addresses));
    let there = |alloc: &NodeId| {
        let free = memory.free_of.get(alloc);
        order.before(*alloc, node, phase)
            && free.is_none_or(|&free| order.before(node, free, Phase::BeforeWait))
    };
    let (there, gone): (Vec<_>, Vec<_>) = near.partition(|(alloc, _)| there(alloc));
    let there: RangeSet = there.into_iter().map(|&(_, bytes)| bytes).collect();
    for &(alloc, bytes) in gone {
        let part = bytes.intersect(&addresses).unwrap_or_default();
        let began = order.before(alloc, node, phase);
        let broken = if began { "R8" } else { "R4" };
        rule(broken, node, there.covers(&part))?;
    }
    Ok(())
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
    pub(super) fn follow(&mut self, order: &Order, touch: Touch) -> Checked {
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

    /// R13: a read of scratch, of a workspace or of what the graph allocates needs
    /// what earlier nodes have left.
    fn read_after_write(&mut self, buffer: &Buffer, touch: Touch, turn: usize) -> Checked {
        let Access { node, mode, .. } = touch.access;
        let placed = match buffer.kind {
            BufferKind::Scratch { .. } => !buffer.carried,
            BufferKind::Workspace { .. } | BufferKind::Graph { .. } => true,
            _ => false,
        };
        let filled = self.filled.filter(|&(by, _)| by == turn);
        if touch.declared && mode.reads() && placed {
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
        let stale = carried(buffer) && reads && overwritten;
        rule("R2", access.node, turn > 0 && turn >= must_follow && !stale)?;
        self.turn = self.turn.max(turn);
        if writes {
            self.first_written.get_or_insert(turn);
            self.last_written = Some(turn);
        }
        Ok(())
    }
}

/// Whether the next replay, or somebody outside, relies on what is there.
fn carried(buffer: &Buffer) -> bool {
    match buffer.kind {
        BufferKind::Persistent | BufferKind::Foreign { .. } => true,
        BufferKind::Workspace { .. } => false,
        BufferKind::Scratch { .. } | BufferKind::Graph { .. } => buffer.carried,
    }
}

/// R2, of what a buffer carries to the next replay: nothing else writes it, or
/// the buffer does so after it.
fn kept(trace: &Trace, turns: &Turns, map: &mut Bytes) -> Checked {
    for (id, buffer) in (0..).map(BufferId).zip(&trace.buffers) {
        if carried(buffer) {
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
