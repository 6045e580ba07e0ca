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

use std::cell::OnceCell;
use std::collections::HashMap;

use streamweir_trace::{AccessMode, BufferId, BufferKind, ByteRange, NodeId, Phase, Trace};

use crate::graph::Graph;
use crate::sweep::first_gap;

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

/// What is known of the accesses of one buffer as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// The places of its first and its last node in the order of the graph; the
    /// first is above the last when nothing touches the buffer.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// How many accesses it has, those that are not declared included.
    pub(crate) count: u32,
    pub(crate) written: bool,
    /// Whether what the buffer holds matters from one replay to the next.
    pub(crate) carried: bool,
    /// Whether a read of it needs a write before it (R13).
    pub(crate) needs_write: bool,
    pub(crate) owner: Owner,
}

/// When the memory of a buffer is there for its nodes (R4), as far as it can be
/// said in a few words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// For all nodes.
    Always,
    /// For those that come after `taken` and were recorded before `freed`.
    Between { taken: NodeId, freed: u32 },
    /// Harder to say: the buffer itself must be asked.
    Ask,
}

impl Owner {
    fn of(kind: &BufferKind) -> Self {
        match kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => match alloc.frontier[..] {
                [taken] => Self::Between {
                    taken,
                    freed: freed_before.map_or(u32::MAX, |freed| freed.0),
                },
                _ => Self::Ask,
            },
            BufferKind::Graph { alloc, .. } => Self::Between {
                taken: *alloc,
                freed: u32::MAX,
            },
            BufferKind::Workspace { .. } | BufferKind::Persistent => Self::Always,
        }
    }
}

impl Life {
    /// Whether all nodes that use one buffer stand behind all that use the
    /// other, in the order of the graph, and neither has anything to keep.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        !self.carried && !other.carried && (self.last < other.first || other.last < self.first)
    }
}

/// The accesses of a trace.
#[derive(Debug)]
pub(crate) struct Accesses<'a> {
    trace: &'a Trace,
    /// The accesses by node, and those before the wait of their node first;
    /// `None` when that is how the trace lists them.
    order: Option<Vec<u32>>,
    lives: Vec<Life>,
    by_buffer: OnceCell<(Vec<u32>, Vec<u32>)>,
}

impl<'a> Accesses<'a> {
    pub(crate) fn new(trace: &'a Trace, graph: &Graph) -> Self {
        let mut lives: Vec<Life> = trace
            .buffers
            .iter()
            .map(|buffer| Life {
                first: u32::MAX,
                last: 0,
                count: 0,
                written: false,
                carried: buffer.carried,
                needs_write: !buffer.carried && matches!(buffer.kind, BufferKind::Scratch { .. }),
                owner: Owner::of(&buffer.kind),
            })
            .collect();
        let mut sorted = true;
        let mut latest = 0;
        for access in &trace.accesses {
            let place = graph.position(access.node);
            let key = u64::from(place) << 1 | u64::from(access.phase == Phase::AfterWait);
            sorted &= latest <= key;
            latest = key;
            if !access.bytes.is_empty() {
                lives[access.buffer.index()].see(place, access.mode.writes());
            }
        }
        let possible = undeclared(trace);
        for &at in &possible {
            let access = &trace.possible[at as usize];
            lives[access.buffer.index()].see(graph.position(access.node), true);
        }
        let mut this = Self {
            trace,
            order: None,
            lives,
            by_buffer: OnceCell::new(),
        };
        if !sorted || !possible.is_empty() {
            let declared = trace.accesses.len() as u32;
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
        let sorted = match &self.order {
            Some(_) => 0,
            None => self.trace.accesses.len() as u32,
        };
        (0..sorted).chain(self.order.iter().flatten().copied())
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
    pub(crate) fn life(&self, buffer: BufferId) -> &Life {
        &self.lives[buffer.index()]
    }
}

impl Life {
    fn see(&mut self, place: u32, writes: bool) {
        self.first = self.first.min(place);
        self.last = self.last.max(place);
        self.count += 1;
        self.written |= writes;
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

/// The possible accesses of which the same node declares not all bytes.
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
    (0_u32..)
        .zip(&trace.possible)
        .filter(|(_, access)| {
            let ranges = declared.get_mut(&(access.node, access.buffer));
            ranges.is_some_and(|ranges| first_gap(access.bytes, ranges).is_some())
        })
        .map(|(at, _)| at)
        .collect()
}
