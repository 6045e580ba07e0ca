//! What is known of one buffer as a whole, in few words, since the sweep asks it
//! for each access.

use streamweir_trace::BufferKind;

use crate::reach::Reach;

/// What is known of the accesses of one buffer as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// The places of its first and its last node in the order of the graph; the
    /// first is above the last when nothing touches the buffer.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// How many accesses it has, those that are not declared included.
    pub(crate) count: u32,
    /// The cells of the map of addresses that the buffer covers; none for one
    /// that stays out.
    pub(crate) cells: (u32, u32),
    pub(crate) written: bool,
    /// Whether a pool placed it, so that its bytes may be anybody's before and
    /// after.
    pub(crate) placed: bool,
    /// Whether a read of the buffer needs a write before it (R13).
    pub(crate) needs_write: bool,
    /// Whether what the buffer holds matters from one replay to the next.
    pub(crate) carried: bool,
    pub(crate) owner: Owner,
}

/// When the memory of a buffer is there for its nodes (R4), as far as it can be
/// said in a few words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// For all nodes.
    Always,
    /// For those that come after the node at this place of this chain, and were
    /// recorded before `freed`.
    Between { chain: u16, index: u32, freed: u32 },
    /// For those that come after as many [`alloc_points`](Accesses) from one on,
    /// and were recorded before `freed`.
    Behind { points: u16, from: u32, freed: u32 },
    /// Harder to say: the buffer itself must be asked.
    Ask,
}

impl Owner {
    /// `points` is where the nodes go that a buffer is taken behind when there
    /// are several.
    pub(super) fn of(kind: &BufferKind, reach: &Reach, points: &mut Vec<(u32, u32)>) -> Self {
        let between = |taken, freed| {
            let (chain, index) = reach.place(taken);
            Self::Between {
                // The order refuses graphs of more chains than 16 bits can number.
                chain: chain as u16,
                index,
                freed,
            }
        };
        match kind {
            BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } => {
                let freed = freed_before.map_or(u32::MAX, |freed| freed.0);
                match alloc.frontier[..] {
                    [] => Self::Ask,
                    [taken] => between(taken, freed),
                    ref several => {
                        let sizes = (u16::try_from(several.len()), u32::try_from(points.len()));
                        let (Ok(count), Ok(from)) = sizes else {
                            return Self::Ask;
                        };
                        points.extend(several.iter().map(|&node| reach.place(node)));
                        Self::Behind {
                            points: count,
                            from,
                            freed,
                        }
                    }
                }
            }
            BufferKind::Graph { alloc, .. } => between(*alloc, u32::MAX),
            BufferKind::Workspace { .. } | BufferKind::Persistent | BufferKind::Foreign { .. } => {
                Self::Always
            }
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

impl Life {
    /// Takes note of an access by the node at this place in the order of the
    /// graph.
    pub(super) fn see(&mut self, place: u32, writes: bool) {
        self.first = self.first.min(place);
        self.last = self.last.max(place);
        self.count += 1;
        self.written |= writes;
    }
}
