//! Which memory is known, and what it was when a node was recorded.
//!
//! Addresses are reused: one address may have been several buffers during a
//! capture, memory that nobody keeps alive now, and memory that is gone. What
//! an address means therefore depends on the node that uses it. A
//! [`KnownMemory`] answers that question for anyone who has ranges with a life:
//! the loader of a capture dump, and the audit of a live graph.

use streamweir_trace::{BufferId, BufferKind, ByteRange, NodeId, Trace};

/// The nodes during whose recording something existed: those from `from` on
/// and before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The first node.
    pub from: NodeId,
    /// The first node after it; `None` when it existed to the end of the
    /// capture.
    pub until: Option<NodeId>,
}

impl Life {
    /// Before, during and after the capture.
    pub const WHOLE: Self = Self {
        from: NodeId(0),
        until: None,
    };

    /// Whether it existed when `node` was recorded.
    pub fn covers(&self, node: NodeId) -> bool {
        self.from <= node && self.until.is_none_or(|until| node < until)
    }

    /// Whether it was over when `node` was recorded.
    pub fn over_at(&self, node: NodeId) -> bool {
        self.until.is_some_and(|until| until <= node)
    }

    fn length(&self) -> u32 {
        let until = self.until.map_or(u32::MAX, |until| until.0);
        until.saturating_sub(self.from.0)
    }
}

/// What a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// A buffer of the trace, for as long as its life lasts.
    Buffer {
        /// The buffer.
        id: BufferId,
        /// The bytes of the buffer that an address in the piece may stand for,
        /// counted from its first: all of it, as a rule.
        bytes: ByteRange,
        /// How long the buffer is there.
        life: Life,
    },
    /// Allocated device memory that nothing of the trace keeps alive.
    Live,
    /// Memory that was freed: a tombstone.
    Freed,
}

/// A piece of memory with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its device addresses.
    pub range: ByteRange,
    /// Its name, or nothing.
    pub name: String,
    /// What it is.
    pub known: Known,
}

/// What an address is to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning<'a> {
    /// A byte of a buffer that was there.
    Buffer(BufferId, &'a Memory),
    /// A byte of memory that nothing keeps alive.
    Live(&'a Memory),
    /// A byte of memory that was gone.
    Freed(&'a Memory),
}

/// All memory that is known, by address.
#[derive(Clone, Debug, Default)]
pub struct KnownMemory {
    /// Sorted by first byte.
    pieces: Vec<Memory>,
    /// For each piece, the highest end among it and all before it.
    reach: Vec<u64>,
}

impl KnownMemory {
    /// All of `pieces`, which may overlap and come in any order. Empty ranges
    /// are of no use and left out.
    pub fn new(pieces: impl IntoIterator<Item = Memory>) -> Self {
        let mut pieces: Vec<Memory> = pieces
            .into_iter()
            .filter(|piece| piece.range.start < piece.range.end)
            .collect();
        pieces.sort_by_key(|piece| piece.range);
        let mut highest = 0;
        let reach = pieces
            .iter()
            .map(|piece| {
                highest = highest.max(piece.range.end);
                highest
            })
            .collect();
        Self { pieces, reach }
    }

    /// The buffers of a trace, each for the life that its kind gives it, and
    /// `more`.
    pub fn of_trace(trace: &Trace, more: impl IntoIterator<Item = Memory>) -> Self {
        let buffers = trace.buffers.iter().enumerate().map(|(at, buffer)| {
            let life = match &buffer.kind {
                BufferKind::Scratch {
                    alloc,
                    freed_before,
                    ..
                } => Life {
                    from: alloc.before,
                    until: *freed_before,
                },
                // Whoever records the allocation node gets the address.
                BufferKind::Graph { alloc, .. } => Life {
                    from: *alloc,
                    until: None,
                },
                BufferKind::Workspace { .. }
                | BufferKind::Persistent
                | BufferKind::Foreign { .. } => Life::WHOLE,
            };
            Memory {
                range: buffer.range,
                name: buffer.name.clone(),
                known: Known::Buffer {
                    id: BufferId::at(at),
                    bytes: ByteRange::new(0, buffer.range.len()),
                    life,
                },
            }
        });
        Self::new(buffers.chain(more))
    }

    /// What the byte at `address` was when `node` was recorded; `None` when it
    /// lies in no known memory, or in none that had been there yet.
    ///
    /// Of several buffers that were there the one with the shortest life is
    /// meant: two lives overlap only where the record leaves their bounds open,
    /// and the shorter one is the better known.
    pub fn at(&self, address: u64, node: NodeId) -> Option<Meaning<'_>> {
        let mut buffer: Option<(u32, BufferId, &Memory)> = None;
        let mut live = None;
        let mut freed = None;
        for piece in self.containing(address) {
            match piece.known {
                Known::Buffer { id, life, .. } if life.covers(node) => {
                    let length = life.length();
                    if buffer.is_none_or(|(shortest, ..)| length < shortest) {
                        buffer = Some((length, id, piece));
                    }
                }
                Known::Buffer { life, .. } if life.over_at(node) => freed = Some(piece),
                Known::Buffer { .. } => {}
                Known::Live => live = Some(piece),
                Known::Freed => freed = freed.or(Some(piece)),
            }
        }
        match (buffer, live, freed) {
            (Some((_, id, piece)), ..) => Some(Meaning::Buffer(id, piece)),
            (None, Some(piece), _) => Some(Meaning::Live(piece)),
            (None, None, piece) => piece.map(Meaning::Freed),
        }
    }

    /// The buffers that were there when `node` was recorded, with the bytes of each
    /// that an address may stand for.
    pub(crate) fn buffers_at(&self, node: NodeId) -> impl Iterator<Item = (BufferId, ByteRange)> {
        self.pieces
            .iter()
            .filter_map(move |piece| match piece.known {
                Known::Buffer { id, bytes, life } if life.covers(node) => Some((id, bytes)),
                _ => None,
            })
    }

    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The pieces that hold the byte at `address`.
    fn containing(&self, address: u64) -> impl Iterator<Item = &Memory> {
        let end = self
            .pieces
            .partition_point(|piece| piece.range.start <= address);
        (0..end)
            .rev()
            .take_while(move |&at| self.reach[at] > address)
            .map(|at| &self.pieces[at])
            .filter(move |piece| piece.range.contains_byte(address))
    }
}
