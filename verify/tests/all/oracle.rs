//! The definition, computed the slow way: the full closure of the three times
//! of every node, and all pairs of accesses.

use std::collections::BTreeSet;

use streamweir_trace::{
    Access, AccessMode, BufferKind, ByteRange, EdgeKind, NodeId, PdlWait, Phase, Trace,
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

/// The hazards of a trace, and those of them that are proven: what the declared
/// accesses alone show. An access that is only possible counts as a read and
/// write, unless its node declares all of its bytes; as a write it may be what
/// a read needs, as a read it needs nothing.
pub(crate) fn oracle(trace: &Trace) -> (Found, Found) {
    let proven = declared(trace);
    let mut any = trace.clone();
    for word in &trace.possible {
        let covered = |byte: u64| {
            trace.accesses.iter().any(|access| {
                access.node == word.node
                    && access.buffer == word.buffer
                    && access.bytes.contains_byte(byte)
            })
        };
        if !(word.bytes.start..word.bytes.end).all(covered) {
            let mode = AccessMode::ReadWrite;
            any.add_access(Access::new(word.node, word.buffer, word.bytes, mode));
        }
    }
    let with_possible = declared(&any);
    let other =
        |hazard: &&(Rule, Option<NodeId>, Option<NodeId>)| hazard.0 != Rule::ReadBeforeWrite;
    // Reads of possible accesses are not of the trace: what of R13 they raise
    // goes, and what a possible write covers is no longer proven.
    let surely = reads(&any, trace.accesses.len());
    let mut proven_all: Found = proven.iter().filter(other).copied().collect();
    proven_all.extend(surely);
    let mut all: Found = proven.clone();
    all.extend(with_possible.iter().filter(other));
    proven_all.extend(overwritten(&any, trace.accesses.len()));
    all.extend(overwritten(&any, any.accesses.len()));
    (all, proven_all)
}

/// R13 of the first `count` accesses, with all accesses as writes.
fn reads(trace: &Trace, count: usize) -> Found {
    let found = declared(trace);
    let reached = closure(trace);
    let before = |first: NodeId, then: &Access| {
        let wait = usize::from(then.phase == Phase::AfterWait);
        first != then.node && reached[3 * first.index() + 2][3 * then.node.index() + wait]
    };
    trace.accesses[..count]
        .iter()
        .filter(|read| {
            let buffer = trace.buffer(read.buffer);
            let scratch = matches!(buffer.kind, BufferKind::Scratch { .. });
            scratch && !buffer.carried && read.mode.reads()
        })
        .filter(|read| {
            (read.bytes.start..read.bytes.end).any(|byte| {
                !trace.accesses.iter().any(|write| {
                    write.buffer == read.buffer
                        && write.mode.writes()
                        && write.bytes.contains_byte(byte)
                        && before(write.node, read)
                })
            })
        })
        .map(|read| (Rule::ReadBeforeWrite, Some(read.node), None))
        .inspect(|hazard| assert!(found.contains(hazard)))
        .collect()
}

/// R2 with one access, of the first `count`: it writes a byte of a carried
/// buffer of which no access touches it.
fn overwritten(trace: &Trace, count: usize) -> Found {
    let mut found = Found::new();
    for write in trace.accesses[..count].iter().filter(|a| a.mode.writes()) {
        let written = device(trace, write);
        for (at, owner) in trace.buffers.iter().enumerate() {
            let touches = |byte: u64| {
                let own = trace.accesses.iter().filter(|a| a.buffer.index() == at);
                own.into_iter()
                    .any(|a| device(trace, a).contains_byte(byte))
            };
            let lost = |byte| owner.range.contains_byte(byte) && !touches(byte);
            if owner.carried && write.buffer.index() != at && (written.start..written.end).any(lost)
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
            let carried = |a: &Access| trace.buffer(a.buffer).carried;
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
        let (alloc, freed_before) = match &buffer.kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => (alloc, freed_before),
            BufferKind::Graph { alloc, .. } => {
                if !before(*alloc, access) {
                    found.insert((Rule::OwnerGone, Some(access.node), Some(*alloc)));
                }
                continue;
            }
            BufferKind::Workspace { .. } | BufferKind::Persistent => continue,
        };
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
        if buffer.carried || !access.mode.reads() {
            continue;
        }
        let covered = |byte: u64| {
            touching.iter().any(|write| {
                write.buffer == access.buffer
                    && write.mode.writes()
                    && write.bytes.contains_byte(byte)
                    && before(write.node, access)
            })
        };
        if (access.bytes.start..access.bytes.end).any(|byte| !covered(byte)) {
            found.insert((Rule::ReadBeforeWrite, Some(access.node), None));
        }
    }
    found
}

fn spoils(trace: &Trace, first: &Access, then: &Access) -> bool {
    let carried = |a: &Access| trace.buffer(a.buffer).carried;
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
