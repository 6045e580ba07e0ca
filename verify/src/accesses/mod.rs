//! The accesses of a trace in the order of the graph, and what is known of each
//! buffer as a whole.
//!
//! Nothing is copied that the trace has already: an access is a number, and
//! becomes a [`Touch`] when it is looked at. A recorded capture lists its
//! accesses in the order of its nodes, so mostly not even a permutation is
//! needed.
//!
//! A word of a kernel's parameters that may be a pointer counts as an access
//! too, as one that is not declared, unless the same node declares accesses of
//! those bytes: then it says nothing new.

pub(crate) mod known;
mod life;
mod made;
mod map;
mod shown;
pub(crate) mod words;

use std::cell::OnceCell;
use std::collections::HashMap;

use streamweir_trace::{
    AccessMode, BufferId, BufferKind, ByteRange, NodeId, NodeKind, Phase, RangeSet, Trace,
};

use crate::graph::Graph;
use crate::reach::Reach;

pub(crate) use life::{Life, Owner};
pub(crate) use map::{AddressMap, Recent};
pub use shown::Shown;

/// One access that touches at least one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) node: NodeId,
    pub(crate) phase: Phase,
    /// Read-write for an access that is not declared, which may be anything.
    pub(crate) mode: AccessMode,
    pub(crate) buffer: BufferId,
    /// Device addresses.
    pub(crate) bytes: ByteRange,
    /// False for a word of a parameter that makes the access possible.
    pub(crate) declared: bool,
}

/// What an access does, apart from where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) node: NodeId,
    pub(crate) phase: Phase,
    /// As [`Touch::mode`].
    pub(crate) mode: AccessMode,
    pub(crate) declared: bool,
}

/// The accesses of a trace.
#[derive(Debug)]
pub(crate) struct Accesses<'a> {
    trace: &'a Trace,
    /// The accesses by node, and those before the wait of their node first;
    /// `None` when that is how the trace lists them.
    order: Option<Vec<u32>>,
    lives: Vec<Life>,
    /// The places of the nodes behind which buffers are taken, chain and index,
    /// of buffers that are taken behind several.
    alloc_points: Vec<(u32, u32)>,
    /// The accesses of a part of their buffer, and not of all of it.
    partial: Vec<u32>,
    by_buffer: OnceCell<(Vec<u32>, Vec<u32>)>,
}

impl<'a> Accesses<'a> {
    pub(crate) fn new(trace: &'a Trace, graph: &Graph, reach: &Reach) -> Self {
        let mut alloc_points = Vec::new();
        let mut lives: Vec<Life> = trace
            .buffers
            .iter()
            .map(|buffer| Life {
                first: u32::MAX,
                last: 0,
                count: 0,
                cells: (0, 0),
                written: false,
                placed: matches!(
                    buffer.kind,
                    BufferKind::Scratch { .. } | BufferKind::Workspace { .. }
                ),
                needs_write: buffer.needs_a_write_first(),
                carried: buffer.keeps_its_bytes(),
                owner: Owner::of(&buffer.kind, reach, &mut alloc_points),
            })
            .collect();
        let mut partial = Vec::new();
        let lengths: Vec<u64> = trace.buffers.iter().map(|b| b.range.len()).collect();
        let mut see = |id: u32, buffer: BufferId, bytes: ByteRange, place: u32, writes: bool| {
            if bytes.is_empty() {
                return;
            }
            let life = &mut lives[buffer.index()];
            life.see(place, writes);
            if bytes.len() < lengths[buffer.index()] {
                partial.push(id);
            }
        };
        let mut sorted = true;
        let mut latest = 0;
        for (id, access) in (0..).zip(&trace.accesses) {
            let place = graph.position(access.node);
            let key = u64::from(place) << 1 | u64::from(access.phase == Phase::AfterWait);
            sorted &= latest <= key;
            latest = key;
            see(id, access.buffer, access.bytes, place, access.mode.writes());
        }
        let declared = trace.accesses.len() as u32;
        let possible = undeclared(trace);
        for &at in &possible {
            let access = &trace.possible[at as usize];
            let place = graph.position(access.node);
            see(declared + at, access.buffer, access.bytes, place, true);
        }
        let mut this = Self {
            trace,
            order: None,
            lives,
            alloc_points,
            partial,
            by_buffer: OnceCell::new(),
        };
        if !sorted || !possible.is_empty() {
            let all = (0..declared).chain(possible.iter().map(|at| declared + at));
            let order = grouped(trace.nodes.len() * 2, all, |id| {
                let access = this.kind(id);
                let after = access.phase == Phase::AfterWait;
                graph.position(access.node) as usize * 2 + usize::from(after)
            });
            this.order = Some(order.1);
        }
        this
    }

    fn possible(&self, id: u32) -> &'a streamweir_trace::PossibleAccess {
        &self.trace.possible[id as usize - self.trace.accesses.len()]
    }

    /// What the access with this number does.
    #[inline]
    pub(crate) fn kind(&self, id: u32) -> Kind {
        match self.trace.accesses.get(id as usize) {
            Some(access) => Kind {
                node: access.node,
                phase: access.phase,
                mode: access.mode,
                declared: true,
            },
            None => Kind {
                node: self.possible(id).node,
                phase: Phase::AfterWait,
                mode: AccessMode::ReadWrite,
                declared: false,
            },
        }
    }

    /// The access with this number.
    pub(crate) fn touch(&self, id: u32) -> Touch {
        let Kind {
            node,
            phase,
            mode,
            declared,
        } = self.kind(id);
        let (buffer, bytes) = self.place(id);
        // The form check has established that the access lies in its buffer.
        let base = self.trace.buffer(buffer).range.start;
        Touch {
            node,
            phase,
            mode,
            buffer,
            bytes: ByteRange::new(base + bytes.start, base + bytes.end),
            declared,
        }
    }

    /// The buffer of an access and the bytes of it that are touched, counted
    /// from its first.
    #[inline]
    pub(crate) fn place(&self, id: u32) -> (BufferId, ByteRange) {
        match self.trace.accesses.get(id as usize) {
            Some(access) => (access.buffer, access.bytes),
            None => (self.possible(id).buffer, self.possible(id).bytes),
        }
    }

    /// The numbers of all accesses, in the order of the graph; those of a node
    /// before its wait come before those after it.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        let count = match &self.order {
            Some(order) => order.len(),
            None => self.trace.accesses.len(),
        };
        (0..count as u32).map(|at| match &self.order {
            Some(order) => order[at as usize],
            None => at,
        })
    }

    /// What an access of this node at this clock has behind it, of the nodes that
    /// must be, when its buffer is surely there for it: how many there are.
    /// `None` when the buffer itself must be asked.
    #[inline]
    pub(crate) fn surely_owned(&self, owner: Owner, node: NodeId, clock: &[u32]) -> Option<u64> {
        let ended = |&(chain, index): &(u32, u32)| {
            let ended = clock.get(chain as usize);
            ended.is_some_and(|&ended| index < ended)
        };
        match owner {
            Owner::Always => Some(0),
            Owner::Between {
                chain,
                index,
                freed,
            } => (node.0 < freed && ended(&(chain.into(), index))).then_some(1),
            Owner::Behind {
                points,
                from,
                freed,
            } => {
                let points = &self.alloc_points[from as usize..][..usize::from(points)];
                (node.0 < freed && points.iter().all(ended)).then_some(points.len() as u64)
            }
            Owner::Ask => None,
        }
    }

    /// The numbers of the accesses that touch some bytes of their buffer and not
    /// all, in no particular order.
    pub(crate) fn partial(&self) -> &[u32] {
        &self.partial
    }

    /// Every access of at least one byte, in the order of the graph.
    pub(crate) fn all(&self) -> impl Iterator<Item = Touch> + '_ {
        self.ids()
            .map(|id| self.touch(id))
            .filter(|touch| !touch.bytes.is_empty())
    }

    /// The accesses of one buffer, in the order of the graph.
    pub(crate) fn of(&self, buffer: BufferId) -> impl Iterator<Item = Touch> + '_ {
        let (first, ids) = self.by_buffer.get_or_init(|| {
            grouped(self.trace.buffers.len(), self.ids(), |id| {
                self.place(id).0.index()
            })
        });
        let at = buffer.index();
        ids[first[at] as usize..first[at + 1] as usize]
            .iter()
            .map(|&id| self.touch(id))
            .filter(|touch| !touch.bytes.is_empty())
    }

    /// What is known of the accesses of a buffer as a whole.
    #[inline]
    pub(crate) fn life(&self, buffer: BufferId) -> &Life {
        &self.lives[buffer.index()]
    }

    /// The same of all buffers, in the order of their table.
    pub(crate) fn lives(&self) -> &[Life] {
        &self.lives
    }

    /// To tell each buffer its cells.
    pub(crate) fn lives_mut(&mut self) -> &mut [Life] {
        &mut self.lives
    }
}

/// `ids` in groups, each in the order given: where each group starts, and the
/// groups one after the other.
fn grouped(
    groups: usize,
    ids: impl Iterator<Item = u32> + Clone,
    group: impl Fn(u32) -> usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; groups + 1];
    for id in ids.clone() {
        first[group(id) + 1] += 1;
    }
    for at in 1..first.len() {
        first[at] += first[at - 1];
    }
    let mut next = first.clone();
    let mut sorted = vec![0; first[groups] as usize];
    for id in ids {
        let slot = &mut next[group(id)];
        sorted[*slot as usize] = id;
        *slot += 1;
    }
    (first, sorted)
}

/// The possible accesses of which the same node declares not all bytes. Those of a copy
/// or a fill stand for rows that no declaration of their mode covers, so that a
/// declaration to read says nothing of what a fill may write.
fn undeclared(trace: &Trace) -> Vec<u32> {
    if trace.possible.is_empty() {
        return Vec::new();
    }
    let mut declared: HashMap<(NodeId, BufferId), Vec<ByteRange>> = trace
        .possible
        .iter()
        .map(|access| ((access.node, access.buffer), Vec::new()))
        .collect();
    for access in &trace.accesses {
        if let Some(ranges) = declared.get_mut(&(access.node, access.buffer)) {
            ranges.push(access.bytes);
        }
    }
    let declared: HashMap<(NodeId, BufferId), RangeSet> = declared
        .into_iter()
        .map(|(of, ranges)| (of, ranges.into_iter().collect()))
        .collect();
    (0_u32..)
        .zip(&trace.possible)
        .filter(|(_, access)| {
            let kind = &trace.node(access.node).kind;
            if matches!(kind, NodeKind::Memcpy(_) | NodeKind::Memset(_)) {
                return true;
            }
            let ranges = declared.get(&(access.node, access.buffer));
            ranges.is_some_and(|ranges| !ranges.covers(&access.bytes))
        })
        .map(|(at, _)| at)
        .collect()
}
