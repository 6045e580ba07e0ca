//! The definition, computed the slow way: the full closure of the three times
//! of every node, and all pairs of accesses.

use std::collections::BTreeSet;

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, CopyNode, EdgeKind, NodeId,
    NodeKind, PdlWait, Phase, PossibleAccess, Promised, Trace,
};
use streamweir_verify::Rule;

pub(crate) type Found = BTreeSet<(Rule, Option<NodeId>, Option<NodeId>)>;

/// `reached[x][y]`: time `x` is at or before time `y`. Times are start, wait
/// and end of each node: 3n, 3n + 1, 3n + 2.
fn closure(trace: &Trace) -> Vec<Vec<bool>> {
    let times = trace.nodes.len() * 3;
    let mut reached = vec![vec![false; times]; times];
    for at in 0..trace.nodes.len() {
        reached[3 * at][3 * at + 1] = true;
        reached[3 * at + 1][3 * at + 2] = true;
    }
    for edge in &trace.edges {
        let (from, to) = (3 * edge.from.index(), 3 * edge.to.index());
        match edge.kind {
            EdgeKind::Full => reached[from + 2][to] = true,
            EdgeKind::Programmatic => {
                if trace.node(edge.to).pdl == PdlWait::OnAllPaths {
                    reached[from][to] = true;
                    reached[from + 2][to + 1] = true;
                }
            }
        }
    }
    for via in 0..times {
        let onward = reached[via].clone();
        for from in &mut reached {
            if from[via] {
                from.iter_mut().zip(&onward).for_each(|(to, on)| *to |= on);
            }
        }
    }
    reached
}

fn device(trace: &Trace, access: &Access) -> ByteRange {
    access
        .bytes
        .shifted(trace.buffer(access.buffer).range.start)
        .unwrap()
}

/// Whether the next replay relies on what a buffer holds.
fn carried(buffer: &Buffer) -> bool {
    match buffer.kind {
        BufferKind::Persistent | BufferKind::Foreign { .. } => true,
        BufferKind::Workspace { .. } => false,
        BufferKind::Scratch { .. } | BufferKind::Graph { .. } => buffer.carried,
    }
}

/// Whether a read of a buffer needs a write in this replay.
fn needs_write(buffer: &Buffer) -> bool {
    match buffer.kind {
        BufferKind::Workspace { .. } | BufferKind::Graph { .. } => true,
        BufferKind::Scratch { .. } => !buffer.carried,
        _ => false,
    }
}

/// What a byte is to a node, and was.
enum Meaning {
    Buffer(BufferId),
    Freed(BufferId),
    Nothing,
}

/// What allocation nodes make and no buffer names, byte by byte: neighbouring bytes
/// of one allocation are one buffer.
fn unnamed(trace: &Trace) -> Vec<Buffer> {
    let mut all: Vec<Buffer> = Vec::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        let NodeKind::MemAlloc(made) = &node.kind else {
            continue;
        };
        let kind = BufferKind::Graph {
            alloc: NodeId::at(at),
            free: None,
        };
        for byte in (made.at..made.at + made.bytes).filter(|_| made.at != 0) {
            let named = trace.buffers.iter().any(|buffer| {
                let names = match buffer.kind {
                    BufferKind::Graph { alloc, .. } => alloc == NodeId::at(at),
                    BufferKind::Scratch { .. } => false,
                    _ => true,
                };
                names && buffer.range.contains_byte(byte)
            });
            if named {
                continue;
            }
            match all.last_mut() {
                Some(last) if last.kind == kind && last.range.end == byte => last.range.end += 1,
                _ => all.push(Buffer {
                    name: "unnamed".into(),
                    kind: kind.clone(),
                    range: ByteRange::new(byte, byte + 1),
                    carried: false,
                }),
            }
        }
    }
    all
}

/// The buffer that a byte means to a node: of those that were there one of the first
/// `named`, the one with the shortest life, of those the one at the highest address,
/// the longest, the last; else one that had been freed, the other way round.
fn meaning(trace: &Trace, named: usize, byte: u64, node: NodeId) -> Meaning {
    let (mut there, mut freed) = (Vec::new(), Vec::new());
    for (at, buffer) in trace.buffers.iter().enumerate() {
        let (from, until) = match &buffer.kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => (alloc.before.0, freed_before.map_or(u32::MAX, |free| free.0)),
            BufferKind::Graph { alloc, .. } => (alloc.0, u32::MAX),
            _ => (0, u32::MAX),
        };
        let place = (buffer.range.start, buffer.range.end, at);
        if !buffer.range.contains_byte(byte) {
        } else if (from..until).contains(&node.0) {
            there.push((at < named, u32::MAX - (until - from), place));
        } else if until <= node.0 {
            freed.push(place);
        }
    }
    match (there.iter().max(), freed.iter().min()) {
        (Some((.., (.., at))), _) => Meaning::Buffer(BufferId::at(*at)),
        (None, Some((.., at))) => Meaning::Freed(BufferId::at(*at)),
        (None, None) => Meaning::Nothing,
    }
}

/// The trace with what its nodes show, byte by byte: operands as accesses, words
/// as possible ones; and the nodes with a word in freed memory.
fn shown(given: &Trace) -> (Trace, Vec<NodeId>) {
    let named = given.buffers.len();
    let mut with_made = given.clone();
    with_made.buffers.extend(unnamed(given));
    let mut trace = with_made.clone();
    let given = &with_made;
    let (mut outside, mut freed) = (Vec::new(), Vec::new());
    for (at, node) in given.nodes.iter().enumerate() {
        let node_id = NodeId::at(at);
        let own = |access: &&Access| access.node == node_id;
        let touched = |byte: u64, covers: &dyn Fn(AccessMode) -> bool| {
            let mut own = given.accesses.iter().filter(own);
            own.any(|access| covers(access.mode) && device(given, access).contains_byte(byte))
        };
        // (first byte, bytes of a row, rows, from one to the next)
        let operands = match &node.kind {
            NodeKind::Memcpy(copy) => {
                let CopyNode { bytes, rows, .. } = *copy;
                vec![
                    ((copy.from, bytes, rows, copy.from_pitch), AccessMode::Read),
                    ((copy.to, bytes, rows, copy.to_pitch), AccessMode::Write),
                ]
            }
            NodeKind::Memset(fill) => {
                let operand = (fill.to, fill.bytes, fill.rows, fill.pitch);
                vec![(operand, AccessMode::Write)]
            }
            _ => Vec::new(),
        };
        let known = operands.into_iter().filter(|((start, ..), _)| *start != 0);
        for ((start, len, rows, pitch), mode) in known {
            let in_row = |byte: u64| {
                (0..rows).any(|row| {
                    let first = start + row * pitch;
                    (first..first + len).contains(&byte)
                })
            };
            let end = start + rows * pitch + len;
            for byte in (start..end).filter(|byte| in_row(*byte)) {
                let covers = |other: AccessMode| match mode {
                    AccessMode::Read => other.reads(),
                    _ => other.writes(),
                };
                if touched(byte, &covers) {
                    continue;
                }
                match meaning(given, named, byte, node_id) {
                    Meaning::Buffer(buffer) | Meaning::Freed(buffer) => {
                        let at = byte - given.buffer(buffer).range.start;
                        let bytes = ByteRange::new(at, at + 1);
                        trace.add_access(Access::new(node_id, buffer, bytes, mode));
                    }
                    Meaning::Nothing => outside.push((node_id, byte, mode)),
                }
            }
        }
        let NodeKind::Kernel(kernel) = &node.kind else {
            continue;
        };
        for param in &kernel.params {
            let word = param.address().unwrap();
            let target = param.pointer.and_then(|to| Some((to.buffer?, to.offset)));
            if word == 0 {
                continue;
            }
            let listed = given.possible.iter().any(|other| {
                let start = given.buffer(other.buffer).range.start;
                let bytes = other.bytes.shifted(start).unwrap();
                other.node == node_id && bytes.contains_byte(word)
            });
            let promised = given.promises.iter().any(|promise| {
                let vouched = match &promise.what {
                    Promised::LeftOver { .. } => true,
                    Promised::Keeps { range, .. } => range.contains_byte(word),
                    _ => false,
                };
                vouched && promise.nodes.contains(&node_id)
            });
            if touched(word, &|_| true) || listed || promised {
                continue;
            }
            // A declared pointer is one into its own buffer, of which the node may say
            // what it touches.
            if let Some((buffer, offset)) = target {
                let mut own = given.accesses.iter().filter(own);
                let len = given.buffer(buffer).range.len();
                if own.any(|access| access.buffer == buffer) {
                    continue;
                }
                if offset < len {
                    trace.possible.push(PossibleAccess {
                        node: node_id,
                        buffer,
                        bytes: ByteRange::new(0, len),
                        param: Some(0),
                        offset: 0,
                    });
                    continue;
                }
            }
            match meaning(given, named, word, node_id) {
                Meaning::Buffer(buffer) => trace.possible.push(PossibleAccess {
                    node: node_id,
                    buffer,
                    bytes: ByteRange::new(0, given.buffer(buffer).range.len()),
                    param: Some(0),
                    offset: 0,
                }),
                Meaning::Freed(_) => freed.push(node_id),
                Meaning::Nothing => {}
            }
        }
    }
    // Neighbouring bytes outside of all buffers are one piece of memory.
    let bytes: BTreeSet<u64> = outside.iter().map(|&(_, byte, _)| byte).collect();
    let first = |byte: u64| {
        let mut start = byte;
        while bytes.contains(&(start - 1)) {
            start -= 1;
        }
        start
    };
    for (node, byte, mode) in outside {
        let start = first(byte);
        let mut end = byte;
        while bytes.contains(&end) {
            end += 1;
        }
        let range = ByteRange::new(start, end);
        let known = trace.buffers[given.buffers.len()..].iter();
        let at = known.into_iter().position(|buffer| buffer.range == range);
        let buffer = match at {
            Some(at) => BufferId::at(given.buffers.len() + at),
            None => trace.add_buffer(Buffer::persistent("outside", range)),
        };
        let bytes = ByteRange::new(byte - start, byte - start + 1);
        trace.add_access(Access::new(node, buffer, bytes, mode));
    }
    (trace, freed)
}

/// R4 and R8 of memory that the graph allocates: which free node belongs to which
/// allocation, and who touches the bytes out of their time.
fn graph_memory(trace: &Trace, count: usize) -> Found {
    let reached = closure(trace);
    let ends = |first: NodeId, then: NodeId, wait: usize| {
        first != then && reached[3 * first.index() + 2][3 * then.index() + wait]
    };
    let mut found = Found::new();
    // (allocation, its free node, bytes of it where they are known)
    let mut made: Vec<(NodeId, Option<NodeId>, ByteRange)> = Vec::new();
    let mut taken = Vec::new();
    let named = |alloc: NodeId| {
        let all = trace.buffers.iter();
        all.filter_map(move |buffer| match buffer.kind {
            BufferKind::Graph { alloc: by, free } if by == alloc => Some((buffer.range, free)),
            _ => None,
        })
    };
    for buffer in &trace.buffers {
        if let BufferKind::Graph { free, .. } = buffer.kind {
            taken.extend(free);
        }
    }
    for (at, node) in trace.nodes.iter().enumerate() {
        if let NodeKind::MemAlloc(alloc) = &node.kind {
            let id = NodeId::at(at);
            // Where the node does not say its bytes, its buffers do.
            let own = ByteRange::new(alloc.at, alloc.at + alloc.bytes);
            let pieces: Vec<ByteRange> = match alloc.at {
                0 => named(id).map(|(range, _)| range).collect(),
                _ => vec![own],
            };
            let start = pieces.iter().map(|bytes| bytes.start).min();
            // Memory without a name says of no free node whose it is.
            let said = named(id).find_map(|(_, free)| free);
            let free = said.or_else(|| {
                let frees = trace.nodes.iter().enumerate();
                let free = frees.map(|(at, node)| (NodeId::at(at), &node.kind));
                free.filter(
                    |(_, kind)| matches!(kind, NodeKind::MemFree(free) if Some(free.at) == start),
                )
                .map(|(id, _)| id)
                .find(|id| !taken.contains(id))
            });
            taken.extend(free);
            made.extend(pieces.into_iter().map(|bytes| (id, free, bytes)));
            if alloc.at == 0 && start.is_none() {
                made.push((id, free, ByteRange::default()));
            }
        }
    }
    for (at, node) in trace.nodes.iter().enumerate() {
        let id = NodeId::at(at);
        if matches!(&node.kind, NodeKind::MemFree(free) if free.at != 0) && !taken.contains(&id) {
            let NodeKind::MemFree(free) = &node.kind else {
                continue;
            };
            let twice = made
                .iter()
                .find(|(_, by, bytes)| by.is_some() && bytes.start == free.at);
            found.insert((Rule::FreeTooEarly, Some(id), twice.and_then(|made| made.1)));
        }
    }
    for &(alloc, free, _) in &made {
        if let Some(free) = free
            && !ends(alloc, free, 0)
        {
            found.insert((Rule::FreeTooEarly, Some(alloc), Some(free)));
        }
    }
    for access in trace.accesses[..count]
        .iter()
        .filter(|a| !a.bytes.is_empty())
    {
        let wait = usize::from(access.phase == Phase::AfterWait);
        if let BufferKind::Graph { alloc, .. } = trace.buffer(access.buffer).kind {
            let free = made
                .iter()
                .find(|made| made.0 == alloc)
                .and_then(|made| made.1);
            if let Some(free) = free
                && !ends(access.node, free, 0)
            {
                found.insert((Rule::FreeTooEarly, Some(access.node), Some(free)));
            }
            continue;
        }
        let bytes = device(trace, access);
        let near: Vec<_> = made.iter().filter(|made| made.2.overlaps(&bytes)).collect();
        let began = |alloc| ends(alloc, access.node, wait);
        let over = |free: Option<NodeId>| free.is_some_and(|free| !ends(access.node, free, 0));
        let missing = (bytes.start..bytes.end).any(|byte| {
            let mut here = near
                .iter()
                .filter(|made| made.2.contains_byte(byte))
                .peekable();
            here.peek().is_some() && !here.any(|made| began(made.0) && !over(made.1))
        });
        if !missing {
            continue;
        }
        if let Some((_, free, _)) = near.iter().find(|made| began(made.0) && over(made.1)) {
            found.insert((Rule::FreeTooEarly, Some(access.node), *free));
        } else if let Some((alloc, ..)) = near.iter().find(|made| !began(made.0)) {
            found.insert((Rule::OwnerGone, Some(access.node), Some(*alloc)));
        }
    }
    found
}

/// The hazards of a trace, and those of them that are proven: what the declared
/// accesses and the operands alone show. An access that is only possible counts as
/// a read and write, unless its node declares all of its bytes; as a write it may
/// be what a read needs, as a read it needs nothing.
pub(crate) fn oracle(given: &Trace) -> (Found, Found) {
    let (trace, freed) = shown(given);
    let count = trace.accesses.len();
    let proven = declared(&trace);
    let mut any = trace.clone();
    for word in &trace.possible {
        let covered = |byte: u64| {
            trace.accesses.iter().any(|access| {
                access.node == word.node
                    && access.buffer == word.buffer
                    && access.bytes.contains_byte(byte)
            })
        };
        let kind = &trace.node(word.node).kind;
        let of_rows = matches!(kind, NodeKind::Memcpy(_) | NodeKind::Memset(_));
        if of_rows || !(word.bytes.start..word.bytes.end).all(covered) {
            let mode = AccessMode::ReadWrite;
            any.add_access(Access::new(word.node, word.buffer, word.bytes, mode));
        }
    }
    let with_possible = declared(&any);
    let other =
        |hazard: &&(Rule, Option<NodeId>, Option<NodeId>)| hazard.0 != Rule::ReadBeforeWrite;
    // Reads of possible accesses are not of the trace: what of R13 they raise
    // goes, and what a possible write covers is no longer proven.
    let surely = reads(&any, count);
    let mut proven_all: Found = proven.iter().filter(other).copied().collect();
    proven_all.extend(surely);
    let mut all: Found = proven.clone();
    all.extend(with_possible.iter().filter(other));
    proven_all.extend(overwritten(&any, count, count));
    all.extend(overwritten(&any, count, any.accesses.len()));
    let foreign = |hazard: &(Rule, Option<NodeId>, Option<NodeId>)| {
        let free = |kind: &NodeKind| matches!(kind, NodeKind::MemFree(_));
        hazard.0 == Rule::FreeTooEarly
            && hazard.2.is_none()
            && hazard.1.is_some_and(|node| free(&trace.node(node).kind))
    };
    let owners: BTreeSet<u64> = given.buffers.iter().map(|b| b.range.start).collect();
    proven_all.extend(graph_memory(&any, count).into_iter().filter(|hazard| {
        // A free of what the graph does not allocate is proven where it is that of
        // a buffer.
        let at = |node: NodeId| match &trace.node(node).kind {
            NodeKind::MemFree(free) => free.at,
            _ => 0,
        };
        !foreign(hazard) || hazard.1.is_some_and(|node| owners.contains(&at(node)))
    }));
    all.extend(graph_memory(&any, any.accesses.len()));
    all.extend(
        freed
            .into_iter()
            .map(|node| (Rule::OwnerGone, Some(node), None)),
    );
    (all, proven_all)
}

/// R13 of the first `count` accesses, with all accesses as writes.
fn reads(trace: &Trace, count: usize) -> Found {
    let reached = closure(trace);
    let before = |first: NodeId, then: &Access| {
        let wait = usize::from(then.phase == Phase::AfterWait);
        first != then.node && reached[3 * first.index() + 2][3 * then.node.index() + wait]
    };
    trace.accesses[..count]
        .iter()
        .filter(|read| needs_write(trace.buffer(read.buffer)) && read.mode.reads())
        // What a join of declared writes would put right is R1's.
        .filter(|read| {
            (read.bytes.start..read.bytes.end).any(|byte| {
                !trace.accesses.iter().enumerate().any(|(at, write)| {
                    let late = write.node < read.node && write.mode.conflicts(read.mode);
                    write.buffer == read.buffer
                        && write.mode.writes()
                        && write.bytes.contains_byte(byte)
                        && (at < count && late || before(write.node, read))
                })
            })
        })
        .map(|read| (Rule::ReadBeforeWrite, Some(read.node), None))
        .collect()
}

/// R2 with one access, of the first `count`: it writes a byte of a carried
/// buffer of which no access of the first `declared` touches it.
fn overwritten(trace: &Trace, declared: usize, count: usize) -> Found {
    let mut found = Found::new();
    for write in trace.accesses[..count].iter().filter(|a| a.mode.writes()) {
        let written = device(trace, write);
        for (at, owner) in trace.buffers.iter().enumerate() {
            let touches = |byte: u64| {
                let own = trace.accesses[..declared].iter();
                own.filter(|a| a.buffer.index() == at)
                    .any(|a| device(trace, a).contains_byte(byte))
            };
            let lost = |byte| owner.range.contains_byte(byte) && !touches(byte);
            if carried(owner)
                && write.buffer.index() != at
                && (written.start..written.end).any(lost)
            {
                found.insert((Rule::SharedBytes, Some(write.node), None));
            }
        }
    }
    found
}

/// R1, R2, R4 and R13 of a trace whose nodes stand in an order of its edges.
fn declared(trace: &Trace) -> Found {
    let reached = closure(trace);
    let before = |first: NodeId, then: &Access| {
        let at = match then.phase {
            Phase::BeforeWait => 3 * then.node.index(),
            Phase::AfterWait => 3 * then.node.index() + 1,
        };
        first != then.node && reached[3 * first.index() + 2][at]
    };
    let mut found = Found::new();
    let touching: Vec<&Access> = trace
        .accesses
        .iter()
        .filter(|a| !a.bytes.is_empty())
        .collect();
    for (i, &x) in touching.iter().enumerate() {
        for &y in &touching[i + 1..] {
            let (x, y) = if x.node <= y.node { (x, y) } else { (y, x) };
            if !device(trace, x).overlaps(&device(trace, y)) {
                continue;
            }
            let pair = (Some(x.node), Some(y.node));
            if x.buffer == y.buffer {
                if x.node != y.node && x.mode.conflicts(y.mode) && !before(x.node, y) {
                    found.insert((Rule::UnorderedConflict, pair.0, pair.1));
                }
                continue;
            }
            if !x.mode.writes() && !y.mode.writes() {
                continue;
            }
            let carried = |a: &Access| carried(trace.buffer(a.buffer));
            let spoilt = (carried(x) && y.mode.writes())
                || (carried(y) && x.mode.writes() && y.mode.reads());
            // Some other pair of the same two buffers, ordered and earlier,
            // goes the other way.
            let against = touching.iter().any(|&p| {
                touching.iter().any(|&q| {
                    p.buffer == y.buffer
                        && q.buffer == x.buffer
                        && (p.mode.writes() || q.mode.writes())
                        && device(trace, p).overlaps(&device(trace, q))
                        && before(p.node, q)
                        && !spoils(trace, p, q)
                        && leads(trace, &touching, &before, p, q)
                })
            });
            if !before(x.node, y) || spoilt || against {
                found.insert((Rule::SharedBytes, pair.0, pair.1));
            }
        }
    }
    for &access in &touching {
        let buffer = trace.buffer(access.buffer);
        match &buffer.kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => {
                for &node in &alloc.frontier {
                    if !before(node, access) {
                        found.insert((Rule::OwnerGone, Some(access.node), Some(node)));
                    }
                }
                if (alloc.frontier.is_empty() && access.node < alloc.before)
                    || freed_before.is_some_and(|freed| access.node >= freed)
                {
                    found.insert((Rule::OwnerGone, Some(access.node), None));
                }
            }
            BufferKind::Graph { alloc, .. } if !before(*alloc, access) => {
                found.insert((Rule::OwnerGone, Some(access.node), Some(*alloc)));
            }
            _ => {}
        }
        if !needs_write(buffer) || !access.mode.reads() {
            continue;
        }
        // A write that stands before the read and that nothing orders is R1's, where
        // the two conflict.
        let covered = |byte: u64| {
            touching.iter().any(|write| {
                let joined = write.node < access.node && write.mode.conflicts(access.mode);
                write.buffer == access.buffer
                    && write.mode.writes()
                    && write.bytes.contains_byte(byte)
                    && (joined || before(write.node, access))
            })
        };
        if (access.bytes.start..access.bytes.end).any(|byte| !covered(byte)) {
            found.insert((Rule::ReadBeforeWrite, Some(access.node), None));
        }
    }
    found
}

fn spoils(trace: &Trace, first: &Access, then: &Access) -> bool {
    let carried = |a: &Access| carried(trace.buffer(a.buffer));
    (carried(first) && then.mode.writes())
        || (carried(then) && first.mode.writes() && then.mode.reads())
}

/// Whether no ordered pair of the two buffers comes before `p`, `q`.
fn leads(
    trace: &Trace,
    touching: &[&Access],
    before: &dyn Fn(NodeId, &Access) -> bool,
    p: &Access,
    q: &Access,
) -> bool {
    let (a, b) = (p.buffer, q.buffer);
    !touching.iter().any(|&r| {
        touching.iter().any(|&s| {
            let same = (r.buffer == a && s.buffer == b) || (r.buffer == b && s.buffer == a);
            same && (r.mode.writes() || s.mode.writes())
                && device(trace, r).overlaps(&device(trace, s))
                && before(r.node, s)
                && !spoils(trace, r, s)
                && (r.node, s.node, r.buffer) < (p.node, q.node, p.buffer)
        })
    })
}
