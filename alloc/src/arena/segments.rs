//! The book of an arena: its segments, who uses them, and how far each view has
//! got in each.
//!
//! A segment is one address range that grows at its end, piece by piece, where
//! the backing can do that. A view takes spans from it front to back and never
//! gives one back before it ends, so one number says what is left for the view,
//! how much of the segment a lease covers, and which pieces at the end nobody
//! needs. This is state alone: the arena locks it and talks to the backing.

use std::collections::BTreeMap;

use streamweir_trace::ByteRange;

/// A segment; never used for another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(u64);

/// A view; never used for another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ViewId(u64);

/// A part of one segment, given to one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) segment: SegmentId,
    pub(crate) range: ByteRange,
}

#[derive(Debug)]
struct Segment {
    /// Each begins where the one before ends. Never empty.
    pieces: Vec<ByteRange>,
    /// For each lease the bytes that it covers from the start, and how many
    /// leases cover as many.
    leases: BTreeMap<u64, usize>,
    /// The most that a capture which succeeded ever used.
    committed: u64,
}

/// How to make room.
#[derive(Clone, Copy, Debug)]
pub(super) enum Growth {
    /// A new segment.
    New { bytes: u64 },
    /// The segment behind this piece, its last one, or else a new one of
    /// `otherwise` bytes.
    Extend {
        segment: SegmentId,
        piece: ByteRange,
        bytes: u64,
        otherwise: u64,
    },
}

#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: BTreeMap<SegmentId, Segment>,
    /// For each open view the bytes it took, by segment.
    views: BTreeMap<ViewId, BTreeMap<SegmentId, u64>>,
    next: u64,
    /// Whether somebody is making room at this moment.
    pub(super) growing: bool,
    /// The segment that is being made longer: its last piece stays.
    extending: Option<SegmentId>,
}

impl Segment {
    fn range(&self) -> ByteRange {
        let start = self.pieces.first().map_or(0, |piece| piece.start);
        ByteRange::new(start, self.pieces.last().map_or(start, |piece| piece.end))
    }
}

impl Segments {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn open(&mut self) -> ViewId {
        let id = ViewId(self.fresh());
        self.views.insert(id, BTreeMap::new());
        id
    }

    pub(super) fn is_open(&self, view: ViewId) -> bool {
        self.views.contains_key(&view)
    }

    pub(super) fn reserved(&self) -> u64 {
        self.segments.values().map(|s| s.range().len()).sum()
    }

    pub(super) fn ranges(&self) -> Vec<ByteRange> {
        self.segments.values().map(Segment::range).collect()
    }

    /// What the backing gave, piece by piece.
    pub(super) fn pieces(&self) -> Vec<ByteRange> {
        let segments = self.segments.values();
        segments.flat_map(|s| s.pieces.iter().copied()).collect()
    }

    /// What a view without room for `bytes` needs: the newest segment made
    /// longer by what is missing, in steps of `step`, or a segment of at least
    /// `least`. The caller is the one that grows.
    pub(super) fn plan(&mut self, view: ViewId, bytes: u64, step: u64, least: u64) -> Growth {
        let otherwise = bytes.max(least);
        let Some((&segment, last)) = self.segments.last_key_value() else {
            return Growth::New { bytes: otherwise };
        };
        let taken = self.taken(view, segment);
        let (Some(&piece), room) = (last.pieces.last(), last.range().len() - taken) else {
            return Growth::New { bytes: otherwise };
        };
        self.extending = Some(segment);
        Growth::Extend {
            segment,
            piece,
            bytes: bytes
                .saturating_sub(room - room % crate::ALIGNMENT)
                .max(step),
            otherwise,
        }
    }

    fn taken(&self, view: ViewId, segment: SegmentId) -> u64 {
        let taken = self.views.get(&view).and_then(|used| used.get(&segment));
        taken.copied().unwrap_or(0)
    }

    pub(super) fn push(&mut self, range: ByteRange) {
        let id = SegmentId(self.fresh());
        let segment = Segment {
            pieces: vec![range],
            leases: BTreeMap::new(),
            committed: 0,
        };
        self.segments.insert(id, segment);
    }

    /// Adds a piece that begins where the segment ends.
    pub(super) fn extend(&mut self, segment: SegmentId, piece: ByteRange) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.pieces.push(piece);
        }
    }

    /// Nobody makes room any more.
    pub(super) fn end_growth(&mut self) {
        self.growing = false;
        self.extending = None;
    }

    /// A span of at least `bytes` from the segment with the least room that is
    /// enough; `span_bytes` of it where there are as many.
    pub(super) fn grant(&mut self, view: ViewId, bytes: u64, span_bytes: u64) -> Option<Span> {
        let used = self.views.get_mut(&view)?;
        let room =
            |id: &SegmentId, range: ByteRange| range.len() - used.get(id).copied().unwrap_or(0);
        let (id, range) = self
            .segments
            .iter()
            .map(|(&id, segment)| (id, segment.range()))
            .filter(|&(id, range)| room(&id, range) >= bytes)
            .min_by_key(|&(id, range)| room(&id, range))?;

        let room = room(&id, range);
        let before = range.len() - room;
        let want = bytes.checked_next_multiple_of(span_bytes).unwrap_or(bytes);
        // The backing may give a segment whose length is no multiple of the
        // alignment: its last bytes stay unused.
        let len = want.min(room - room % crate::ALIGNMENT).max(bytes);
        let start = range.start + before;
        used.insert(id, before + len);
        Some(Span {
            segment: id,
            range: ByteRange::new(start, start + len),
        })
    }

    /// Ends a view that succeeded: the bytes it took, by segment.
    pub(super) fn commit(&mut self, view: ViewId) -> Option<Vec<Span>> {
        let used = self.views.remove(&view)?;
        let mut covered = Vec::with_capacity(used.len());
        for (id, bytes) in used {
            if let Some(segment) = self.segments.get_mut(&id) {
                segment.committed = segment.committed.max(bytes);
                *segment.leases.entry(bytes).or_default() += 1;
                let start = segment.range().start;
                covered.push(Span {
                    segment: id,
                    range: ByteRange::new(start, start + bytes),
                });
            }
        }
        Some(covered)
    }

    /// Ends a view that failed: the pieces to hand back.
    pub(super) fn abort(&mut self, view: ViewId) -> Vec<ByteRange> {
        self.views.remove(&view);
        self.take_unwanted()
    }

    pub(super) fn end_lease(&mut self, covered: &[Span]) {
        for span in covered {
            let Some(segment) = self.segments.get_mut(&span.segment) else {
                continue;
            };
            let bytes = span.range.len();
            if let Some(count) = segment.leases.get_mut(&bytes) {
                *count -= 1;
                if *count == 0 {
                    segment.leases.remove(&bytes);
                }
            }
        }
    }

    /// The pieces that nobody uses and no capture that succeeded ever used.
    pub(super) fn take_unwanted(&mut self) -> Vec<ByteRange> {
        self.take(|segment, needed| needed.max(segment.committed))
    }

    /// The pieces that nobody uses.
    pub(super) fn take_unused(&mut self) -> Vec<ByteRange> {
        self.take(|segment, needed| {
            segment.committed = needed;
            needed
        })
    }

    /// Takes the pieces at the end of each segment that begin behind the bytes
    /// which `keep` says, given how many views and leases need.
    fn take(&mut self, mut keep: impl FnMut(&mut Segment, u64) -> u64) -> Vec<ByteRange> {
        let mut taken = Vec::new();
        let (views, extending) = (&self.views, self.extending);
        self.segments.retain(|id, segment| {
            let open = views.values().filter_map(|used| used.get(id)).max();
            let leased = segment.leases.last_key_value().map(|(bytes, _)| bytes);
            let needed = open.max(leased).copied().unwrap_or(0);
            if extending == Some(*id) {
                return true;
            }
            let keep = segment.range().start + keep(segment, needed);
            while let Some(piece) = segment.pieces.pop_if(|piece| piece.start >= keep) {
                taken.push(piece);
            }
            !segment.pieces.is_empty()
        });
        taken
    }
}
