//! The book of an arena: its segments, who uses them, and how far each view has
//! got in each.
//!
//! A segment is one address range that grows at its end, piece by piece, where
//! the backing can do that. A view takes spans from it front to back and never
//! gives one back before it ends, so one number says what is left for the view,
//! how much of the segment a lease covers, and which pieces at the end nobody
//! needs. This is state alone: the arena locks it and talks to the backing.

use std::collections::BTreeMap;
use std::sync::Arc;

use streamweir_base::ALIGNMENT;
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

/// What the end of a pool in one segment has room for already: bytes that the
/// view took before and that are free for the stream that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) segment: SegmentId,
    pub(crate) range: ByteRange,
}

/// What a view asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    /// How many bytes in one piece, whole units of the alignment.
    pub(super) bytes: u64,
    /// Where there is room, a multiple of this many.
    pub(super) step: u64,
    /// What counts towards the bytes where the piece can follow it.
    pub(super) tails: &'a [Tail],
}

impl Want<'_> {
    /// The bytes that are missing in a segment of which the view has taken all
    /// below `address`.
    fn missing(&self, segment: SegmentId, address: u64) -> u64 {
        let mut tails = self.tails.iter();
        let tail = tails.find(|tail| tail.segment == segment && tail.range.end == address);
        // Longer than wanted it is only when another thread has freed meanwhile.
        (self
            .bytes
            .saturating_sub(tail.map_or(0, |tail| tail.range.len())))
        .max(ALIGNMENT)
    }
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

/// A view that is open.
#[derive(Debug)]
struct Open {
    capture: Arc<str>,
    /// Bytes that it took, by segment.
    used: BTreeMap<SegmentId, u64>,
}

/// Who holds bytes of an arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The capture, by the name that its view was opened for.
    pub capture: Arc<str>,
    /// The bytes that it took, over all segments.
    pub bytes: u64,
    /// Whether the capture has succeeded, so that its graph holds them.
    pub graph: bool,
}

#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: BTreeMap<SegmentId, Segment>,
    views: BTreeMap<ViewId, Open>,
    /// By the view that it came from.
    leased: BTreeMap<ViewId, Holder>,
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

    pub(super) fn open(&mut self, capture: Arc<str>) -> ViewId {
        let id = ViewId(self.fresh());
        let used = BTreeMap::new();
        self.views.insert(id, Open { capture, used });
        id
    }

    pub(super) fn holders(&self) -> Vec<Holder> {
        let open = self.views.values().map(|view| Holder {
            capture: Arc::clone(&view.capture),
            bytes: view.used.values().sum(),
            graph: false,
        });
        let mut holders: Vec<Holder> = self.leased.values().cloned().chain(open).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
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

    /// What a view without room for what it wants needs: the newest segment made
    /// longer by what is missing, in steps of `step`, or a segment of at least
    /// `least`. The caller is the one that grows.
    pub(super) fn plan(&mut self, view: ViewId, want: Want<'_>, step: u64, least: u64) -> Growth {
        let otherwise = want.bytes.max(least);
        let Some((&segment, last)) = self.segments.last_key_value() else {
            return Growth::New { bytes: otherwise };
        };
        let (range, taken) = (last.range(), self.taken(view, segment));
        let Some(&piece) = last.pieces.last() else {
            return Growth::New { bytes: otherwise };
        };
        let room = range.len() - taken;
        let missing = want.missing(segment, range.start + taken);
        self.extending = Some(segment);
        Growth::Extend {
            segment,
            piece,
            bytes: missing.saturating_sub(room - room % ALIGNMENT).max(step),
            otherwise,
        }
    }

    fn taken(&self, view: ViewId, segment: SegmentId) -> u64 {
        let view = self.views.get(&view);
        let taken = view.and_then(|view| view.used.get(&segment));
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

    /// A span that is enough, from the segment that has to give least for it, and
    /// of those the one with the least room; whole steps where there is room.
    pub(super) fn grant(&mut self, view: ViewId, want: Want<'_>) -> Option<Span> {
        let used = &mut self.views.get_mut(&view)?.used;
        let offer = |(&segment, book): (&SegmentId, &Segment)| {
            let range = book.range();
            let taken = used.get(&segment).copied().unwrap_or(0);
            let free = ByteRange::new(range.start + taken, range.end);
            let missing = want.missing(segment, free.start);
            (free.len() >= missing).then_some((missing, free.len(), segment, free.start))
        };
        let (missing, room, segment, start) = self.segments.iter().filter_map(offer).min()?;
        let whole = missing.checked_next_multiple_of(want.step);
        // The backing may give a segment whose length is no multiple of the
        // alignment: its last bytes stay unused.
        let room = room - room % ALIGNMENT;
        let len = whole.unwrap_or(missing).min(room).max(missing);
        *used.entry(segment).or_default() += len;
        Some(Span {
            segment,
            range: ByteRange::new(start, start + len),
        })
    }

    /// Ends a view that succeeded: the bytes it took, by segment.
    pub(super) fn commit(&mut self, view: ViewId) -> Option<Vec<Span>> {
        let Open { capture, used } = self.views.remove(&view)?;
        let holder = Holder {
            capture,
            bytes: used.values().sum(),
            graph: true,
        };
        self.leased.insert(view, holder);
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

    pub(super) fn end_lease(&mut self, view: ViewId, covered: &[Span]) {
        self.leased.remove(&view);
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
            let open = views.values().filter_map(|view| view.used.get(id)).max();
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
